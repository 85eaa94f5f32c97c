"""The family of an execution: how it starts children, looks at them, waits for them and stops them.

Owns spawn, in its one order: guard → row (guarded by the parent being alive) → task in the parent's group. Between the
commit of the row and the start of the task there is no await, so no cancel can leave a row without a task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import anyio
from pydantic_core import to_json

from db.errors import UnknownExecution
from db.ids import named_among
from db.rows.transcript import ToolOutcome
from db.status import ExecutionStatus
from registry import AgentSpec, CatalogueEntry
from runner.core.cancel import Cancellation
from runner.core.ending import Dismissal
from runner.core.execution import Execution
from runner.core.facts import Refused
from runner.core.guard import Caller, admit, not_too_deep, permit
from runner.core.inbox import Item
from runner.core.spawn import SpawnRequest, earlier, keep_an_answer
from runner.core.views import child_of, subtree_usage
from runner.errors import Refusal
from runner.result import Problem, Result
from runner.snapshot import Child, DispatchOrder
from runner.strategies.requests import dispatched
from runner.tools.dispatch import dispatch_answer

NOT_YET = "error: not finished: {count} of your agents are still at work\nhint: wait for their results, or cancel them"


class ExecutionFamily:
    """A `Family` around one execution of this process."""

    __slots__ = ("_cancellation", "_one_key_at_a_time", "_self")

    def __init__(self, execution: Execution, cancellation: Cancellation) -> None:
        self._self = execution
        self._cancellation = cancellation
        self._one_key_at_a_time: anyio.Lock | None = None
        """Of two calls at once with the same key, one waits for the other's row. Few have keys, so most have no lock."""

    @property
    def catalogue(self) -> Sequence[CatalogueEntry]:
        """The agents it may dispatch."""
        return self._self.request.catalogue

    # -- spawn ---------------------------------------------------------------------------------------------------------

    async def spawn(self, request: SpawnRequest) -> Child:
        """Start a child whose admission is settled; raises Refusal when its parent is stopping, or as deep as may be.

        Whoever it is started for: nobody begins to work whom the user may not use. One that is held, or is not to begin at
        all, is only a row.
        """
        parent = self._self
        if isinstance(parent.request.agent, AgentSpec):  # who works for a chain is no deeper than the chain
            not_too_deep(self._caller())
        if not request.held and request.status == ExecutionStatus.PENDING:
            self._permit(request)
        child = Execution(parent.habitat, request, parent)
        parent.born += 1
        child.position = parent.born
        parent.alive[child.id] = child
        settled = None
        if request.call is not None:
            parent.allowance.settle_dispatch()  # before the commit: the next dispatch of this turn must see it
            text = to_json(dispatch_answer(child_of(child))).decode()
            settled = ToolOutcome(request.call.row, parent.id, parent.attempt, "completed", text)
        if not await self._stored(child, settled):
            raise Refusal("stopping", "no new agents: this execution is stopping", "answer with what you have")
        if not child.status.is_terminal:
            for item in child.told:
                child.inbox.put(item)
            parent.adopt(child)
        else:
            child.slot.release()
            parent.ended[child.id] = child_of(parent.alive.pop(child.id))
        return child_of(child)

    def release(self, child: str, prompt: str, known: Result | None) -> None:
        """Let a child begin that was held, with this first message, or end with what is `known`; raises Refusal, such as
        when no answer of it can be paid.
        """
        held = self._self.alive.get(child)
        if held is None or held.hold is None:
            return  # it has ended meanwhile: its parent's inbox says how
        self._permit(held.request)
        held.request = replace(held.request, prompt=prompt, known=known)
        if known is None:
            keep_an_answer(held)
        held.slot = self._self.slots.reserve()
        held.hold.release()

    def _permit(self, request: SpawnRequest) -> None:
        if isinstance(request.agent, AgentSpec):
            permit(request.agent.name, request.agent.requires, self._self.origin.user)

    def dismiss(self, child: str, dismissal: Dismissal) -> None:
        """A child that was held will never begin."""
        held = self._self.alive.get(child)
        if held is not None and held.hold is not None:
            held.hold.dismiss(dismissal)

    async def _stored(self, child: Execution, settled: ToolOutcome | None) -> bool:
        """Whether its row is committed; if not, whatever the reason, it keeps no place."""
        held = False
        try:
            held = await child.enter(settled)
        finally:
            if not held:
                del self._self.alive[child.id]
                child.done.set()  # a cancel that came meanwhile waits for everybody it found
                if settled is not None:
                    self._self.allowance.settle_dispatch(-1)
        return held

    async def dispatch(self, order: DispatchOrder) -> tuple[Child, bool]:
        """Guard, then spawn; the tool call is settled in the transaction of the row. Raises Refusal.

        True when the order's key was used before: then the child is the one that was started with it.
        """
        try:
            if order.key is None:
                return await self.spawn(self._request(order)), False
            self._one_key_at_a_time = self._one_key_at_a_time or anyio.Lock()
            async with self._one_key_at_a_time:
                keys = self._self.keys
                if order.key in keys:
                    return earlier(self._known(keys[order.key]), order.key, order.name, order.task), True
                child = await self.spawn(self._request(order))
                self._self.keys = {**keys, order.key: child.id}
                return child, False
        except Refusal as refusal:
            me = self._self
            fact = Refused(me.place, me.name, order.name, refusal.kind, str(refusal), refusal.context)
            await me.services.recorder.record(fact)
            raise

    def admit(self, name: str) -> CatalogueEntry:
        """The agent of that name, if it may be started now; raises Refusal."""
        return admit(self._caller(), name, self._self.services.settings.agents)

    def _request(self, order: DispatchOrder) -> SpawnRequest:
        request = dispatched(self._self.services.settings, self.admit(order.name), order.task, order.input)
        limits = request.limits
        if order.budget_usd is not None:
            budget = self._self.allowance.budget
            limits = limits.capped(min(order.budget_usd, budget.left("usd") if budget is not None else order.budget_usd))
        granted = order.budget_usd is not None
        return replace(request, limits=limits, granted=granted, timeout=order.timeout, call=order.call, key=order.key)

    def _known(self, identifier: str) -> Child:
        alive = self._self.alive.get(identifier)
        return child_of(alive) if alive is not None else self._self.ended[identifier]

    def _caller(self) -> Caller:
        me = self._self
        return Caller(
            agent=me.name,
            path=me.path,
            delegation_path=me.delegation_path,
            depth=me.depth,
            catalogue=[*self.catalogue, *self._commanded()],
            limits=me.limits,
            dispatches_left=me.allowance.dispatches_left,
            user=me.origin.user,
            wrap_up=me.allowance.wrap_up,
            running=lambda: [child.id for child in me.alive.values() if not child.slot.queue_position],
            slots_full=me.slots.full,
        )

    def _commanded(self) -> Sequence[CatalogueEntry]:
        agent = self._self.request.agent
        return self._self.services.settings.commanded(agent) if isinstance(agent, AgentSpec) else ()

    # -- look, wait, stop ----------------------------------------------------------------------------------------------

    async def look(self, child: str) -> Child | None:
        """One of its children, also an ended one, by its whole or short id; None for anything else.

        Raises UnknownExecution when a short id means several of its children.
        """
        me = self._self
        found = named_among(child, (*me.alive, *me.ended))
        if len(found) > 1:
            raise UnknownExecution(child, found)
        return self._known(found[0]).for_models if found else None

    async def children(self) -> Sequence[Child]:
        """All its children, in the order they were started."""
        known = [*self._self.ended.values(), *(child_of(child) for child in self._self.alive.values())]
        return sorted(known, key=lambda child: child.id)

    async def subtree_usage(self, children: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """What each of these children used together with everything below it, running ones included."""
        return await subtree_usage(self._self.services.database, children)

    async def stop(self, child: str, reason: str, *, wrap_up: bool) -> str:
        """Stop a child: `requested` or `already_finished`."""
        alive = self._self.alive.get(child)
        if alive is None:
            return "already_finished"
        if wrap_up and alive.status is ExecutionStatus.RUNNING:
            await alive.ask_to_wrap_up()
            return "requested"
        return await self._cancellation.cancel(child, by=self._self.name, reason=reason)

    async def until_one_ends(self, children: Sequence[str]) -> None:
        """Return when one of those that are open has ended; at once when none is."""
        with self._self.services.draining.at_rest():
            await self._self.inbox.until_one_of(children)

    def claim(self, child: str) -> str | None:
        """The delivery of a child's end, if it has not been handed over; asking again gives None."""
        return self._self.inbox.claim(child)

    def unread(self) -> Sequence[str]:
        """The children whose end is waiting to be handed over, in order."""
        return sorted(item.result.execution_id for item in self._self.inbox.waiting if item.result is not None)

    async def settle_children(self, *, cancel: bool) -> None:
        """No more children. Those that wait are cancelled; those that run wrap up or are cancelled; all are waited for."""
        me = self._self
        for child in tuple(me.alive.values()):
            if child.hold is not None and child.hold.waits:
                child.hold.dismiss(Dismissal("skipped", Problem("not_needed", "its caller concludes")))
            elif cancel or child.status is ExecutionStatus.PENDING:
                await self._cancellation.cancel(child.id, by=me.name, reason="its caller concludes")
            else:
                await child.ask_to_wrap_up()
        with me.allowance.within_wrap_up():
            await me.inbox.until_all_ended()
        for child in tuple(me.alive.values()):
            await self._cancellation.cancel(child.id, by=me.name, reason="its caller has to conclude")
        await me.inbox.until_all_ended()

    async def pass_on(self, item: Item) -> None:
        """Say to all its children what was said to it; each reads it once, however often it is passed on."""
        for child in tuple(self._self.alive.values()):
            await child.take(item.passed_on(child.id))
