"""Shutdown: stop a service without cutting calls in flight.

Owns whether the service is stopping and how many model and tool calls are in flight; it does not know what they are.
Invariant: once `parking`, no model call starts. An execution that wants one waits, and the next process resumes it from its
rows. Tools of a stored turn still run: after a restart, an unstarted call could not be told from a lost one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType

import anyio
from anyio.abc import TaskGroup

from db.latch import Latch


class Shutdown:
    """Counts calls in flight: `with draining:` around each call."""

    __slots__ = ("_idle", "_under_way", "parking", "stopping")

    def __init__(self) -> None:
        self.stopping = False
        """Whether new orders are refused."""
        self.parking = False
        """Whether model calls no longer start."""
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
        """Do not count a call while it only waits for an agent or a person."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()

    async def until_at_rest(self, alive: Callable[[], Iterable[str]], written: Callable[[], Awaitable[None]]) -> None:
        """Return when no call is in flight and the resulting ends and spawns are `written`."""
        before: set[str] | None = None
        while self._under_way or before != set(alive()):
            while self._under_way:
                self._idle = Latch()
                await self._idle.wait()
            before = set(alive())
            await written()


class ShelteredGroup:
    """A task group that only its owner cancels, by leaving: `async with ShelteredGroup(name) as group`.

    A second signal often cancels the whole service. Executions must then get their cause before their scopes are cancelled:
    one cancelled without a cause would take that for an end and withdraw its approvals, and a tool call whose connection
    was closed would look answered.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._host = anyio.create_task_group()
        self._open = anyio.Event()
        self._group: TaskGroup | None = None

    async def __aenter__(self) -> TaskGroup:
        await self._host.__aenter__()
        self._host.start_soon(self._hold, name=self._name)
        # Shielded, because an owner cancelled here could neither leave the host nor end the task. The wait is short: the
        # task sets the event before its first await. `start` would cancel the task, which is shielded from that.
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
            # None of these tasks raises, so the error is the owner's: it propagates as it is, not inside a group.
            await self._host.__aexit__(None, None, None)
            return None
        return await self._host.__aexit__(kind, error, trace)
