"""Inert text: what comes from outside stands in a prompt without a mark of ours, and cannot open or close a block."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from runner.marks import BLOCKS, disarmed
from runner.transcript import clean

__all__ = ["BLOCKS", "Excerpt", "beside", "inert", "inert_data", "label"]


class Excerpt(str):
    """Text from outside that is inert already, and ends with a mark of ours."""

    __slots__ = ()


def inert(text: str) -> str:
    """Text from outside as a model may read it."""
    return text if isinstance(text, Excerpt) else disarmed(clean(text))


def inert_data(value: Any) -> Any:
    """A JSON value in which every text is inert."""
    if isinstance(value, str):
        return inert(value)
    if isinstance(value, list | tuple):
        return [inert_data(each) for each in value]
    if isinstance(value, Mapping):
        return {inert(str(key)): inert_data(each) for key, each in value.items()}
    return value


def label(text: str) -> str:
    """Text as it stands in a tag, or as the name of somebody: on one line, and without quotes or brackets of its own."""
    return inert(escape(" ".join(text.split())))


def beside(task: str, *blocks: str) -> str:
    """A task and the blocks that stand beside it."""
    return "\n\n".join(part for part in (inert(task), *blocks) if part) if blocks else inert(task)
