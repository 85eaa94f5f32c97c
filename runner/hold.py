"""A hold: an execution that has its row and must not begin before its parent says so. A step of a plan has one.

Owns the wait and how it ends: released, or dismissed for good. What an execution is to do may depend on those before it,
so its first message is given to it with its release.
"""

from __future__ import annotations

from db.latch import Latch
from runner.cause import Dismissal


class Hold:
    """Waits for one of two words; the first counts."""

    __slots__ = ("_dismissal", "_said")

    def __init__(self) -> None:
        self._said = Latch()
        self._dismissal: Dismissal | None = None

    @property
    def waits(self) -> bool:
        """Whether nobody has said anything yet."""
        return not self._said.is_set

    def release(self) -> None:
        """It may begin."""
        self._said.set()

    def dismiss(self, dismissal: Dismissal) -> None:
        """It will never begin."""
        if self.waits:
            self._dismissal = dismissal
            self._said.set()

    async def wait(self) -> Dismissal | None:
        """None when it may begin, else how it ends instead."""
        await self._said.wait()
        return self._dismissal
