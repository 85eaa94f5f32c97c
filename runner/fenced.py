"""The JSON in an answer that is text: the whole of it, or the one fenced block it has, whatever is said around that."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

FENCE = "```"


def json_of(text: str) -> Any:
    """The value an answer spells; raises ValueError with the reason when it spells none."""
    lines = text.split("\n")  # and nowhere else: no other line break can stand inside a JSON text and be left out
    fences = [number for number, line in enumerate(lines) if line.lstrip().startswith(FENCE)]
    if len(fences) == 2:  # where one begins, and where it ends
        text = "\n".join(lines[fences[0] + 1 : fences[1]])
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        meant = text.lstrip().startswith(("{", "[", '"'))  # where JSON was tried, the place helps
        raise ValueError(f"it is not JSON: {error}" if meant else "it is not JSON") from None
