"""One execution: slot → deadline → task group for its children → strategy → end, recorded. The body never raises.

Owns the life of an execution. It knows no SQL, provider or tool; facts go to the recorder. Its invariant: when `run`
returns, the row is terminal (or left to another process on purpose), the parent has the end, and no task below is alive.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import anyio
import anyio.lowlevel

from db.clock import loop_time, stamp
from db.ids import ExecutionId, new_id
from db.latch import Latch
from db.rows.executions import Place, StartWrite
from db.rows.reads import Record
from db.rows.transcript import MessageDraft, ToolOutcome
from db.status import SLOT, ExecutionStatus
from registry import COMPOSITE, AgentSpec, CatalogueEntry, Limits, Settings, ToolFilter
from runner.budget.estimate import AnswerPrice
from runner.chat import heard_of
from runner.core import ending
from runner.core.allowance import Allowance
from runner.core.ending import EndView
from runner.core.guard import too_little_left
from runner.core.inbox import Inbox, Item
from runner.core.services import Services
from runner.core.slots import Slots, StartGate
from runner.core.spawn import Above, SpawnRequest, first_draft, new_row, node_of
from runner.core.strategy import State, Strategy
from runner.core.tree import Children, Node, Tree
from runner.core.verdict import Cause, End, Life, said_by_provider, salvaged, verdict
from runner.core.views import end_item, reports_of, usage_of
from runner.errors import first_cause
from runner.messages import CARRY_ON, clean
from runner.origin import Origin
from runner.record import facts
from runner.result import Result
from runner.roles import CONCLUDING, EXTRACTOR, SUB_AGENT
from runner.snapshot import DispatchOrder, Snapshot
from runner.text import escape_blocks

log = logging.getLogger("outrider.execution")

LAST_WRITE_SECONDS = 5.0
"""Upper bound for the last write, which is shielded from cancellation."""

TURNS_TO_CLOSE = 2
"""Turns of the event loop: a connection is told to close in the first and closes in the second."""


class Start:
    """How an execution gets from its row to work: this one for a new row, others in `runner/resume/restore.py`."""

    has_rows = False
    """Whether there may be rows below it that are not in memory."""

    @property
    def row(self) -> Record | None:
        """The row it is restored from; None for a new execution."""
        return None

    @property
    def needs_slot(self) -> bool:
        """Whether it will work; False if it only has to end."""
        return True

    def turn(self, execution: Execution) -> AbstractAsyncContextManager[None]:
        """Limits how many executions are restored at once."""
        return nullcontext()

    async def begin(self, execution: Execution) -> None:
        """Restore usage and clock before the start; raises Fenced or Interrupted."""

    async def restore(self, execution: Execution) -> End | None:
        """Restore the state of its strategy from rows; its end, if it is not to be resumed."""
        return None

    def restart_children(self, execution: Execution) -> None:
        """Restart its open children in its task group, once, before its strategy."""


FRESH = Start()


@dataclass(frozen=True, slots=True)
class Environment:
    """Services, tree and strategy factory shared by all executions of one configuration."""

    services: Services
    tree: Tree[Execution]
    assemble: Callable[[Execution], Strategy]
    """Builds the strategy of a started execution, with its model and tools."""
    price_of_answer: Callable[[Settings, SpawnRequest], AnswerPrice | None]
    """Estimates the price of an answer before tools are known; None for a strategy without model calls."""
    dispatched: Callable[[Settings, CatalogueEntry, DispatchOrder], SpawnRequest]
    """Builds the request for a dispatched agent; raises Refusal."""
    continued: Start
    """The start of an execution that continues an ended one."""
    live: Callable[[Execution], Coroutine[object, object, None]]  # runs a stored execution to its end


class Execution:
    """One agent at work on one task."""

    __slots__ = (
        "_start", "allowance", "children", "done", "environment", "gate", "life", "node", "parent", "request", "scope",
        "slot", "state", "strategy",
    )  # fmt: skip

    def __init__(
        self,
        environment: Environment,
        request: SpawnRequest,
        parent: Execution | None,
        start: Start | None = None,
        position: int = 1,
    ) -> None:
        self.environment, self.request, self.parent = environment, request, parent
        self._start = start or (FRESH if request.continues is None else environment.continued)
        row, above = self._start.row, parent.allowance if parent is not None else None
        place_above = parent.above if parent is not None else None
        self.node: Node = node_of(environment.services, request, row, position, place_above)
        status = ExecutionStatus(request.start.status if row is None else row["status"])
        self.life = Life(status, 1 if row is None else row["attempt"])
        granted = request.dispatch.granted
        self.allowance: Allowance = Allowance(self.limits, above, self._timeout(), self.id, granted=granted)
        self.children: Children[Execution] = Children(self.limits)
        self.slot = self._slots.none() if request.start.gated else self._slots.reserve()
        self.gate = StartGate() if request.start.gated else None
        self.scope = anyio.CancelScope()
        self.done = Latch()
        self.state = State(self.prompt)
        self.strategy: Strategy | None = None

    def _timeout(self) -> float:
        if self.request.timeout is not None:
            return self.request.timeout
        if self.parent is not None and self.request.role == SUB_AGENT:
            return min(self.parent.limits.agent_timeout, self.limits.timeout)
        return self.limits.timeout

    @property
    def _slots(self) -> Slots:
        if self.parent is not None:
            return self.parent.children.slots
        return self.tree.background_slots if self.request.role == EXTRACTOR else self.tree.root_slots

    # -- what others ask of it -----------------------------------------------------------------------------------------

    @property
    def id(self) -> ExecutionId:
        return ExecutionId(self.node.place.id)

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def place(self) -> Place:
        return self.node.place

    @property
    def origin(self) -> Origin:
        return self.node.origin

    @property
    def limits(self) -> Limits:
        return self.node.limits

    @property
    def services(self) -> Services:
        return self.environment.services

    @property
    def tree(self) -> Tree[Execution]:
        return self.environment.tree

    @property
    def inbox(self) -> Inbox:
        return self.children.inbox

    @property
    def status(self) -> ExecutionStatus:
        return self.life.status

    @property
    def above(self) -> Above:
        """The part of this execution that determines a child's node."""
        return Above(self.node, is_agent=isinstance(self.request.agent, AgentSpec))

    @property
    def denied(self) -> tuple[ToolFilter, ...]:
        """The tool filters of its ancestors and its own: a tool denied above is denied below."""
        above = self.parent.denied if self.parent is not None else ()
        return (*above, self.request.agent.tools) if isinstance(self.request.agent, AgentSpec) else above

    @property
    def roles_above(self) -> tuple[str, ...]:
        """The roles of its ancestors, nearest first."""
        return (self.parent.request.role, *self.parent.roles_above) if self.parent is not None else ()

    @property
    def partial_output(self) -> str:
        """The result of an execution that does not conclude: its last text and the reports of its children."""
        agent, own = self.request.agent, self.strategy.partial_output if self.strategy is not None else ""
        if isinstance(agent, AgentSpec) and agent.strategy in COMPOSITE:
            return own  # it chooses which children's reports to include
        return "\n\n".join(part for part in (own, reports_of(self.children.ended.values())) if part.strip())

    @property
    def messages(self) -> list[Item]:
        """Messages the parent received before this child was spawned; copied into its inbox at creation."""
        return [item.passed_on(self.id) for item in self.request.messages]

    @property
    def prompt(self) -> str:
        if self.request.carries_on:
            return CARRY_ON
        return clean(self.request.prompt) if self.request.prompt is not None else escape_blocks(self.request.task)

    @property
    def activity(self) -> str:
        """The current action, for people."""
        if self.slot.queue_position:
            return f"waiting for a slot (position {self.slot.queue_position})"
        if self.status is ExecutionStatus.PENDING:
            return "waiting for its turn" if self.gate is not None else "about to start"
        return self.state.activity

    def snapshot(self) -> Snapshot:
        """Its state, as its caller sees it."""
        life = self.life
        return Snapshot(
            id=self.id,
            agent=self.name,
            task=self.request.task,
            status=life.status.value,
            queue_position=self.slot.queue_position,
            result=life.result,
            error=life.error,
            activity=self.activity,
            elapsed=life.elapsed,
            remaining=self.allowance.seconds_left if self.status is ExecutionStatus.RUNNING else None,
            usage=usage_of(self.allowance),
            waiting_for="approval" if self.allowance.stands else None,
        )

    # -- spawn and start -----------------------------------------------------------------------------------------------

    async def enter(self, settled: ToolOutcome | None = None) -> bool:
        """Store it; False when the row is refused. With a free slot it starts in the same transaction: one commit less.

        Shielded, because its task must follow its row. An execution that is not stored keeps neither slot nor reservation.
        Raises Refusal when the budget does not cover its answer.
        """
        starts = self.status is ExecutionStatus.PENDING and not self.slot.queue_position and self.gate is None
        fact = self._spawned(settled)
        if starts:
            fact = replace(fact, started=self._started())
        held = False
        try:
            if self.gate is None:
                self.reserve_answer()
            stored = await self.services.recorder.record(fact, shielded=True, patient=self.parent is not None)
            held = stored.held
        finally:
            if not held:
                self.slot.release()
                self.allowance.close()
        if held and starts:
            self.life.status = ExecutionStatus.RUNNING
        return held

    def _spawned(self, settled: ToolOutcome | None) -> facts.Spawned:
        new = new_row(self.services, self.request, self.node, self.allowance, self.status)
        if self.status is ExecutionStatus.PENDING and self.slot.queue_position > 0:
            new = replace(new, waiting_for=SLOT)
        parent = self.parent.place if self.parent is not None else None
        heard = heard_of(new) if self.request.root.chat else None
        first = self._first_message() if self.gate is None else None  # a gated one gets it when it starts
        told = [facts.Posted(self.place, item.id, item.kind, item.payload) for item in self.messages]
        return facts.Spawned(new, first, parent, settled, heard=heard, told=told)

    def _first_message(self) -> MessageDraft | None:
        return first_draft(self.id, self.prompt, self.request) if self.status is ExecutionStatus.PENDING else None

    def reserve_answer(self) -> None:
        """Reserve the price of an answer until it ends; raises Refusal when the budget does not cover one."""
        budget = self.allowance.budget
        if budget is None or self.status is not ExecutionStatus.PENDING:
            return
        price = self.environment.price_of_answer(self.services.settings, self.request)
        short = budget.keep_for_conclusion(price.tariff, price.prompt) if price is not None else None
        if short is not None:
            raise too_little_left(self.name, short, top_level=self.parent is None)

    def _started(self) -> facts.Started:
        """Start the clock; the fact that records it."""
        self.allowance.start(concludes=self.request.role in CONCLUDING)
        first = self._first_message() if self.gate is not None else None  # others got it at their spawn
        start = StartWrite(stamp(), self.deadline(), self.life.epoch)
        return facts.Started(self.place, self.name, start, first, self.request.step.id)

    def deadline(self) -> str:
        """Its deadline, as stored in rows."""
        return stamp(datetime.now(UTC) + timedelta(seconds=self.allowance.seconds_left))

    # -- life ----------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run to the end and write it. Only an outer cancellation propagates, after the end is written."""
        end: End | None = None
        try:
            with self.scope:
                if self._start.needs_slot:
                    end = await self._turn()
                if end is None:
                    end = await self._live()
        finally:
            # Bounded, or a cancel could wait for ever. No await between the end's row and `_leave`, which delivers it.
            final = end if end is not None else self.why_stopped()
            with anyio.move_on_after(LAST_WRITE_SECONDS, shield=True) as last_write:
                if end is None:
                    for _ in range(TURNS_TO_CLOSE):  # connections of the whole tree close before its end is written
                        await anyio.lowlevel.checkpoint()
                if not self.status.is_terminal:
                    self.life.end(await ending.finish(self.view(), final, self.why_stopped))
            if last_write.cancelled_caught:
                log.error("the end of execution %s (%s) was not written in time", self.id, self.name)
                if not self.status.is_terminal:
                    self.life.end(ending.assumed(self.view(), final))
            self._leave()
            if self.state.tools is not None:
                with anyio.move_on_after(LAST_WRITE_SECONDS, shield=True):
                    await self.state.tools.close()

    async def _turn(self) -> End | None:
        """Wait for gate and slot; its end, if it was dismissed."""
        dismissed = await self.gate.wait() if self.gate is not None else None
        if dismissed is None and self.slot.queue_position:
            await self.slot.wait()
        return dismissed

    async def _live(self) -> End | None:
        """Work from start to answer; None when another writer stored the end."""
        try:
            async with self._start.turn(self):
                if not await self._begin():
                    return None
                self.strategy = self.environment.assemble(self)
                self.allowance.bind(self.scope)
                if (end := await self._start.restore(self)) is not None:
                    return end
            return await self._work_until_accepted()
        except Exception as error:
            log.exception("execution %s (%s) failed", self.id, self.name)
            return error

    async def _begin(self) -> bool:
        """pending → running, unless stored as running; False when it was cancelled before."""
        await self._start.begin(self)
        if self.status is ExecutionStatus.PENDING:
            if not (await self.services.recorder.record(self._started())).held:
                return False
            self.life.status = ExecutionStatus.RUNNING
        return True

    async def _work_until_accepted(self) -> End | None:
        """Run the strategy until its answer is accepted: success is refused while a delivery is unread."""
        while True:
            end: End | None = None
            async with anyio.create_task_group() if self._may_have_children else nullcontext() as self.children.group:
                self._start.restart_children(self)
                end = await self._strategy_end()
                if not isinstance(end, Result):
                    self.life.failed = True
                    if self.children.group is not None:
                        self.children.group.cancel_scope.cancel("the parent failed")
            assert end is not None
            judged = verdict(end, self.partial_output)
            if judged.status is not ExecutionStatus.COMPLETED:
                return end
            self.life.end(await ending.write(self.view(), judged, shielded=True))
            if self.status.is_terminal:
                return end
            refused = await ending.why_refused(self.view())
            if not isinstance(refused, list):
                return refused
            for item in refused:
                self.inbox.put(item)

    @property
    def _may_have_children(self) -> bool:
        """Whether it needs a task group: most agents are loops without a catalogue and spawn nothing."""
        agent = self.request.agent
        return bool(self.request.catalogue) or not isinstance(agent, AgentSpec) or agent.strategy != "loop"

    async def _strategy_end(self) -> End:
        assert self.strategy is not None
        if self.request.start.known is not None:
            return self.request.start.known
        try:
            return await self.strategy.run()
        except Exception as error:
            cause = first_cause(error)
            log.info("execution %s (%s) ends with %r%s", self.id, self.name, cause, said_by_provider(cause))
            return salvaged(cause, self.partial_output, self.allowance.wrap_up)

    def adopt(self, child: Execution) -> None:
        """Run a stored child in this execution's task group. Without await: see `runner/core/children.py`."""
        assert self.children.group is not None
        self.children.alive[child.id] = child
        self.tree.add(child)
        self.inbox.expect(child.id)
        self.children.group.start_soon(self.environment.live, child, name=f"{child.name} {child.id}")

    # -- end -----------------------------------------------------------------------------------------------------------

    def view(self) -> EndView:
        """What `runner/core/ending.py` needs to write its end."""
        return EndView(
            node=self.node,
            request=self.request,
            life=self.life,
            allowance=self.allowance,
            state=self.state,
            children=self.children.ended,
            had_children=bool(self.children.ended or self.children.alive) or self._start.has_rows,
            partial_output=self.partial_output,
            recorder=self.services.recorder,
            reads=self.services.database.reads,
            parent=self.parent.place if self.parent is not None else None,
        )

    def cancel(self, cause: Cause) -> None:
        """Cancel its model call, tools and children. The first cause counts."""
        if self.life.cause is None:
            self.life.cause = cause
        self.scope.cancel(cause.reason or cause.kind)

    async def ask_to_wrap_up(self) -> None:
        """Request a wrap-up: it concludes at its next step."""
        await self.take(Item(new_id(), "wrap_up"))

    async def take(self, item: Item, *, patient: bool = True) -> bool:
        """Store and deliver an item to its inbox; False when it has ended or a cancel is requested."""
        posted = facts.Posted(self.place, item.id, item.kind, item.payload)
        if not (await self.services.recorder.record(posted, shielded=True, patient=patient)).held:
            return False
        self.inbox.put(item)
        return True

    def why_stopped(self) -> Cause:
        """Its own cause or deadline, else the nearest ancestor's; a silent cause above is silent here."""
        if self.life.cause is not None:
            return self.life.cause
        if loop_time() >= self.allowance.deadline:
            return Cause("deadline", seconds=self.allowance.timeout)
        above = self.parent
        while above is not None:
            if (cause := above.life.cause) is not None:
                return cause if cause.silent else Cause("parent", cause.by, cause.reason)
            if above.life.failed or loop_time() >= above.allowance.deadline:
                return Cause("parent", above.name, "its parent ended")
            above = above.parent
        return Cause("shutdown", "outrider", "the service stopped")

    def resumes_elsewhere(self) -> bool:
        """Whether it stops without an end, for another process to resume it."""
        each: Execution | None = self
        while each is not None and each.life.cause is None:
            each = each.parent
        return each is not None and each.life.cause is not None and each.life.cause.silent

    def _leave(self) -> None:
        """Deliver the end to the parent, release slot and reservations, leave the tree. Runs once, without await."""
        if self.done.is_set:
            return
        self.tree.remove(self)
        self.allowance.close()
        if self.parent is not None:
            self.parent.children.leave(self.snapshot(), end_item(self.node, self.life, self.allowance.own.tool_calls))
        self.slot.release()
        self.done.set()

    async def abandon(self) -> None:
        """Write the end of an execution that did not stop within the grace period, and stop its servers."""
        if (final := await ending.give_up(self.view(), self.why_stopped(), self.activity)) is not None:
            self.life.end(final)
            self._leave()
            if self.state.tools is not None:
                await self.state.tools.stop_servers()
