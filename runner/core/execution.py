"""One execution: slot → deadline → task group for its children → strategy → its end, recorded. The body never raises.

Owns the life of an execution. It knows no SQL, no provider and no tool; facts go to the recorder. Its one invariant: when
`run` returns, the row is terminal (or was left to another process on purpose), the parent's inbox has the end, and nothing
below is alive. A start gate keeps a stored execution from starting before its parent releases or dismisses it: a step of a
plan gets its first message with its release.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from db.clock import stamp
from db.ids import ExecutionId, new_execution_id, new_id
from db.latch import Latch
from db.rows.executions import Place, Start
from db.rows.transcript import ToolOutcome
from db.status import ExecutionStatus
from registry import CALLERS, AgentSpec, ToolFilter
from runner.core import facts
from runner.core.allowance import Allowance
from runner.core.delegation import labelled_path
from runner.core.ending import Cause, Closing, Dismissal, End, said_by_provider, salvaged, verdict
from runner.core.inbox import Inbox, Item
from runner.core.services import Habitat
from runner.core.slots import Slots
from runner.core.spawn import SpawnRequest, first_of, keep_an_answer, spawned
from runner.core.strategy import Strategy
from runner.core.views import child_of, end_of, reports_of
from runner.errors import first_cause
from runner.messages import clean
from runner.origin import Origin
from runner.result import Result
from runner.resume.restore import Heritage, Resumption
from runner.roles import CONCLUDING, EXTRACTOR
from runner.snapshot import Child
from runner.strategies.context import Work
from runner.strategies.retries import Attempts
from runner.text import inert

log = logging.getLogger("outrider.execution")

LAST_WRITE_SECONDS = 5.0
"""The last write of an execution is shielded from its own cancellation, for at most this long."""

TURNS_TO_CLOSE = 2
"""Turns of the event loop: in the first a connection is told to close, in the second it does."""

NO_KEYS: Mapping[str, str] = MappingProxyType({})


class Execution:
    """One agent at work on one task."""

    __slots__ = (
        "_failed", "_resumption", "alive", "allowance", "attempt", "attempts", "born", "born_at", "cause", "closing",
        "delegation_path", "depth", "done", "ended", "ended_at", "error", "group", "habitat", "hold", "id", "inbox", "keys",
        "limits", "name", "origin", "parent", "path", "place", "position", "request", "result", "scope", "services", "slot",
        "slots", "stage", "status", "strategy", "tree", "work",
    )  # fmt: skip

    def __init__(
        self, habitat: Habitat, request: SpawnRequest, parent: Execution | None, heritage: Heritage | None = None
    ) -> None:
        self.habitat, self.services, self.tree = habitat, habitat.services, habitat.tree
        self.request, self.parent = request, parent
        self.id = new_execution_id() if heritage is None else ExecutionId(heritage.row["id"])
        self.name = request.name or request.agent.name
        self.limits = request.limits
        if parent is not None and parent.limits.max_depth < request.limits.max_depth:
            self.limits = replace(request.limits, max_depth=parent.limits.max_depth)  # depth binds below
        self.path: tuple[str, ...] = (*(parent.path if parent is not None else ()), request.agent.name)
        above = parent.delegation_path if parent is not None else ()
        self.delegation_path: tuple[str, ...] = labelled_path(above, request.agent.name, request.role, request.input)
        """The same with commands as labels, as the registry of delegations shows it."""
        self.depth: int = 0 if parent is None else parent.depth + int(isinstance(parent.request.agent, AgentSpec))
        self.stage: str | None = request.stage or (parent.stage if parent is not None else None)
        root: str = parent.place.root_execution_id if parent is not None else self.id
        self.origin: Origin = parent.origin if parent is not None else request.origin.in_session()
        self.place: Place = Place(self.id, parent.id if parent is not None else None, root, self.origin.session)
        self.position = 1 if heritage is None else int(heritage.row["position"])
        purse = parent.allowance if parent is not None else None
        self.allowance: Allowance = Allowance(self.limits, purse, self._timeout(), self.id, granted=request.granted)
        self.inbox = Inbox(wake_on_any=self.limits.wake == "any")
        self.slots = Slots(self.limits.max_concurrent_agents)
        """For its children."""
        tops = self.tree.background_slots if request.role == EXTRACTOR else self.tree.root_slots
        slots = parent.slots if parent is not None else tops
        self.slot = slots.none() if request.held else slots.reserve()
        self.hold = Hold() if request.held else None
        """Whether it must not begin before its parent says so."""
        self.scope = anyio.CancelScope()
        self.cause: Cause | None = None
        self.status = ExecutionStatus(request.status if heritage is None else heritage.row["status"])
        self.result: Result | None = None
        self.error: str | None = None
        self.done = Latch()
        self.attempt = 1 if heritage is None else int(heritage.row["attempt"])
        self.born_at = anyio.current_time()
        self.ended_at: float | None = None
        self.alive: dict[str, Execution] = {}
        """Its children that have a task."""
        self.ended: dict[str, Child] = {}
        """Its children that are over."""
        self.keys: Mapping[str, str] = NO_KEYS
        """Its children that were dispatched with a key, by it."""
        self.born = 0
        """How many children it ever tried to start: their positions never repeat, even if a row could not be stored."""
        self.group: TaskGroup | None = None
        self.work: Work | None = None
        self.strategy: Strategy | None = None
        self._failed = False
        self.closing = Closing(self)
        self.attempts = Attempts(self) if request.retries else None
        goes_on = heritage is not None or request.continues is not None
        self._resumption = Resumption(self, heritage) if goes_on else None

    def _timeout(self) -> float:
        if self.request.timeout is not None:
            return self.request.timeout
        if self.parent is not None and self.request.role == "sub_agent":
            return min(self.parent.limits.agent_timeout, self.limits.timeout)
        return self.limits.timeout

    @property
    def denied(self) -> tuple[ToolFilter, ...]:
        """The tool filters of its ancestors and its own: what one of them denies is denied to everything below."""
        above = self.parent.denied if self.parent is not None else ()
        return (*above, self.request.agent.tools) if isinstance(self.request.agent, AgentSpec) else above

    @property
    def roles_above(self) -> tuple[str, ...]:
        """The roles of its callers, upwards."""
        return (self.parent.request.role, *self.parent.roles_above) if self.parent is not None else ()

    @property
    def found(self) -> str:
        """What there is to show when it does not come to its own end: its last words, and what its children brought."""
        agent, own = self.request.agent, self.strategy.found if self.strategy is not None else ""
        if isinstance(agent, AgentSpec) and agent.strategy in CALLERS:
            return own  # it knows which of its children have something to show
        return "\n\n".join(part for part in (own, reports_of(self.ended.values())) if part.strip())

    @property
    def told(self) -> list[Item]:
        """What was said to its caller before it was born: it is in its inbox from the beginning."""
        return [item.passed_on(self.id) for item in self.request.said]

    @property
    def prompt(self) -> str:
        """Its first user message."""
        return clean(self.request.prompt) if self.request.prompt is not None else inert(self.request.task)

    # -- birth and start -----------------------------------------------------------------------------------------------

    async def enter(self, settled: ToolOutcome | None = None) -> bool:
        """Store it; False when it is refused. One that need not wait for a slot begins with its row: a commit less.

        Shielded, because its task must follow its row. Whatever the reason, one that is not stored keeps no slot and no
        money. Raises Refusal when no answer of it can be paid.
        """
        begins = self.status is ExecutionStatus.PENDING and not self.slot.queue_position and self.hold is None
        fact = spawned(self, settled)
        if begins:
            fact = replace(fact, started=self._beginning())
        held = False
        try:
            if self.hold is None:
                keep_an_answer(self)
            stored = await self.services.recorder.record(fact, shielded=True, patient=self.parent is not None)
            held = stored.held
        finally:
            if not held:
                self.slot.release()
                self.allowance.close()
        if held and begins:
            self.status = ExecutionStatus.RUNNING
        return held

    def _beginning(self) -> facts.Started:
        """The clock runs from here."""
        self.allowance.start(concludes=self.request.role in CONCLUDING)
        first = first_of(self) if self.hold is not None else None  # whoever is not held has it since its birth
        start = Start(stamp(), self.deadline(), self.attempt)
        return facts.Started(self.place, self.name, start, first, self.request.step)

    def deadline(self) -> str:
        """Its hard end, as rows have it."""
        return stamp(datetime.now(UTC) + timedelta(seconds=self.allowance.seconds_left))

    # -- life ----------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Live, and write the end. Only a cancellation from outside passes, once the end is written."""
        end: End | None = None
        try:
            with self.scope:
                if self._resumption is None or self._resumption.needs_slot:
                    end = await self._turn()
                if end is None:
                    end = await self._live()
        finally:
            # Bounded, or a cancel could wait for ever. No await between row and inbox: an end is never seen undelivered.
            final = end if end is not None else self.why_stopped()
            with anyio.move_on_after(LAST_WRITE_SECONDS, shield=True) as last_write:
                if end is None:
                    for _ in range(TURNS_TO_CLOSE):  # the connections of a whole tree close before its end is written down
                        await anyio.lowlevel.checkpoint()
                await self.closing.finish(final)
            if last_write.cancelled_caught:
                log.error("the end of execution %s (%s) was not written in time", self.id, self.name)
                self.closing.assume(final)
            self._leave()
            if self.work is not None and self.work.toolbox is not None:
                with anyio.move_on_after(LAST_WRITE_SECONDS, shield=True):
                    await self.work.toolbox.tools.close()

    async def _turn(self) -> End | None:
        """Wait until it may begin; its end, if it never is to."""
        if self.hold is not None and (dismissed := await self.hold.wait()) is not None:
            return dismissed
        if self.slot.queue_position:
            await self.slot.wait()
        return None

    async def _live(self) -> End | None:
        """From the start to an answer; None when somebody else wrote the end."""
        try:
            async with self._resumption.turn() if self._resumption is not None else nullcontext():
                if not await self._start():
                    return None
                self.work, self.strategy = self.habitat.begin(self)
                self.allowance.bind(self.scope)
                if self._resumption is not None and (end := await self._resumption.recall()) is not None:
                    return end
            return await self._work_until_accepted()
        except Exception as error:
            log.exception("execution %s (%s) failed", self.id, self.name)
            return error

    async def _start(self) -> bool:
        """pending → running, unless it was born running; False when it was cancelled before."""
        if self._resumption is not None:
            await self._resumption.start()
        if self.status is ExecutionStatus.PENDING:
            if not (await self.services.recorder.record(self._beginning())).held:
                return False
            self.status = ExecutionStatus.RUNNING
        return True

    async def _work_until_accepted(self) -> End | None:
        """Run the strategy until its answer is accepted: success is refused while anything is open or unread."""
        while True:
            end: End | None = None
            async with anyio.create_task_group() if self._may_have_children else nullcontext() as self.group:
                if self._resumption is not None:
                    self._resumption.restart_children()
                end = await self._strategy_end()
                if not isinstance(end, Result):
                    self._failed = True
                    if self.group is not None:
                        self.group.cancel_scope.cancel("the parent failed")
            assert end is not None
            judged = verdict(end, self.found)
            if judged.status is not ExecutionStatus.COMPLETED or await self.closing.write(judged, shielded=True):
                return end
            if (refused := await self.closing.why_refused()) is not None:
                return refused

    def adopt(self, child: Execution) -> None:
        """A child whose row is there runs in this execution's group from now on."""
        assert self.group is not None
        self.alive[child.id] = child
        self.tree.add(child)
        self.inbox.expect(child.id)
        self.group.start_soon(child.run, name=f"{child.name} {child.id}")

    @property
    def had_children(self) -> bool:
        """Whether rows may lie below it."""
        return bool(self.ended or self.alive) or self._resumption is not None

    @property
    def _may_have_children(self) -> bool:
        """Whether it needs a task group: an agent in a loop without a catalogue, as most are, starts nobody."""
        agent = self.request.agent
        return bool(self.request.catalogue) or not isinstance(agent, AgentSpec) or agent.strategy != "loop"

    async def _strategy_end(self) -> End:
        assert self.strategy is not None
        if self.request.known is not None:
            return self.request.known
        try:
            end = await self.attempts.run() if self.attempts is not None else await self.strategy.run()
        except Exception as error:
            end = first_cause(error)
        if not isinstance(end, Exception):
            return end
        log.info("execution %s (%s) ends with %r%s", self.id, self.name, end, said_by_provider(end))
        return salvaged(end, self.found, self.allowance.wrap_up)

    # -- end -----------------------------------------------------------------------------------------------------------

    def cancel(self, cause: Cause) -> None:
        """Stop it: its model call, its tools, its children. The first cause counts."""
        if self.cause is None:
            self.cause = cause
        self.scope.cancel(cause.reason or cause.kind)

    async def ask_to_wrap_up(self) -> None:
        """Let it answer with what it has: it concludes at its next step."""
        await self.take(Item(new_id(), "wrap_up"))

    async def take(self, item: Item, *, patient: bool = True) -> bool:
        """Put a message or a request into its inbox; False when it has ended or is asked to stop."""
        posted = facts.Posted(self.place, item.id, item.kind, item.payload)
        if not (await self.services.recorder.record(posted, shielded=True, patient=patient)).held:
            return False
        self.inbox.put(item)
        return True

    def why_stopped(self) -> Cause:
        """Its own cause or deadline, or what stopped the nearest ancestor; silence above is silence here."""
        if self.cause is not None:
            return self.cause
        if anyio.current_time() >= self.allowance.deadline:
            return Cause("deadline", seconds=self.allowance.timeout)
        holder = self.parent
        while holder is not None:
            if holder.cause is not None:
                return holder.cause if holder.cause.silent else Cause("parent", holder.cause.by, holder.cause.reason)
            if holder._failed or anyio.current_time() >= holder.allowance.deadline:
                return Cause("parent", holder.name, "its parent ended")
            holder = holder.parent
        return Cause("shutdown", "outrider", "the service stopped")

    def goes_on_elsewhere(self) -> bool:
        """Whether it is being stopped without an end, so that another process goes on with it."""
        holder: Execution | None = self
        while holder is not None and holder.cause is None:
            holder = holder.parent
        return holder is not None and holder.cause is not None and holder.cause.silent

    def _leave(self) -> None:
        """Tell the parent, free the slot, be forgotten."""
        if self.done.is_set:
            return
        self.tree.remove(self)
        self.allowance.close()
        if self.parent is not None:
            self.parent.alive.pop(self.id, None)
            self.parent.ended[self.id] = child_of(self)
            self.parent.inbox.put(end_of(self))
        self.slot.release()
        self.done.set()

    async def abandon(self) -> None:
        """It did not stop within the grace: write its end for it, let its parent go on, and stop its servers."""
        if await self.closing.give_up():
            self._leave()
            if self.work is not None and self.work.toolbox is not None:
                await self.work.toolbox.stop_servers()


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
