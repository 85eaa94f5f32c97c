"""The subtree of an execution, as its strategy and its dispatch tools see it: spawn children, look, wait, stop.

Owns spawn, in its one order: guard → row (guarded by the parent being alive) → task in the parent's group. Between the
commit of the row and the start of the task there is no await, so no cancel can leave a row without a task.
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
from runner.record.facts import Refused
from runner.result import Problem, Result
from runner.snapshot import Child, DispatchOrder

CancelChild = Callable[[str, str, str], Awaitable[str]]
"""Cancels an execution: its id, by whom, why."""


class ExecutionSubtree:
    """A `Family` around one execution of this process."""

    __slots__ = ("_cancel", "_one_key_at_a_time", "_parent")

    def __init__(self, parent: Execution, cancel: CancelChild) -> None:
        self._parent = parent
        self._cancel = cancel
        self._one_key_at_a_time: anyio.Lock | None = None
        """Of two calls at once with the same key, one waits for the other's row. Few have keys, so most have no lock."""

    @property
    def catalogue(self) -> Sequence[CatalogueEntry]:
        """The agents it may dispatch."""
        return self._parent.request.catalogue

    @property
    def ended(self) -> Mapping[str, Child]:
        """The children that have ended, by id, also those whose end is unread."""
        return self._parent.children.ended

    # -- spawn ---------------------------------------------------------------------------------------------------------

    async def spawn(self, request: SpawnRequest) -> Child:
        """Start a child that is admitted; raises Refusal when its parent is stopping, at the deepest level, or works for a
        user who may not use the agent. A gated or skipped child is only a row.
        """
        parent, children = self._parent, self._parent.children
        if isinstance(parent.request.agent, AgentSpec):  # the stages of a chain are no deeper than the chain
            not_too_deep(self._caller())
        if not request.start.gated and request.start.status == ExecutionStatus.PENDING:
            self._permit(request)
        children.spawned += 1
        child = Execution(parent.environment, request, parent, position=children.spawned)
        children.alive[child.id] = child
        settled = self._settled(request, child)
        if not await self._stored(child, settled):
            raise Refusal("stopping", "no new agents: this execution is stopping", "answer with what you have")
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
        """The result of the call that asks for a child: committed together with its row."""
        call, answer = request.dispatch.call, request.dispatch.answer
        if call is None or answer is None:
            return None
        self._parent.allowance.settle_dispatch()  # before the commit: the next dispatch of this turn must see it
        text = answer(child.snapshot())
        return ToolOutcome(call.row, self._parent.id, self._parent.life.epoch, "completed", text)

    async def _stored(self, child: Execution, settled: ToolOutcome | None) -> bool:
        """Whether its row is committed; if not, whatever the reason, it keeps no place."""
        held = False
        try:
            held = await child.enter(settled)
        finally:
            if not held:
                del self._parent.children.alive[child.id]
                child.done.set()  # a cancel that came meanwhile waits for every execution it found
                if settled is not None:
                    self._parent.allowance.settle_dispatch(-1)
        return held

    def release(self, child: str, prompt: str, known: Result | None) -> None:
        """Let a gated child start with this first message, or end with a `known` result; raises Refusal, such as when its
        answer cannot be paid.
        """
        gated = self._parent.children.alive.get(child)
        if gated is None or gated.gate is None:
            return  # it has ended meanwhile: its parent's inbox says how
        self._permit(gated.request)
        gated.request = replace(gated.request.starting(known=known), prompt=prompt)
        gated.state.prompt = gated.prompt
        if known is None:
            gated.reserve_answer()
        gated.slot = self._parent.children.slots.reserve()
        gated.gate.release()

    def dismiss(self, child: str, dismissal: Dismissal) -> None:
        """A gated child will never start."""
        gated = self._parent.children.alive.get(child)
        if gated is not None and gated.gate is not None:
            gated.gate.dismiss(dismissal)

    def _permit(self, request: SpawnRequest) -> None:
        if isinstance(request.agent, AgentSpec):
            permit(request.agent.name, request.agent.requires, self._parent.origin.user)

    async def dispatch(self, order: DispatchOrder) -> tuple[Child, bool]:
        """Guard, then spawn; the tool call is settled in the transaction of the row. Raises Refusal.

        True when the order's key was used before: then the child is the one that was started with it.
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
        """The agent of that name, if it may be started now; raises Refusal."""
        return admit(self._caller(), name, self._parent.services.settings.agents)

    def _request(self, order: DispatchOrder) -> SpawnRequest:
        """The request for a dispatched agent; a budget that the order names is taken out of the caller's."""
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

    def _known(self, identifier: str) -> Child:
        alive = self._parent.children.alive.get(identifier)
        return alive.snapshot() if alive is not None else self.ended[identifier]

    async def look(self, child: str) -> Child | None:
        """One of its children, also an ended one, by its whole or short id; None for anything else.

        Raises UnknownExecution when a short id means several of its children.
        """
        found = named_among(child, (*self._parent.children.alive, *self.ended))
        if len(found) > 1:
            raise UnknownExecution(child, found)
        return self._known(found[0]).for_models if found else None

    async def children(self) -> Sequence[Child]:
        """All its children, in the order they were started."""
        known = [*self.ended.values(), *(child.snapshot() for child in self._parent.children.alive.values())]
        return sorted(known, key=lambda child: child.id)

    async def subtree_usage(self, children: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """What each of these children used together with everything below it, running ones included."""
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
        """Return when one of those that are open has ended; at once when none is."""
        with self._parent.services.draining.at_rest():
            await self._parent.inbox.until_one_of(children)

    def claim(self, child: str) -> str | None:
        """The delivery of a child's end, if it has not been handed over; asking again gives None."""
        return self._parent.inbox.claim(child)

    def unread(self) -> Sequence[str]:
        """The children whose end is waiting to be handed over, in order."""
        return sorted(item.result.execution_id for item in self._parent.inbox.waiting if item.result is not None)

    async def settle(self, *, cancel: bool) -> None:
        """No more children. Those that wait are cancelled; those that run wrap up or are cancelled; all are waited for."""
        me, children = self._parent, self._parent.children
        for child in tuple(children.alive.values()):
            if child.gate is not None and child.gate.is_closed:
                child.gate.dismiss(Dismissal("skipped", Problem("not_needed", "its caller concludes")))
            elif cancel or child.status is ExecutionStatus.PENDING:
                await self._cancel(child.id, me.name, "its caller concludes")
            else:
                await child.ask_to_wrap_up()
        with me.allowance.within_wrap_up():
            await children.inbox.until_all_ended()
        for child in tuple(children.alive.values()):
            await self._cancel(child.id, me.name, "its caller has to conclude")
        await children.inbox.until_all_ended()

    async def pass_on(self, item: Item) -> None:
        """Pass a message on to all children; each reads it once, however often it is passed on."""
        for child in tuple(self._parent.children.alive.values()):
            await child.take(item.passed_on(child.id))
