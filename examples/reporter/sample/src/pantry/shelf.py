"""The shelf: what is there, and what becomes of it."""

from datetime import date

from .items import Item, parse_item


class Shelf:
    """All items, in the order in which they were put there."""

    def __init__(self, items: list[Item]) -> None:
        self.items = items

    @classmethod
    def read(cls, text: str) -> "Shelf":
        """Read a shelf from the text of its file."""
        return cls([parse_item(line) for line in text.splitlines() if line.strip()])

    def take(self, name: str) -> Item:
        """Take one item from the shelf; raises KeyError if none is left."""
        for item in self.items:
            if item.name == name and item.count:
                item.count -= 1
                return item
        raise KeyError(name)

    def missing(self) -> list[str]:
        """Name what has run out."""
        return [item.name for item in self.items if not item.count]

    def next_to_eat(self, today: date) -> list[Item]:
        """List what is still good, the most urgent first."""
        good = [item for item in self.items if item.count and item.best_before >= today]
        return sorted(good, key=lambda item: item.best_before)
