"""The command `pantry`: what to eat first, and what to buy."""

import sys
from datetime import date
from pathlib import Path

from .shelf import Shelf


def shopping_list(shelf: Shelf) -> str:
    """Write what has run out, one line each."""
    return "\n".join(f"- {name}" for name in shelf.missing())


def main() -> None:
    """Print the report on the shelf whose file is the first argument."""
    shelf = Shelf.read(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for item in shelf.next_to_eat(date.today()):
        print(f"{item.best_before}: {item.name}")
    print(shopping_list(shelf))
