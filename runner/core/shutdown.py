"""Draining: how a service that is to stop comes to rest without cutting what is under way.

Owns whether the service is stopping, and how many model calls and tool calls are under way. Must not know: what they are.
Invariant: once it parks no model is asked any more: whoever wants to stays where it is, and the next process goes on with
it from its rows. The tools of a turn that was stored still run: a call that never ran would have to be doubted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType

import anyio
from anyio.abc import TaskGroup

from db.latch import Latch


class Draining:
    """Counts what is under way: `with draining:` around each call."""

    __slots__ = ("_idle", "_under_way", "parking", "stopping")

    def __init__(self) -> None:
        self.stopping = False
        """Whether nothing new is taken from outside."""
        self.parking = False
        """Whether no model is asked any more."""
        self._under_way = 0
        self._idle = Latch()

    def __enter__(self) -> None:
        self._under_way += 1

    def __exit__(self, *_: object) -> None:
        self._under_way -= 1
        if not self._under_way:
            self._idle.set()

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """For a call that only waits meanwhile, for an agent or for a person: it is not worth waiting for."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()

    async def until_at_rest(self, alive: Callable[[], Iterable[str]], written: Callable[[], Awaitable[None]]) -> None:
        """Return when nothing is under way and what followed from it is `written`: ends, and children that were started."""
        before: set[str] | None = None
        while self._under_way or before != set(alive()):
            while self._under_way:
                self._idle = Latch()
                await self._idle.wait()
            before = set(alive())
            await written()


class ShelteredGroup:
    """A task group that only its owner cancels, by leaving: `async with ShelteredGroup(name) as group`.

    A service is often cancelled as a whole, by a second signal. Then its executions must be told why before anything of
    theirs is cut: an execution that is cancelled without a cause would take that for an end and withdraw its questions, and
    a tool call whose connection is closed under it would look answered.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._host = anyio.create_task_group()
        self._open = anyio.Event()
        self._group: TaskGroup | None = None

    async def __aenter__(self) -> TaskGroup:
        await self._host.__aenter__()
        self._host.start_soon(self._hold, name=self._name)
        # Shielded, because an owner that is cancelled here could neither leave the host nor end the task. It is there at
        # once: the task waits for nothing before it says so. `start` would cancel the task, which is deaf to that.
        with anyio.CancelScope(shield=True):
            await self._open.wait()
        assert self._group is not None
        return self._group

    async def _hold(self) -> None:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as self._group:
                self._open.set()
                await anyio.sleep_forever()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._group is not None
        self._group.cancel_scope.cancel("its owner leaves")
        if isinstance(error, Exception):
            # None of these tasks raises, so the error is the owner's: it goes on as it is, not inside a group.
            await self._host.__aexit__(None, None, None)
            return None
        return await self._host.__aexit__(kind, error, trace)
