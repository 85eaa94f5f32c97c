"""An excerpt: as much of a text as there is room for, and the mark that says what is missing. Pure."""

from __future__ import annotations

from runner.inert import Excerpt, inert

EARLIER_BYTES = 50_000
"""Of what a stage or a phase brought that those after it are shown."""


def first_bytes(text: str, most: int) -> str:
    """The beginning of a text that has at most so many bytes; a character is never split."""
    return text[:most].encode()[:most].decode("utf-8", "ignore")


def size_in_bytes(text: str) -> int:
    """The bytes of a text; most are ASCII, where characters are bytes, and a long one is not copied to be measured."""
    return len(text) if text.isascii() else len(text.encode())


def fitting(text: str, most: int) -> str:
    """As much of a text as fits into so many bytes once it is inert."""
    kept = text.encode()[:most].decode(errors="ignore")
    while (over := len(inert(kept).encode()) - most) > 0:
        kept = kept[: -max(1, over // 4)]  # a letter has four bytes at most
    return kept


def excerpt(text: str, most: int, source: str | None) -> str:
    """A text, or as much of it as fits into so many bytes, with the mark; `source` as in `cut_mark`."""
    kept = fitting(text, most)
    return text if len(kept) == len(text) else Excerpt(inert(kept) + cut_mark(len(kept), len(text), source))


def cut_mark(kept: int, length: int, source: str | None) -> str:
    """Says after how many characters a text was cut, and how to read on; `source` is its id, where that is possible."""
    rest = f"; read_result(execution_id={source!r}, offset={kept}) continues" if source is not None else ""
    return f"\n[cut after {kept} of {length} characters{rest}]"
