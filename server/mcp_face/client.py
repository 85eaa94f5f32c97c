"""An MCP client as the caller of the tools: what a caller is over MCP, besides what every caller is.

Owns the wait of a call: progress reports, and questions to the client's person. A client has no inbox; it polls.
Invariant: a wait ends with the call, and the execution continues.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import anyio

from db.clock import loop_time
from db.rows.lists import ListFilter
from db.store.writer import INTERVAL
from runner.snapshot import Snapshot
from server.caller.caller import RequestCaller, RequestInfo
from server.mcp_face.elicitation import PersonWanted, word_in
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
class ClientInfo(RequestInfo):
    """The context of an MCP request."""

    face: str = "an MCP client"
    report: Report | None = None
    """None if the client did not ask for progress."""
    person: Person | None = None
    """None if the client cannot put questions to a person."""
    has_apps: bool = False
    """Whether the client shows views (`server/mcp_face/app_tools.py`)."""
    dashboard: str | None = None
    """The address of the dashboard, where this server has one."""


class Client(RequestCaller):
    """The client of one request. Its children are the executions of its principal."""

    def __init__(self, dispatcher: Dispatcher, asking: ClientInfo) -> None:
        super().__init__(dispatcher, asking)
        self._report, self._person = asking.report, asking.person
        self.has_apps, self.dashboard = asking.has_apps, asking.dashboard
        self.late: list[str] = []
        """Notes about answers that came too late, with the decision that had been made."""

    # -- look ----------------------------------------------------------------------------------------------------------

    async def children(self) -> Sequence[Snapshot]:
        """The latest top-level executions of its principal, or of its session without one; oldest first."""
        wanted = ListFilter(self.who.principal, only_roots=True, limit=RECENT)
        if self.who.principal is None:
            wanted = replace(wanted, session=self.asking.session, since=self.asking.since)
        rows = await self.dispatcher.services.database.reads.listing(wanted)
        return [self.of_row(row) for row in reversed(rows)]

    def claim(self, child: str) -> str | None:
        """Always None: a client has no inbox."""
        return None

    def unread(self) -> Sequence[str]:
        """Always empty: a client has no inbox."""
        return ()

    # -- questions to its person ---------------------------------------------------------------------------------------

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
            if (person := self._person) is not None:
                group.start_soon(self._ask, children, person, wanted, group.cancel_scope, name="ask a client's person")
            if self._report is not None:
                group.start_soon(self._tell, children, self._report, name="tell a client how it goes")
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


async def _then(wait: Callable[[], Awaitable[Any]], after: Callable[[], None]) -> None:
    await wait()
    after()
