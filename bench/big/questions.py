"""The questions that the faces ask a big database, each over random draws.

Owns which function of which face answers a question and what is drawn for it. Must not know: how an answer is timed.
Invariant: the functions are those that the faces call themselves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import anyio.to_thread
import httpx2

from bench.big.population import AGENTS, HUGE, LARGE, LONG_TURNS, PRINCIPALS
from db.ids import LEAST_ENDING, SHORT
from db.query.query import query, recent, recent_query
from db.rows.lists import CommandCaller, ListFilter
from db.rows.reads import Reads
from runner.record.events import PAGE
from server.cli import ps
from server.cli.show.execution_view import load_view
from server.views.filters import ExecutionFilter
from server.views.views import Views

LISTED = 20
"""The executions of a page, as `list_executions` has it."""
CHANGED = 20
"""The events of a change."""
STATUSES = ("completed", "failed", "cancelled", "timed_out", "running", "blocked")


class Draws:
    """Random executions of one database."""

    def __init__(self, path: Path, connection: Any, seed: int) -> None:
        self.path, self.dice, self._connection = path, Random(seed), connection
        self.queries: list[str] = []
        """The SQL that was asked in a process of its own."""
        self.http: httpx2.AsyncClient | None = None
        self._rows = self._first("SELECT max(rowid) FROM executions")
        counted = "SELECT root_execution_id, count(*) FROM executions GROUP BY 1 HAVING count(*) >= ?"
        biggest = LARGE if self._rows >= 10 * LARGE else self._rows // 20
        sizes = {str(root): size for root, size in connection.execute(counted, (biggest,))}
        self._large = [root for root, size in sizes.items() if size < HUGE]
        self._huge = [root for root, size in sizes.items() if size >= HUGE] or self._large
        self._long = [
            str(row[0]) for row in connection.execute("SELECT id FROM executions WHERE turns >= ?", (LONG_TURNS,))
        ]
        self._long = self._long or [self.execution()]

    def _first(self, sql: str, *parameters: Any) -> Any:
        row = self._connection.execute(sql, parameters).fetchone()
        return row[0] if row is not None else None

    @property
    def api(self) -> httpx2.AsyncClient:
        """A client of the served API."""
        assert self.http is not None
        return self.http

    def column(self, name: str) -> Any:
        """A column of any execution."""
        return self._first(f"SELECT {name} FROM executions WHERE rowid = ?", self.dice.randint(1, self._rows))

    def execution(self) -> str:
        """The id of any execution."""
        return str(self.column("id"))

    def root(self) -> str:
        """The tree of any execution."""
        return str(self.column("root_execution_id"))

    def large(self) -> str:
        """A large tree."""
        return self.dice.choice(self._large)

    def huge(self) -> str:
        """A huge tree; a large one where there is none."""
        return self.dice.choice(self._huge)

    def long(self) -> str:
        """An execution of many turns."""
        return self.dice.choice(self._long)

    def handle(self) -> str:
        """What a model called a tool call."""
        last = self._first("SELECT max(rowid) FROM tool_calls")
        return str(self._first("SELECT call_id FROM tool_calls WHERE rowid = ?", self.dice.randint(1, last)))

    def tool_call(self) -> str:
        """The row id of a tool call."""
        last = self._first("SELECT max(rowid) FROM tool_calls")
        return str(self._first("SELECT id FROM tool_calls WHERE rowid = ?", self.dice.randint(1, last)))

    def sequence(self, root: str) -> int:
        """The number of one of the events of a tree."""
        least, most = (
            self._first(f"SELECT {which}(seq) FROM events WHERE root_execution_id = ?", root) for which in ("min", "max")
        )
        return self.dice.randint(least, most)

    def last_sequence(self, root: str) -> int:
        """The number of the newest event of a tree."""
        return int(self._first("SELECT max(seq) FROM events WHERE root_execution_id = ?", root))


Ask = Callable[[Reads, Draws], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, by which command or tool, and how the answer is obtained."""

    key: str
    title: str
    ask: Ask


def _list(*, deep: bool, **drawn: Callable[[Draws], Any]) -> Ask:
    """A page as `list_executions` makes it: the rows, and the sums of their subtrees."""

    async def ask(reads: Reads, draws: Draws) -> None:
        wanted = {name: draw(draws) for name, draw in drawn.items()}
        before = draws.execution() if deep else None
        rows = await reads.listing(ListFilter(before=before, limit=LISTED, **wanted))
        if rows:
            await reads.subtree_totals([row["id"] for row in rows])

    return ask


def _lists() -> Sequence[Question]:
    filters: dict[str, dict[str, Callable[[Draws], Any]]] = {
        "top-level": {"only_roots": lambda _: True},
        "status": {"status": lambda draws: draws.dice.choice(STATUSES)},
        "agent": {"agent": lambda draws: draws.dice.choice(AGENTS)},
        "principal": {"principal": lambda draws: draws.dice.choice(PRINCIPALS[1:])},
        "session": {"session": lambda draws: draws.column("session_id")},
    }
    pairs = [("principal", "top-level"), ("principal", "status"), ("principal", "agent"), ("agent", "status")]
    pairs += [("session", "top-level"), ("status", "top-level"), ("agent", "top-level")]
    wanted = [(name,) for name in filters] + pairs + [("principal", "agent", "status", "top-level")]
    return [
        Question(
            f"list-{'-'.join(names)}{'-deep' if deep else ''}",
            f"list by {', '.join(names)}{', a deep page' if deep else ''}",
            _list(deep=deep, **{key: draw for name in names for key, draw in filters[name].items()}),
        )
        for names in wanted
        for deep in (False, True)
    ]


async def _named(reads: Reads, draws: Draws, given: Callable[[str], str]) -> Any:
    return await reads.named(given(draws.execution()))


async def _of_principal(reads: Reads, draws: Draws) -> Any:
    return await reads.named(draws.execution()[-SHORT:], draws.dice.choice(PRINCIPALS[1:]))


async def _shorts(reads: Reads, draws: Draws) -> Any:
    return await reads.shorts([draws.execution() for _ in range(50)])


async def _evidence(reads: Reads, draws: Draws) -> Any:
    return await reads.evidence(draws.handle())


async def _completions(_: Reads, draws: Draws) -> Any:
    prefix = draws.execution()[-SHORT:][: draws.dice.randint(0, 5)]
    draws.queries.append(recent_query(prefix))
    return await anyio.to_thread.run_sync(recent, draws.path, prefix)


async def _transcript(reads: Reads, execution: str) -> Any:
    return await reads.messages(execution), await reads.tool_calls(execution)


async def _show(reads: Reads, draws: Draws, identifier: str) -> Any:
    assert await reads.evidence(identifier[-8:]) is None
    return await load_view(reads, draws.path, await reads.resolve(identifier[-8:]))


def _sql(text: str, drawn: Callable[[Draws], str] = lambda _: "") -> Ask:
    async def ask(_: Reads, draws: Draws) -> Any:
        draws.queries.append(text.replace("?", f"'{drawn(draws)}'"))
        return await anyio.to_thread.run_sync(query, draws.path, draws.queries[-1])

    return ask


LOOKUPS = (
    Question("prefix", "id by a prefix of 14", lambda reads, draws: _named(reads, draws, lambda whole: whole[:14])),
    Question("ending", "id by its last 6", lambda reads, draws: _named(reads, draws, lambda whole: whole[-SHORT:])),
    Question(
        "ending-4", "id by its last 4", lambda reads, draws: _named(reads, draws, lambda whole: whole[-LEAST_ENDING:])
    ),
    Question("ending-of", "id by its last 6, of a principal", _of_principal),
    Question("shorts", "short forms of 50 ids", _shorts),
    Question("call", "a tool call by its handle", _evidence),
    Question("complete", "completion of an id in a shell", _completions),
)
TREES = (
    Question("tree", "tree of 1,000 executions", lambda reads, draws: reads.tree(draws.large())),
    Question("tree-any", "tree of any execution", lambda reads, draws: reads.tree(draws.root())),
    Question("show", "`show` of 1,000 executions", lambda reads, draws: _show(reads, draws, draws.large())),
    Question("show-any", "`show` of any execution", lambda reads, draws: _show(reads, draws, draws.execution())),
    Question("transcript", "transcript of 100 turns", lambda reads, draws: _transcript(reads, draws.long())),
    Question("transcript-any", "transcript of any execution", lambda reads, draws: _transcript(reads, draws.execution())),
    Question("events", "page of 1,000 events of a large tree", lambda reads, draws: _events(reads, draws, draws.large())),
    Question("events-any", "page of events of any tree", lambda reads, draws: _events(reads, draws, draws.root())),
)
_DAYS = "day, model, sum(executions) as executions, sum(tokens) as tokens, sum(cost_usd) as cost_usd"
USAGE = (
    Question("usage", "usage below 1,000 executions", lambda reads, draws: reads.subtree_totals([draws.large()])),
    Question("usage-any", "usage below any execution", lambda reads, draws: reads.subtree_totals([draws.execution()])),
    Question("sql", "`outrider sql`: `select 1`", _sql("select 1")),
    Question(
        "sql-tree",
        "SQL: `execution_tree` of a tree",
        _sql("select * from execution_tree where root_execution_id = ?", Draws.root),
    ),
    Question(
        "sql-path",
        "SQL: `critical_path` of a tree",
        _sql("select * from critical_path where root_execution_id = ?", Draws.root),
    ),
    Question("sql-agents", "SQL: `agent_costs`", _sql("select * from agent_costs order by cost_usd desc")),
    Question(
        "sql-days", "SQL: `daily_usage` by day and model", _sql(f"select {_DAYS} from daily_usage group by day, model")
    ),
    Question("sql-errors", "SQL: `tool_errors`", _sql("select * from tool_errors order by errors desc")),
    Question("sql-delegations", "SQL: `delegations`", _sql("select * from delegations")),
)


async def _events(reads: Reads, draws: Draws, root: str) -> Any:
    return await reads.events(root, draws.sequence(root), PAGE)


async def _command_calls(reads: Reads, draws: Draws) -> Any:
    caller = CommandCaller(draws.dice.choice(AGENTS), draws.dice.choice(PRINCIPALS), None)
    return await reads.calls.of(caller)


async def _typical(reads: Reads, draws: Draws) -> Any:
    return await reads.typical_seconds(draws.dice.choice(AGENTS), draws.dice.choice(PRINCIPALS))


WORK = (
    Question("ps", "`ps`", lambda _, draws: ps.entries(draws.path, every=False)),
    Question("ps-all", "`ps --all`", lambda _, draws: ps.entries(draws.path, every=True)),
    Question("registry", "`ps --registry`", lambda reads, _: reads.delegations.tracked()),
    Question("errors", "`errors`", lambda reads, _: reads.error_records.listed()),
    Question("approvals", "open approvals", lambda reads, _: reads.questions.open()),
    Question("owners", "owners of open executions", lambda reads, _: reads.open_owners()),
    Question("typical", "usual duration of an agent", _typical),
    Question("commands", "a caller's commands of an agent", _command_calls),
    Question("delete", "what `delete` would remove", lambda reads, draws: reads.belongings.of([draws.root()])),
    Question("extractions", "extractions from a tree", lambda reads, draws: reads.belongings.extractions(draws.root())),
    Question("continued", "what continues a tree", lambda reads, draws: reads.belongings.continued_by([draws.root()])),
    Question("last-event", "newest event of a large tree", lambda reads, draws: reads.last_event(draws.large())),
)


def _views(ask: Callable[[Views, Draws], Awaitable[Any]]) -> Ask:
    """A question to the views, as the HTTP API asks it."""

    async def asked(reads: Reads, draws: Draws) -> Any:
        return await ask(Views(reads, draws.path), draws)

    return asked


def _page(**wanted: Any) -> Ask:
    return _views(lambda views, _: views.lines(ExecutionFilter(**wanted)))


def _page_of_principal(**wanted: Any) -> Ask:
    return _views(lambda views, draws: views.lines(ExecutionFilter(principal=draws.dice.choice(PRINCIPALS[1:]), **wanted)))


NOWHERE = "words of no task"
"""A search for these looks at as many executions as it may."""

PAGES = (
    Question("page", "page of top-level executions", _page()),
    Question("page-attention", "page of what needs attention", _page(group="attention")),
    Question("page-running", "page of what runs", _page(group="running")),
    Question("page-finished", "page of what is finished", _page(group="finished")),
    Question("page-failed", "page of what failed", _page(group="finished", status="failed")),
    Question("page-every", "page of executions of any level", _page(every_level=True)),
    Question("page-of", "page of a principal", _page_of_principal()),
    Question("page-of-attention", "page of what needs attention, of a principal", _page_of_principal(group="attention")),
    Question("page-of-finished", "page of what is finished, of a principal", _page_of_principal(group="finished")),
    Question("search", "search that finds nothing", _page(q=NOWHERE)),
    Question("search-finished", "search that finds nothing in what is finished", _page(group="finished", q=NOWHERE)),
    Question("search-of", "search that finds nothing, of a principal", _page_of_principal(q=NOWHERE)),
    Question("counts", "counts of the groups", _views(lambda views, _: views.counts())),
    Question(
        "counts-of", "counts of a principal", _views(lambda views, draws: views.counts(draws.dice.choice(PRINCIPALS[1:])))
    ),
    Question("view", "page of a tree of 1,000 executions", _views(lambda views, draws: views.tree(draws.large()))),
    Question("changes", "what changed in a large tree", _views(lambda views, draws: _changes(views, draws, draws.large()))),
    Question("timeline", "timeline of any execution", _views(lambda views, draws: views.timeline(draws.execution()))),
    Question("usage-page", "usage of 30 days", _views(lambda views, _: views.usage(30))),
    Question(
        "usage-of",
        "usage of 30 days, of a principal",
        _views(lambda views, draws: views.usage(30, draws.dice.choice(PRINCIPALS[1:]))),
    ),
)


async def _changes(views: Views, draws: Draws, root: str) -> Any:
    return await views.tree(root, draws.last_sequence(root) - CHANGED)


QUESTIONS = {question.key: question for question in (*_lists(), *LOOKUPS, *TREES, *USAGE, *WORK, *PAGES)}
