"""A launch: one tree, run in this process and watched until it ends; the keyboard can stop it.

Owns the signals and the order of things: begin, watch, tell the end, then close. Must not know: what is begun, and where
that came from. Invariant: the first interruption asks the tree to stop and goes on showing it, the second leaves at once.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import anyio
from anyio.abc import TaskGroup

from db.errors import DatabaseUnavailable
from db.writer import Writer
from runner.dispatcher import Dispatcher, Order
from runner.handle import Child
from server.app import Blueprint, open_service
from server.cli.exits import CommandError, Exit
from server.cli.messages import error as say_error
from server.cli.options import person
from server.cli.tree_view import TreeView

LEAVE_SECONDS = 3.0
"""How long leaving at once may take: enough to stop upstream processes, short enough to be at once."""

CATCH_UP_SECONDS = 1.0
LOOK_SECONDS = 0.5
"""Between looks at whether the database can be written."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How an order ended."""

    child: Child
    rows: Sequence[Mapping[str, Any]]
    """Its tree, parents before children, with subtree sums."""
    pricing: frozenset[str]
    """How its model calls were priced: `rehearsed`, `priced` …"""
    remarks: Sequence[str]
    """What upstream servers did to it."""
    short_id: str
    interrupted: bool = False


Begin = Callable[[Dispatcher], Awaitable[Child]]
"""Starts the tree, or goes on with one."""


def ordered(order: Order) -> Begin:
    """A tree that begins with an order."""
    return lambda service: service.start(order)


class Launch:
    """One tree on its way."""

    def __init__(self, blueprint: Blueprint, begin: Begin, view: TreeView) -> None:
        self._blueprint, self._begin, self._view = blueprint, begin, view
        self._interruptions = 0
        self._service: Dispatcher | None = None
        self._root: str | None = None
        self._ended: Ended | None = None

    async def run(self, tell: Callable[[Ended], None]) -> Ended:
        """Run the tree; `tell` hears of its end before the service closes. Raises CommandError when left early."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with anyio.create_task_group() as group:
                scope = anyio.CancelScope()
                group.start_soon(self._mind, signals, scope, group, name="mind the keyboard")
                with scope:
                    await self._carry_out(tell)
                group.cancel_scope.cancel()
        if self._ended is None:
            raise self._left()
        return self._ended

    async def _carry_out(self, tell: Callable[[Ended], None]) -> None:
        async with open_service(self._blueprint) as service, anyio.create_task_group() as watchers:
            self._service = service
            watchers.start_soon(self._view.paint, name="paint the tree")
            watchers.start_soon(self._tell_trouble, service.services.database.writer, name="tell of trouble")
            try:
                started = await self._begin(service)
                self._root = started.id
                watchers.start_soon(self._view.follow, service, started.id, name="follow the tree")
                if self._interruptions:  # it came while the first row was being written
                    await self._cancel(service, started.id)
                ended = await self._end_of(service, await service.wait(started.id))
            finally:
                watchers.cancel_scope.cancel()
                self._view.finish()
            self._ended = ended
            tell(ended)

    async def _tell_trouble(self, writer: Writer) -> None:
        """Somebody who watches a tree that stands still should know why."""
        told = False
        while True:
            trouble = writer.trouble
            if trouble is not None and not told:
                self._view.painter.say(f"{trouble.reason}; what runs waits for its end; {trouble.hint}")
            elif trouble is None and told:
                self._view.painter.say("the database can be written again")
            told = trouble is not None
            await anyio.sleep(LOOK_SECONDS)

    async def _end_of(self, service: Dispatcher, child: Child) -> Ended:
        reads = service.services.database.reads
        with anyio.move_on_after(CATCH_UP_SECONDS):  # the last events were committed; let the picture have them
            await self._view.over.wait()
        pricing = await reads.pricing(child.id)
        remarks = [f"{node.agent}: {remark}" for node in self._view.model.nodes.values() for remark in node.notes]
        return Ended(
            child=child,
            rows=await reads.tree(child.id),
            pricing=frozenset(kind for kinds in pricing.values() for kind in kinds),
            remarks=remarks,
            short_id=await reads.short(child.id),
            interrupted=self._interruptions > 0,
        )

    async def _mind(self, signals: AsyncIterator[signal.Signals], scope: anyio.CancelScope, group: TaskGroup) -> None:
        async for _ in signals:
            self._interruptions += 1
            if self._interruptions == 1 and self._service is not None:
                self._view.painter.say("cancelling; interrupt once more to leave at once")
                if self._root is not None:
                    group.start_soon(self._cancel, self._service, self._root, name="cancel the tree")
            elif self._interruptions <= 2:
                leave = threading.Timer(LEAVE_SECONDS, self._leave_now)
                leave.daemon = True
                leave.start()
                scope.cancel("interrupted")
            else:
                self._leave_now()

    def _leave_now(self) -> NoReturn:
        """End the process, whatever it waits for: what was acknowledged is committed, the rest is lost anyway."""
        left = self._left()
        say_error(str(left), left.hint)
        os._exit(left.code)

    async def _cancel(self, service: Dispatcher, root: str) -> None:
        try:
            await service.cancel(root, by=person(), reason="interrupted from the keyboard")
        except DatabaseUnavailable as error:
            self._view.painter.say(f"not cancelled: {error}; interrupt once more to leave at once")

    def _left(self) -> CommandError:
        if self._root is None:
            return CommandError("interrupted before anything was started", code=Exit.INTERRUPTED)
        hint = f"`outrider show {self._root}` tells how far it came, `outrider resume {self._root}` goes on with it"
        return CommandError("left before the end", hint, Exit.INTERRUPTED)
