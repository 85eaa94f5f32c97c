"""Facts about work items: what happens on a board. Frozen; `runner/recorder.py` alone acts on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from db.work_items import Author, ItemChange, NewItem


@dataclass(frozen=True, slots=True)
class ItemAdded:
    """An execution has something to be done; `earlier` is how many of that title it has added before."""

    author: Author
    item: NewItem
    earlier: int


@dataclass(frozen=True, slots=True)
class ItemChanged:
    """An item has come further."""

    author: Author
    change: ItemChange


@dataclass(frozen=True, slots=True)
class ItemsPutUp:
    """A configuration has items, by their numbers."""

    items: Mapping[int, NewItem]


ItemFact = ItemAdded | ItemChanged | ItemsPutUp
