"""Items: one line of a shelf's file each."""

from dataclasses import dataclass
from datetime import date


@dataclass
class Item:
    """So many of something, and the day until which it is good."""

    name: str
    count: int
    best_before: date


def parse_item(line: str) -> Item:
    """Read a line such as `rice, 2, 2031-05-01`; raises ValueError if it is none."""
    name, count, day = (part.strip() for part in line.split(","))
    return Item(name, int(count), date.fromisoformat(day))
