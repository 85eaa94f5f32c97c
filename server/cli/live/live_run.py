"""A launch: one tree, run in this process and watched until it ends; the keyboard can stop it.

Owns the signals and the order of things: begin, watch, tell the end, then close. Must not know: what is begun, and where
that came from. Invariant: an interruption asks the tree to stop and goes on showing it; a termination, or a terminal that
closes, comes to rest and leaves the tree to be resumed. A second signal exits at once: it waits only for the one write that
makes the first true.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import NoReturn

import anyio
from anyio.abc import TaskGroup

from db.errors import DatabaseUnavailable
from db.store.writer import Writer
from runner.service.dispatcher import Dispatcher
from runner.service.order import Order
from runner.snapshot import Snapshot
from server.app import Blueprint, open_service
from server.cli.live.approval_prompt import ApprovalPrompt, can_ask_here
from server.cli.show.report import EndedRun
from server.cli.show.tree_view import TreeView
from server.cli.terminal.exits import CommandError, Exit, explain
from server.cli.terminal.options import person
from server.cli.terminal.output import tell as tell_failure
from server.shutdown import come_to_rest, leave_after, polite_stops

LEAVE_SECONDS = 3.0
"""How long leaving at once may take: enough to stop upstream processes, short enough to be at once."""

CANCEL_SECONDS = 1.5
"""How long leaving at once waits before that for the commit of the cancel."""
_CANCELS = {"requested": "the tree is cancelled", "already_finished": "the tree has ended"}
"""What the answer to a cancel means for the tree."""

CATCH_UP_SECONDS = 1.0
LOOK_SECONDS = 0.5
"""Between looks at whether the database can be written."""


Signals = AsyncIterator[signal.Signals]
"""Those that came, one after the other."""

Begin = Callable[[Dispatcher], Awaitable[Snapshot]]
"""Starts or resumes the tree."""


Afterwards = Callable[[Dispatcher], Awaitable[None]]
"""What is waited for once the end is told; a signal ends that wait."""


def ordered(order: Order) -> Begin:
    """A tree that begins with an order."""
    return lambda service: service.start(order)


class LiveRun:
    """One tree, started or resumed from this terminal."""

    def __init__(
        self, at: Blueprint | Dispatcher, begin: Begin, view: TreeView, afterwards: Afterwards | None = None
    ) -> None:
        self._at, self._begin, self._view, self._afterwards = at, begin, view, afterwards
        """A service of its own, or one that goes on afterwards."""
        self._told: signal.Signals | None = None
        """The first signal."""
        self._at_work: tuple[Dispatcher, TaskGroup] | None = None
        """The service, and what ends before it closes."""
        self._root: str | None = None
        self._is_here = True
        """Whether this process runs it: an execution that a key was used for before may have ended, or run in another."""
        self._cancel_over = anyio.Event()
        """The cancel that the first signal asks for is committed, or refused."""
        self._cancelled: str | None = None
        """Its answer."""
        self._ended: EndedRun | None = None

    async def run(self, tell: Callable[[EndedRun], None]) -> EndedRun:
        """Run the tree; `tell` hears of its end before the service closes. Raises CommandError when left early."""
        with anyio.open_signal_receiver(signal.SIGINT, *polite_stops()) as signals:
            return await self.run_minding(signals, tell)

    async def run_minding(self, signals: Signals, tell: Callable[[EndedRun], None]) -> EndedRun:
        """The same, for a caller that handles these signals before and afterwards."""
        async with anyio.create_task_group() as group:
            scope = anyio.CancelScope()
            group.start_soon(self._mind, signals, scope, name="mind signals")
            with scope:
                await self._carry_out(tell)
            group.cancel_scope.cancel()
        if self._ended is None:
            raise self._left()
        return self._ended

    async def _carry_out(self, tell: Callable[[EndedRun], None]) -> None:
        opened = open_service(self._at) if isinstance(self._at, Blueprint) else nullcontext(self._at)
        async with opened as service:
            await self._watched(service, tell)
            if self._afterwards is not None:
                await self._afterwards(service)

    async def _watched(self, service: Dispatcher, tell: Callable[[EndedRun], None]) -> None:
        async with anyio.create_task_group() as watchers:
            self._at_work = service, watchers
            watchers.start_soon(self._view.paint, name="paint the tree")
            watchers.start_soon(self._tell_trouble, service.services.database.writer, name="tell of trouble")
            try:
                started = await self._begin(service)
                self._root = started.id
                self._is_here = service.tree.get(started.id) is not None
                if not self._is_here:
                    await self._tell_earlier(service, started)
                watchers.start_soon(self._view.follow, service.events(started.id), name="follow the tree")
                if can_ask_here():
                    asking = ApprovalPrompt(service.approvals, self._view.painter)
                    watchers.start_soon(asking.run, started.id, name="ask the person at the terminal")
                if self._interrupted:  # it came while the first row was being written
                    await self._cancel_or_leave(service, started.id)
                child = await service.wait(started.id)
                if not child.ended:
                    hint = f"`outrider resume {child.id}` resumes it"
                    raise CommandError("the process that ran it is gone, and it has not ended", hint, Exit.FAILED)
                ended = await self._end_of(service, child)
            finally:
                self._at_work = None
                watchers.cancel_scope.cancel()
                self._view.finish()
            self._ended = ended
            tell(ended)

    async def _tell_earlier(self, service: Dispatcher, child: Snapshot) -> None:
        short = await service.services.database.reads.short(child.id)
        self._view.painter.say(f"the key was used before: this is execution {short} ({child.status}); nothing was started")

    async def _tell_trouble(self, writer: Writer) -> None:
        """Tell the watcher why the tree stands still."""
        told = False
        while True:
            trouble = writer.trouble
            if trouble is not None and not told:
                self._view.painter.say(f"{trouble.reason}; running executions wait until it ends; {trouble.hint}")
            elif trouble is None and told:
                self._view.painter.say("the database can be written again")
            told = trouble is not None
            await anyio.sleep(LOOK_SECONDS)

    async def _end_of(self, service: Dispatcher, child: Snapshot) -> EndedRun:
        reads = service.services.database.reads
        with anyio.move_on_after(CATCH_UP_SECONDS):  # the last events were committed; let the picture have them
            await self._view.over.wait()
        pricing = await reads.pricing(child.id)
        remarks = [f"{node.agent}: {remark}" for node in self._view.model.nodes.values() for remark in node.notes]
        rows = await reads.tree(child.id)
        return EndedRun(
            child=replace(child, elapsed=rows[0]["own_seconds"]),  # as rows tell: a resumed tree began before
            rows=rows,
            pricing=frozenset(kind for kinds in pricing.values() for kind in kinds),
            remarks=remarks,
            short_id=await reads.short(child.id),
            interrupted=self._interrupted,
            earlier=not self._is_here,
        )

    @property
    def _interrupted(self) -> bool:
        return self._told is signal.SIGINT

    async def _mind(self, signals: Signals, scope: anyio.CancelScope) -> None:
        self._told = await anext(signals)
        cancels = self._at_work is not None and self._interrupted and self._is_here
        if self._at_work is None:
            self._leave(scope)
        else:
            self._end_early(*self._at_work, scope)
        await anext(signals)
        async with anyio.create_task_group() as leaving:
            if cancels:
                leaving.start_soon(self._leave_cancelled, scope, name="leave")
            else:
                self._leave(scope)
            await anext(signals)
            self._leave_now()

    def _end_early(self, service: Dispatcher, watchers: TaskGroup, scope: anyio.CancelScope) -> None:
        if not self._interrupted:
            self._view.painter.say("stopping once running calls have ended; a second signal exits at once")
            watchers.start_soon(self._stop, service, scope, name="come to rest")
            return
        if not self._is_here:  # another process runs it for its own caller
            self._leave(scope)
            return
        self._view.painter.say("cancelling; interrupt again to exit at once")
        if self._root is not None:
            watchers.start_soon(self._cancel, service, self._root, name="cancel the tree")

    async def _stop(self, service: Dispatcher, scope: anyio.CancelScope) -> None:
        """Ask no model any more; what is left then, unless the tree has come to its end meanwhile, is to be resumed."""
        await come_to_rest(service, "keep", "stopped", self._leave_now)
        if self._root is None or service.tree.get(self._root) is not None:
            scope.cancel("stopped")

    async def _leave_cancelled(self, scope: anyio.CancelScope) -> None:
        """Leave once the cancel is committed: a tree that is only interrupted would be resumed."""
        with anyio.move_on_after(CANCEL_SECONDS):
            await self._cancel_over.wait()
        self._leave(scope)

    def _leave(self, scope: anyio.CancelScope) -> None:
        leave_after(LEAVE_SECONDS, self._leave_now)
        scope.cancel("left")

    def _leave_now(self) -> NoReturn:
        """End the process, whatever it waits for: what was acknowledged is committed, and the rest is resumed."""
        left = self._left()
        tell_failure(explain(left))
        os._exit(left.code)

    async def _cancel_or_leave(self, service: Dispatcher, root: str) -> None:
        if not self._is_here:
            raise self._left()
        await self._cancel(service, root)

    async def _cancel(self, service: Dispatcher, root: str) -> None:
        try:
            self._cancelled = await service.cancel(root, by=person(), reason="interrupted from the keyboard")
        except DatabaseUnavailable as error:
            self._view.painter.say(f"not cancelled: {error}; interrupt again to exit at once")
        self._cancel_over.set()

    def _left(self) -> CommandError:
        verb, code = ("interrupted", Exit.INTERRUPTED) if self._interrupted else ("stopped", Exit.STOPPED)
        if self._root is None:
            return CommandError(f"{verb} before anything was started", code=code)
        go_on = f"`outrider resume {self._root}` resumes it"
        if not self._interrupted:
            return CommandError("stopped before the end", f"{go_on}, and so does the next `outrider serve`", code)
        shown = f"`outrider show {self._root}` shows its progress"
        if self._cancelled is not None:
            return CommandError("exited before the end was shown", f"{_CANCELS[self._cancelled]}; {shown}", code)
        if not self._is_here:
            return CommandError("exited before the end", f"{shown}; nothing was stopped", code)
        if not self._cancel_over.is_set():
            return CommandError("exited before the cancel was confirmed", f"{shown}; cancel it again if it is open", code)
        return CommandError("exited before the end", f"{shown}, {go_on}", code)
