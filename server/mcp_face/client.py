"""An MCP client as the caller of the tools, and the executions that belong to it.

Owns the visibility rule: a client sees the executions of its principal, at any depth; a foreign id is as unknown as one
that never existed. A client has no inbox; it polls. Invariant: a wait ends with the call, and the execution continues.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import anyio

from db.clock import loop_time
from db.errors import UnknownExecution
from db.ids import PATTERN
from db.rows.lists import ListFilter
from db.store.writer import INTERVAL
from registry import CatalogueEntry, Settings, UnknownName
from runner.core.guard import entry_of
from runner.core.history import name_of
from runner.core.views import is_gone, snapshot_of_row, subtree_usage
from runner.errors import NoModel, Refusal
from runner.origin import Origin
from runner.resume.readiness import listed
from runner.service.order import Order
from runner.snapshot import DispatchOrder, Snapshot
from runner.trace_context import trace_context
from server.identity import LOCAL, Identity
from server.mcp_face.elicitation import GOES_ON, PersonWanted, word_in
from server.mcp_face.text import progress_in_words

if TYPE_CHECKING:
    from runner.service.dispatcher import Dispatcher
    from runner.snapshot import Question
    from server.mcp_face.elicitation import Person

REPORT_SECONDS = 2.0
"""Interval of progress notifications while a call waits."""
RECENT = 20
"""Executions that `list_agents` shows; `list_executions` shows all."""
MOST_TOLD = 5
"""Executions in a progress notification."""

Report = Callable[[float, str], Awaitable[None]]
"""Sends a progress notification: the seconds waited, and the current activity."""


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The context of a request: everything besides its arguments."""

    who: Identity = LOCAL
    session: str | None = None
    since: str | None = None
    """An id older than every execution of the session."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Only the trace context is read from it."""
    report: Report | None = None
    """None if the client did not ask for progress."""
    person: Person | None = None
    """None if the client cannot put questions to a person."""


class Client:
    """The client of one request. Its children are the executions of its principal."""

    def __init__(self, dispatcher: Dispatcher, asking: RequestInfo) -> None:
        self.dispatcher, self._asking = dispatcher, asking
        self.who = asking.who
        self.late: list[str] = []
        """Notes about answers that came too late, with the decision that had been made."""
        self._usual: dict[str, float | None] = {}
        """Typical seconds by agent, read once per request: it may show a hundred executions of one agent."""

    @property
    def name(self) -> str:
        """Recorded as the author of its messages and cancellations."""
        return self.who.principal or "an MCP client"

    @property
    def settings(self) -> Settings:
        return self.dispatcher.services.settings

    @property
    def catalogue(self) -> Sequence[CatalogueEntry]:
        return self.settings.offered()

    # -- start ---------------------------------------------------------------------------------------------------------

    async def dispatch(self, order: DispatchOrder) -> tuple[Snapshot, bool]:
        """Start an agent as a top-level execution; raises Refusal."""
        entry = entry_of(self.catalogue, order.name, self.dispatcher.services.settings.agents)
        wish = Order(entry.name, order.task, order.input, order.timeout, order.budget_usd, order.key)
        return await self.start(wish)

    async def start(self, order: Order) -> tuple[Snapshot, bool]:
        """Start an agent or a chain for this client; raises Refusal, UnknownName."""
        return await self._started(self.dispatcher.start_once(self._mine(order)))

    async def say(self, message: Order, patience: float) -> tuple[Snapshot, bool]:
        """Queue a user's message for the chat agent; raises Refusal."""
        return await self._started(self.dispatcher.chat_queue.accept(self._mine(message), patience))

    def _mine(self, order: Order) -> Order:
        asking = self._asking
        return replace(order, principal=self.who.principal, session=asking.session, trace=trace_context(asking.meta))

    async def _started(self, start: Awaitable[tuple[Snapshot, bool]]) -> tuple[Snapshot, bool]:
        try:
            return await start
        except NoModel as error:
            raise Refusal("no_model", str(error), error.hint) from error

    async def resume(self, execution: str, text: str) -> Snapshot:
        """Continue an ended execution, if the client may dispatch its agent; raises Refusal."""
        dispatcher, asking = self.dispatcher, self._asking
        row = await self.row(execution)
        assert row is not None
        if row["strategy"] != "chain":
            entry_of(self.catalogue, name_of(row), dispatcher.services.settings.agents)
        try:
            return await dispatcher.resume(execution, text, Origin(None, asking.session, trace_context(asking.meta)))
        except NoModel as error:
            raise Refusal("no_model", str(error), error.hint) from error
        except UnknownName as error:
            raise Refusal("unknown_agent", str(error), error.hint) from error

    # -- look ----------------------------------------------------------------------------------------------------------

    async def row(self, execution: str) -> Mapping[str, Any] | None:
        """The row of one of its executions, by its whole or short id; None for anything else.

        Raises UnknownExecution when a short id means several of its executions.
        """
        row = await self.dispatcher.services.database.reads.execution(await self._whole(execution))
        return row if row is not None and self.who.sees(row["principal"]) else None

    async def _whole(self, given: str) -> str:
        """Resolve a short id among the client's own executions: foreign ones neither match nor make it ambiguous."""
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
        child = await self._whole(child)
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

    async def children(self) -> Sequence[Snapshot]:
        """The latest top-level executions of its principal, or of its session without one; oldest first."""
        wanted = ListFilter(self.who.principal, only_roots=True, limit=RECENT)
        if self.who.principal is None:
            wanted = replace(wanted, session=self._asking.session, since=self._asking.since)
        rows = await self.dispatcher.services.database.reads.listing(wanted)
        return [self.of_row(row) for row in reversed(rows)]

    def claim(self, child: str) -> str | None:
        """Always None: a client has no inbox."""
        return None

    def unread(self) -> Sequence[str]:
        """Always empty: a client has no inbox."""
        return ()

    # -- questions to its person ---------------------------------------------------------------------------------------

    async def questions(self, top: str) -> Sequence[Question]:
        """The open questions about an execution and its subtree."""
        asked = await self.dispatcher.approvals.open(top)
        return [each for each in asked if self.who.sees(each.principal)]

    async def answer(self, question: Question, shown: str, answer: Any) -> None:
        """Apply an answer to a question. One without a decision is ignored; one that came too late is noted in `late`."""
        word = word_in(answer, self.name, self.who.principal)
        if word is not None and not await self.dispatcher.approvals.decide_shown(question, shown, word):
            await self._tell_late([question.id])

    async def answer_all(self, tops: Sequence[str], answers: Mapping[str, Any], shown: Mapping[str, str] | None) -> None:
        """Apply answers, by question id, about these executions; `shown` has the text that the person saw of each."""
        wanted = [each for each in answers if shown is None or each in shown]
        open_ = {each.id: each for top in tops for each in await self.questions(top)}
        for question in [open_.pop(each) for each in wanted if each in open_]:
            seen = question.shown if shown is None else shown[question.id]
            wanted.remove(question.id)
            await self.answer(question, seen, answers[question.id])
        said = [each for each in wanted if word_in(answers[each], self.name, self.who.principal) is not None]
        decided = [row["id"] for top in tops for row in await self.dispatcher.approvals.decided(top)] if said else []
        await self._tell_late([each for each in said if each in decided])

    async def _tell_late(self, approvals: Sequence[str]) -> None:
        from runner.approvals.approvals import outcome_of

        for row in await self.dispatcher.services.database.reads.questions.those(approvals):
            self.late.append(f"this answer of your user was too late: {outcome_of(row)}")

    # -- wait and stop -------------------------------------------------------------------------------------------------

    async def until_one_ends(self, children: Sequence[str]) -> None:
        """Return when one of these has ended, in any process; report progress meanwhile.

        Approvals are asked of the client's person: in the older era during the wait, in the newer one by ending the call.
        Raises PersonWanted for the latter.
        """
        wanted: list[Question] = []
        async with anyio.create_task_group() as group:
            if (person := self._asking.person) is not None:
                group.start_soon(self._ask, children, person, wanted, group.cancel_scope, name="ask a client's person")
            if self._asking.report is not None:
                group.start_soon(self._tell, children, self._asking.report, name="tell a client how it goes")
            elsewhere = []
            for child in children:
                live = self.dispatcher.tree.get(child)
                if live is None:
                    elsewhere.append(child)
                else:
                    group.start_soon(_then, live.done.wait, group.cancel_scope.cancel, name=f"wait for {child}")
            if elsewhere:
                group.start_soon(
                    _then, lambda: self._until_row_ends(elsewhere), group.cancel_scope.cancel, name="wait for rows"
                )
        if wanted:
            raise PersonWanted(children, wanted)

    async def _ask(self, children: Sequence[str], person: Person, wanted: list[Question], call: anyio.CancelScope) -> None:
        """Put every question once; in the newer era, collect them in `wanted` and end the call."""
        while True:
            news = self.dispatcher.approvals.news
            open_ = {each.id: each for child in children for each in await self.questions(child)}
            new = [each for each in open_.values() if each.id not in person.asked]
            person.asked.update(each.id for each in new)
            if new and person.answers_later:
                wanted.extend(new)
                return call.cancel("its answer is a question")
            for each in new:
                await self.answer(each, each.shown, await person.ask(each))
            if not new:
                await news.wait()

    async def _until_row_ends(self, children: Sequence[str]) -> None:
        reads = self.dispatcher.services.database.reads
        while True:
            for child in children:
                row = await reads.execution(child)
                if row is None or row["finished_at"] is not None:
                    return
            await anyio.sleep(INTERVAL)

    async def _tell(self, children: Sequence[str], report: Report) -> None:
        began = loop_time()
        while True:
            await anyio.sleep(REPORT_SECONDS)
            looked = [child for child in [await self.look(each) for each in children[:MOST_TOLD]] if child is not None]
            used = await self.subtree_usage([child.id for child in looked])
            words = [progress_in_words(child.agent, child.activity or child.status, used.get(child.id)) for child in looked]
            await report(loop_time() - began, "; ".join(words))

    async def stop(self, child: str, reason: str, *, wrap_up: bool) -> str:
        """Stop one of its executions: `requested` or `already_finished`."""
        if wrap_up:
            return await self.dispatcher.ask_to_wrap_up(child)
        return await self.dispatcher.cancel(child, by=self.name, reason=reason)


async def _then(wait: Callable[[], Awaitable[Any]], after: Callable[[], None]) -> None:
    await wait()
    after()
