"""The subtree of an execution for its strategy and dispatch tools: spawn children, look them up, wait for them, stop them.

Owns spawn, in one order: guard → row (guarded by the parent running, without a cancel request) → task in the parent's
group. There is no await between the commit of the row and the start of the task. A cancellation is delivered only at an
await, so it cannot leave a row without a task; the commit itself is shielded for the same reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import anyio

from db.errors import UnknownExecution
from db.ids import named_among
from db.rows.transcript import ToolOutcome
from db.status import ExecutionStatus
from registry import AgentSpec, CatalogueEntry
from runner.core.execution import Execution
from runner.core.guard import Caller, admit, not_too_deep, permit
from runner.core.inbox import Item
from runner.core.spawn import SpawnRequest, earlier
from runner.core.verdict import Dismissal
from runner.core.views import subtree_usage
from runner.errors import Refusal
from runner.record.facts import Refused, Waiting
from runner.result import Problem, Result
from runner.snapshot import DispatchOrder, Snapshot

CancelChild = Callable[[str, str, str], Awaitable[str]]
"""Cancels an execution: id, requester, reason."""


class ExecutionSubtree:
    """The `Subtree` of one execution of this process."""

    __slots__ = ("_cancel", "_one_key_at_a_time", "_parent")

    def __init__(self, parent: Execution, cancel: CancelChild) -> None:
        self._parent = parent
        self._cancel = cancel
        self._one_key_at_a_time: anyio.Lock | None = None
        """Serialises dispatches with keys: of two calls with the same key, the second waits for the first one's row. Made
        on first use, because few callers use keys."""

    @property
    def catalogue(self) -> Sequence[CatalogueEntry]:
        """The agents it may dispatch."""
        return self._parent.request.catalogue

    @property
    def ended(self) -> Mapping[str, Snapshot]:
        """The ended children by id, including those whose end is unread."""
        return self._parent.children.ended

    # -- spawn ---------------------------------------------------------------------------------------------------------

    async def spawn(self, request: SpawnRequest) -> Snapshot:
        """Start an admitted child; raises Refusal when its parent is stopping or at the maximum depth, or the user lacks a
        capability. A gated or skipped child gets only a row.
        """
        parent, children = self._parent, self._parent.children
        if isinstance(parent.request.agent, AgentSpec):  # the stages of a chain are no deeper than the chain
            not_too_deep(self._caller())
        if not request.start.gated and request.start.status == ExecutionStatus.PENDING:
            self._permit(request)
        children.spawned += 1
        child = Execution(parent.environment, request, parent, position=children.spawned)
        # Registered before the commit: a cancel that arrives during it must find the child to wait for.
        children.alive[child.id] = child
        settled = self._settled(request, child)
        if not await self._stored(child, settled):
            raise Refusal("stopping", "no new agents: this execution is stopping", "answer with what you have")
        # No await from here on: the row is committed, and its task must follow.
        if not child.status.is_terminal:
            for item in child.messages:
                child.inbox.put(item)
            parent.adopt(child)
        else:
            child.slot.release()
            del children.alive[child.id]
            children.ended[child.id] = child.snapshot()
        return child.snapshot()

    def _settled(self, request: SpawnRequest, child: Execution) -> ToolOutcome | None:
        """The result of the dispatching call, committed with the child's row."""
        call, answer = request.dispatch.call, request.dispatch.answer
        if call is None or answer is None:
            return None
        self._parent.allowance.settle_dispatch()  # before the commit: the next dispatch of this turn must see it
        text = answer(child.snapshot())
        return ToolOutcome(call.row, self._parent.id, self._parent.life.epoch, "completed", text)

    async def _stored(self, child: Execution, settled: ToolOutcome | None) -> bool:
        """Store the child; False when the row was refused. A child that is not stored leaves no trace here."""
        held = False
        try:
            held = await child.enter(settled)
        finally:
            if not held:
                del self._parent.children.alive[child.id]
                child.done.set()  # a concurrent cancel may be waiting for this execution
                if settled is not None:
                    self._parent.allowance.settle_dispatch(-1)
        return held

    def release(self, child: str, prompt: str, known: Result | None) -> None:
        """Let a gated child start with this first message, or end with a `known` result; raises Refusal, e.g. when the
        budget does not cover its answer.
        """
        gated = self._parent.children.alive.get(child)
        if gated is None or gated.gate is None:
            return  # it has ended in the meantime; its end is in the parent's inbox
        self._permit(gated.request)
        gated.request = replace(gated.request.starting(known=known), prompt=prompt)
        gated.state.prompt = gated.prompt
        if known is None:
            gated.reserve_answer()
        gated.slot = self._parent.children.slots.reserve()
        gated.gate.release()

    def dismiss(self, child: str, dismissal: Dismissal) -> None:
        """End a gated child without starting it."""
        gated = self._parent.children.alive.get(child)
        if gated is not None and gated.gate is not None:
            gated.gate.dismiss(dismissal)

    def _permit(self, request: SpawnRequest) -> None:
        if isinstance(request.agent, AgentSpec):
            permit(request.agent.name, request.agent.requires, self._parent.origin.user)

    async def dispatch(self, order: DispatchOrder) -> tuple[Snapshot, bool]:
        """Guard, then spawn; the tool call is settled in the transaction of the row. Raises Refusal.

        True when the order's key was used before: then the child is the one it was used for.
        """
        children = self._parent.children
        try:
            if order.key is None:
                return await self.spawn(self._request(order)), False
            self._one_key_at_a_time = self._one_key_at_a_time or anyio.Lock()
            async with self._one_key_at_a_time:
                if order.key in children.keys:
                    return earlier(self._known(children.keys[order.key]), order.key, order.name, order.task), True
                child = await self.spawn(self._request(order))
                children.keys = {**children.keys, order.key: child.id}
                return child, False
        except Refusal as refusal:
            me = self._parent
            fact = Refused(me.place, me.name, order.name, refusal.kind, str(refusal), refusal.context)
            await me.services.recorder.record(fact)
            raise

    def admit(self, name: str) -> CatalogueEntry:
        """The catalogue entry of an agent that may be started now; raises Refusal."""
        return admit(self._caller(), name, self._parent.services.settings.agents)

    def _request(self, order: DispatchOrder) -> SpawnRequest:
        """The request for a dispatched agent; an explicit budget is reserved from the caller's."""
        request = self._parent.environment.dispatched(self._parent.services.settings, self.admit(order.name), order)
        if order.budget_usd is None:
            return request
        budget = self._parent.allowance.budget
        most = min(order.budget_usd, budget.left("usd") if budget is not None else order.budget_usd)
        return replace(request, limits=request.limits.capped(most), dispatch=replace(request.dispatch, granted=True))

    def _caller(self) -> Caller:
        me, node = self._parent, self._parent.node
        return Caller(
            agent=node.name,
            path=node.path,
            delegation_path=node.delegation_path,
            depth=node.depth,
            catalogue=[*self.catalogue, *self._commanded()],
            limits=node.limits,
            dispatches_left=me.allowance.dispatches_left,
            user=node.origin.user,
            wrap_up=me.allowance.wrap_up,
            running=lambda: [child.id for child in me.children.alive.values() if not child.slot.queue_position],
            slots_full=me.children.slots.full,
        )

    def _commanded(self) -> Sequence[CatalogueEntry]:
        agent = self._parent.request.agent
        return self._parent.services.settings.commanded(agent) if isinstance(agent, AgentSpec) else ()

    # -- look, wait, stop ----------------------------------------------------------------------------------------------

    def _known(self, identifier: str) -> Snapshot:
        alive = self._parent.children.alive.get(identifier)
        return alive.snapshot() if alive is not None else self.ended[identifier]

    async def look(self, child: str) -> Snapshot | None:
        """One of its children, running or ended, by full or short id; None for any other execution.

        Raises UnknownExecution when a short id is ambiguous among its children.
        """
        found = named_among(child, (*self._parent.children.alive, *self.ended))
        if len(found) > 1:
            raise UnknownExecution(child, found)
        return self._known(found[0]).for_models if found else None

    async def children(self) -> Sequence[Snapshot]:
        """All its children, in the order of their spawns."""
        known = [*self.ended.values(), *(child.snapshot() for child in self._parent.children.alive.values())]
        return sorted(known, key=lambda child: child.id)

    async def subtree_usage(self, children: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """The subtree usage of each of these children, running ones included."""
        return await subtree_usage(self._parent.services.database, children)

    async def stop(self, child: str, reason: str, *, wrap_up: bool) -> str:
        """Stop a child: `requested` or `already_finished`."""
        alive = self._parent.children.alive.get(child)
        if alive is None:
            return "already_finished"
        if wrap_up and alive.status is ExecutionStatus.RUNNING:
            await alive.ask_to_wrap_up()
            return "requested"
        return await self._cancel(child, self._parent.name, reason)

    async def until_one_ends(self, children: Sequence[str]) -> None:
        """Return when one of the open children among these has ended; immediately if none is open."""
        with self._parent.services.shutdown.at_rest():
            await self._parent.inbox.until_one_of(children)

    def claim(self, child: str) -> str | None:
        """Take the unread end of a child: its delivery id. None if there is none, also on a second call."""
        return self._parent.inbox.claim(child)

    def unread(self) -> Sequence[str]:
        """The children whose ends are unread, in order."""
        return sorted(item.result.execution_id for item in self._parent.inbox.waiting if item.result is not None)

    async def settle(self, *, cancel: bool) -> None:
        """End all children and wait for them: pending ones are cancelled, running ones wrap up or are cancelled."""
        me, children = self._parent, self._parent.children
        if not children.alive:
            await children.inbox.until_all_ended()
            return
        me.services.recorder.record_nowait(Waiting(me.place, "children"))
        for child in tuple(children.alive.values()):
            if child.gate is not None and child.gate.is_closed:
                child.gate.dismiss(Dismissal("skipped", Problem("not_needed", "its caller is wrapping up")))
            elif cancel or child.status is ExecutionStatus.PENDING:
                await self._cancel(child.id, me.name, "its caller is wrapping up")
            else:
                await child.ask_to_wrap_up()
        with me.allowance.within_wrap_up():
            await children.inbox.until_all_ended()
        for child in tuple(children.alive.values()):
            await self._cancel(child.id, me.name, "its caller must conclude now")
        await children.inbox.until_all_ended()
        me.services.recorder.record_nowait(Waiting(me.place, None))

    async def pass_on(self, item: Item) -> None:
        """Forward a message to all children; each gets it once, however often it is forwarded."""
        for child in tuple(self._parent.children.alive.values()):
            await child.take(item.passed_on(child.id))
