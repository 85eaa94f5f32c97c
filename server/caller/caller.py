"""The caller of one request, and the executions that belong to it.

Owns the visibility rule: a caller sees the executions of its principal, at any depth; a foreign id is as unknown as one
that never existed. Owns everything a caller may do, so that every face starts, looks, speaks, stops and decides alike. Must
not know: how a request arrived, or how its answer looks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from db.errors import QueryRefused, UnknownExecution
from db.ids import PATTERN
from registry import CatalogueEntry, Settings, UnknownName
from runner.approvals.approvals import ApprovalAnswer
from runner.core.guard import entry_of
from runner.core.history import name_of
from runner.core.views import is_gone, snapshot_of_row, subtree_usage
from runner.errors import NoModel, Refusal
from runner.origin import Origin
from runner.resume.readiness import listed
from runner.service.order import Order
from runner.snapshot import DispatchOrder, Question, Snapshot
from runner.trace_context import trace_context
from server.identity import LOCAL, READ_ALL, Identity

if TYPE_CHECKING:
    from runner.service.dispatcher import Dispatcher

GOES_ON = "continuing after an approval decision"
"""The activity shown after a decision, until the execution reports its own."""


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The context of a request: everything besides its arguments."""

    who: Identity = LOCAL
    session: str | None = None
    since: str | None = None
    """An id older than every execution of the session."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Only the trace context is read from it."""
    face: str = "a caller"
    """The author of messages and cancellations where the caller has no name."""


class RequestCaller:
    """The caller of one request."""

    def __init__(self, dispatcher: Dispatcher, asking: RequestInfo) -> None:
        self.dispatcher, self.asking = dispatcher, asking
        self.who = asking.who
        self._usual: dict[str, float | None] = {}
        """Typical seconds by agent, read once per request: it may show a hundred executions of one agent."""

    @property
    def name(self) -> str:
        """Recorded as the author of its messages and cancellations."""
        return self.who.principal or self.asking.face

    @property
    def settings(self) -> Settings:
        return self.dispatcher.services.settings

    @property
    def catalogue(self) -> Sequence[CatalogueEntry]:
        return self.settings.offered()

    # -- start ---------------------------------------------------------------------------------------------------------

    async def dispatch(self, order: DispatchOrder) -> tuple[Snapshot, bool]:
        """Start an agent as a top-level execution; raises Refusal."""
        entry = entry_of(self.catalogue, order.name, self.settings.agents)
        wish = Order(entry.name, order.task, order.input, order.timeout, order.budget_usd, order.key)
        return await self.start(wish)

    async def start(self, order: Order) -> tuple[Snapshot, bool]:
        """Start an agent or a chain for this caller; raises Refusal, UnknownName."""
        return await self._started(self.dispatcher.start_once(self._mine(order)))

    async def start_with(self, settings: Settings, order: Order) -> Snapshot:
        """Start an agent or a chain of another configuration, which its tree keeps; raises Refusal, UnknownName."""
        return await self.dispatcher.start_with(settings, self._mine(order))

    async def say(self, message: Order, patience: float) -> tuple[Snapshot, bool]:
        """Queue a user's message for the chat agent; raises Refusal."""
        return await self._started(self.dispatcher.chat_queue.accept(self._mine(message), patience))

    def _mine(self, order: Order) -> Order:
        asking = self.asking
        return replace(order, principal=self.who.principal, session=asking.session, trace=trace_context(asking.meta))

    async def _started(self, start: Awaitable[tuple[Snapshot, bool]]) -> tuple[Snapshot, bool]:
        try:
            return await start
        except NoModel as error:
            raise Refusal("no_model", str(error), error.hint) from error

    async def resume(self, execution: str, text: str) -> Snapshot:
        """Resume an interrupted execution, or continue an ended one whose agent the caller may dispatch; raises Refusal."""
        return await self._goes_on(execution, lambda asker: self.dispatcher.resume(execution, text, asker))

    async def _goes_on(self, execution: str, begin: Callable[[Origin], Awaitable[Snapshot]]) -> Snapshot:
        """Begin something that follows one of its executions."""
        row = await self.row(execution)
        assert row is not None
        if row["strategy"] != "chain":
            entry_of(self.catalogue, name_of(row), self.settings.agents)
        try:
            return await begin(Origin(None, self.asking.session, trace_context(self.asking.meta)))
        except NoModel as error:
            raise Refusal("no_model", str(error), error.hint) from error
        except UnknownName as error:
            raise Refusal("unknown_agent", str(error), error.hint) from error

    async def rerun(self, execution: str, node: str | None, task: str | None) -> Snapshot:
        """Run an ended tree once more, from one of its executions on, if the caller may dispatch its agent.

        Raises Refusal.
        """
        return await self._goes_on(execution, lambda asker: self.dispatcher.rerun(execution, node, task, asker))

    async def message(self, execution: str, text: str) -> Snapshot | None:
        """Send a message to one of its open executions: None. An ended one is continued, and its continuation returned.

        Raises Refusal where there is nothing to continue.
        """
        if await self.dispatcher.send_message(execution, text, by=self.name):
            return None
        return await self.resume(execution, text)

    # -- look ----------------------------------------------------------------------------------------------------------

    async def row(self, execution: str) -> Mapping[str, Any] | None:
        """The row of one of its executions, by its whole or short id; None for anything else.

        Raises UnknownExecution when a short id means several of its executions.
        """
        row = await self.dispatcher.services.database.reads.execution(await self.whole(execution))
        return row if row is not None and self.who.sees(row["principal"]) else None

    async def whole(self, given: str) -> str:
        """Resolve a short id among the caller's own executions: foreign ones neither match nor make it ambiguous.

        Raises UnknownExecution when it means several of them.
        """
        if PATTERN.fullmatch(given):
            return given
        found = await self.dispatcher.services.database.reads.named(given, self.who.principal)
        if len(found) > 1:
            raise UnknownExecution(given, found)
        return found[0] if found else given

    async def look(self, child: str) -> Snapshot | None:
        """One of its executions, by its whole or short id; None for anything else.

        Raises UnknownExecution when a short id means several of its executions.
        """
        child = await self.whole(child)
        live = self.dispatcher.tree.get(child)
        if live is not None and self.who.sees(live.origin.principal):
            found = await self._with_questions(live.snapshot())
            if live.allowance.stands and not found.questions:  # decided, and about to continue
                found = replace(found, activity=GOES_ON)
            return await self._with_expectation(found)
        row = await self.row(child)
        return await self._with_expectation(await self._elsewhere(row)) if row is not None else None

    async def subtree_usage(self, children: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """The usage of each subtree, running executions included."""
        return await subtree_usage(self.dispatcher.services.database, children)

    async def _elsewhere(self, row: Mapping[str, Any]) -> Snapshot:
        """The snapshot of an execution that is not in this process, from its rows."""
        child = self.of_row(row)
        gone = is_gone(row, self.dispatcher.services.database.path)
        if gone and (lacks := await self.dispatcher.lacks(row["root_execution_id"])):
            child = replace(child, activity=f"{child.activity}; to be resumed it needs {listed(lacks)}")
        if child.status == "running":
            child = await self._with_questions(replace(child, waiting_for="approval"))
        if child.activity or child.status != "running":
            return child
        tools = await self.dispatcher.services.database.reads.calling(child.id)
        return replace(child, activity=f"calling {', '.join(tools)}" if tools else "asking the model")

    def of_row(self, row: Mapping[str, Any]) -> Snapshot:
        return snapshot_of_row(row, gone=is_gone(row, self.dispatcher.services.database.path))

    async def _with_questions(self, child: Snapshot) -> Snapshot:
        """Add the open approvals of the subtree; without any, it does not wait for approval."""
        if child.waiting_for != "approval":
            return child
        questions = await self.questions(child.id)
        return replace(child, questions=questions, waiting_for="approval" if questions else None)

    async def _with_expectation(self, child: Snapshot) -> Snapshot:
        if child.ended:
            return child
        if child.agent not in self._usual:
            reads = self.dispatcher.services.database.reads
            self._usual[child.agent] = await reads.typical_seconds(child.agent, self.who.principal)
        return replace(child, expected=self._usual[child.agent])

    async def query(self, sql: str, *, rows: int, size: int) -> Mapping[str, Any]:
        """Ask the database of all principals in read-only SQL; raises QueryRefused."""
        if not self.who.reads_all:
            raise QueryRefused("SQL reads the executions of every principal", f"use a token with the scope `{READ_ALL}`")
        return await self.dispatcher.services.database.queries.ask(self.who.principal, sql, rows=rows, size=size)

    # -- decide and stop -----------------------------------------------------------------------------------------------

    async def questions(self, top: str | None = None) -> Sequence[Question]:
        """The open questions of an execution and its subtree, or all that the caller may see."""
        asked = await self.dispatcher.approvals.open(top)
        return [each for each in asked if self.who.sees(each.principal)]

    async def decide(self, question: Question, shown: str, decision: ApprovalAnswer) -> bool:
        """Answer a question, where the person saw `shown`; False if it is closed, or the call is another one."""
        return await self.dispatcher.approvals.decide_shown(question, shown, decision)

    async def stop(self, child: str, reason: str, *, wrap_up: bool) -> str:
        """Stop one of its executions: `requested` or `already_finished`."""
        if wrap_up:
            return await self.dispatcher.ask_to_wrap_up(child, by=self.name)
        return await self.dispatcher.cancel(child, by=self.name, reason=reason)
