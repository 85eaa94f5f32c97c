"""A small big database: the questions of the faces search indexes, and their answers are those of a look at every row.

Plans do not depend on the size of a database without statistics, and Outrider collects none: a plan that is found here is
the one of a million executions.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from itertools import product
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import httpx2
import pytest

from bench.big.filling import fill
from bench.big.page_requests import REQUESTS
from bench.big.population import AGENTS, PRINCIPALS, Population
from bench.big.questions import QUESTIONS, Draws, Question
from bench.big.serving import served
from bench.big.watch import plan_of, scans, watched
from db.ids import named_among, shortened
from db.query.query import query, recent
from db.rows.lists import ListFilter
from db.rows.reads import Reads
from db.store.engine import sqlite_library
from server.api.table import ENDPOINTS, ONE, STREAM
from server.cli import ps
from server.cli.show.wording import waits
from server.wording import happening

EXECUTIONS, OPEN_TREES = 2_000, 20
BIG = {"executions", "events", "messages", "model_calls", "tool_calls", "deliveries"}
LIBRARIES = list({library.sqlite_version: library for library in (sqlite3, sqlite_library())}.values())
"""The library of this process, and that of the process that runs SQL."""

FEW = {
    "executions_open": "has only open executions",
    "executions_extractors": "has only extractions of facts",
    "tool_calls_failed": "has only failed calls, which are counted",
}
"""Indexes that may be read as a whole, with the reason."""
NEWEST_FIRST = {"complete": {"sqlite_autoindex_executions_1": "read from the newest on, and left when 31 match"}}
"""What else a question may read, with the reason."""

NEWEST = "SELECT max(events.seq) AS seq \nFROM events UNION ALL SELECT event_numbers.last"
"""How the newest event is found: one step from the end."""

Row = dict[str, Any]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filled database."""
    path = tmp_path_factory.mktemp("big") / "big.db"
    fill(path, Population(EXECUTIONS, 1, time.time_ns() // 1000, OPEN_TREES), 1)
    return path


@contextmanager
def connected(path: Path, library: ModuleType | None = None) -> Iterator[Any]:
    """A connection with rows by name."""
    with closing((library or sqlite_library()).connect(str(path), isolation_level=None)) as connection:
        connection.row_factory = (library or sqlite_library()).Row
        yield connection


@pytest.fixture
async def reads(path: Path) -> AsyncIterator[Reads]:
    """The reads of that database."""
    opened = Reads(path)
    yield opened
    await opened.close()


@pytest.fixture(scope="module")
def rows(path: Path) -> list[Row]:
    """All executions, in the order of their ids."""
    with connected(path) as connection:
        return [dict(row) for row in connection.execute("select * from executions order by id")]


Statements = list[tuple[str, Any]]


async def statements(question: Question, path: Path, http: httpx2.AsyncClient | None = None) -> Statements:
    """The statements that a question sends, with their parameters."""
    reads = Reads(path)
    try:
        with connected(path) as connection, watched() as seen:
            draws = Draws(path, connection, 1)
            draws.http = http
            await question.ask(reads, draws)
    finally:
        await reads.close()
    return [*((each.sql, each.parameters) for each in seen), *((sql, ()) for sql in draws.queries)]


def read_whole(key: str, sent: Statements, path: Path) -> set[str]:
    """The big tables and their indexes that statements read from one end on, unless there is a reason."""
    found = set[str]()
    for library in LIBRARIES:
        with connected(path, library) as connection:
            for sql, given in sent:
                if NEWEST in sql:
                    continue
                found |= {name for name, table in scans(connection, sql, given).items() if table in BIG}
    return found - FEW.keys() - NEWEST_FIRST.get(key, {}).keys()


async def read_as_a_whole(key: str, path: Path) -> set[str]:
    """The same of one question."""
    return read_whole(key, await statements(QUESTIONS[key], path), path)


@pytest.mark.parametrize("key", QUESTIONS)
async def test_no_question_of_a_face_reads_a_big_table_as_a_whole(key: str, path: Path) -> None:
    assert await read_as_a_whole(key, path) == set()


async def test_no_request_of_a_page_reads_a_big_table_as_a_whole(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "served.db"
    shutil.copy(path, copy)
    async with served(copy) as http:
        sent = {key: await statements(question, copy, http) for key, question in REQUESTS.items()}

    assert {key: found for key, each in sent.items() if (found := read_whole(key, each, copy))} == {}


def test_every_look_of_the_api_is_among_the_questions() -> None:
    asked = {title for question in REQUESTS.values() for title in re.findall(r"`(.*?)`", question.title)}
    looks = [endpoint.path for endpoint in ENDPOINTS if endpoint.method == "GET" and endpoint.answers != STREAM]

    assert [path for path in looks if path.replace(f"{ONE}/", "…/") not in asked] == []


@pytest.mark.parametrize(
    ("index", "key"),
    [
        ("executions_ending", "ending"),
        ("executions_ending", "shorts"),
        ("tool_calls_ending", "call"),
        ("tool_calls_failed", "sql-errors"),
        ("executions_extractors", "extractions"),
        ("executions_continuing", "continued"),
        ("executions_finished", "registry"),
        ("deliveries_of_child", "delete"),
        ("executions_open", "sql-agents"),
    ],
)
async def test_without_its_index_a_question_reads_a_big_table(index: str, key: str, path: Path, tmp_path: Path) -> None:
    lame = tmp_path / "lame.db"
    shutil.copy(path, lame)
    with connected(lame) as connection:
        connection.execute(f"drop index {index}")

    assert await read_as_a_whole(key, lame)


@pytest.mark.parametrize(
    ("key", "index"),
    [
        ("commands", "executions_commands"),
        ("list-agent-top-level", "executions_roots_of_agent"),
        ("list-principal-top-level", "executions_roots_of_principal"),
        ("list-session", "executions_of_session"),
        ("show", "events_stages"),
        ("show", "events_upstream"),
        ("page-attention", "executions_ended_badly"),
        ("page-finished", "executions_ended_badly"),
        ("counts", "executions_ended_badly"),
        ("view", "events_refused"),
    ],
)
async def test_a_question_is_answered_by_the_index_made_for_it(key: str, index: str, path: Path) -> None:
    with connected(path) as connection, watched() as seen:
        reads, draws = Reads(path), Draws(path, connection, 1)
        for _ in range(4):  # of some principal and of none
            await QUESTIONS[key].ask(reads, draws)
        await reads.close()
        steps = {step for each in seen for step in plan_of(connection, each.sql, each.parameters)}

    assert any(f" {index} " in step for step in steps), steps


# -- answers -----------------------------------------------------------------------------------------------------------


async def test_every_page_of_every_list_has_what_a_look_at_all_rows_finds(reads: Reads, rows: list[Row]) -> None:
    dice = Random(1)
    sessions = [None, rows[0]["session_id"], rows[-1]["session_id"]]
    filters = product(
        (None, *PRINCIPALS[1:3]), (None, "completed", "failed", "running"), (None, *AGENTS[::14]), (False, True), sessions
    )
    for principal, status, agent, only_roots, session in filters:
        wanted = ListFilter(
            principal, status, agent, only_roots, session, before=dice.choice([None, dice.choice(rows)["id"]])
        )
        asked = {"principal": principal, "status": status, "agent": agent, "session_id": session}
        asked = {name: value for name, value in asked.items() if value is not None}
        expected = [
            row["id"]
            for row in reversed(rows)
            if (wanted.before is None or row["id"] < wanted.before)
            and all(row[name] == value for name, value in asked.items())
            and (row["parent_execution_id"] is None or not only_roots)
        ]

        assert [row["id"] for row in await reads.listing(wanted)] == expected[: wanted.limit], wanted


async def test_short_ids_mean_what_they_mean_among_all_ids(reads: Reads, rows: list[Row]) -> None:
    ids, dice = [row["id"] for row in rows], Random(2)
    for identifier in dice.sample(ids, 20):
        for given in (identifier, identifier[:12], identifier[:9], *(identifier[-size:] for size in (3, 4, 5, 6, 7, 20))):
            assert await reads.named(given) == named_among(given, ids)[:100], given
            whose = next(row["principal"] for row in rows if row["id"] == identifier)
            if whose is not None:
                mine = [row["id"] for row in rows if row["principal"] == whose]
                assert await reads.named(given, whose) == named_among(given, mine)[:100], given
    some = dice.sample(ids, 100)

    assert await reads.shorts(some) == {each: shortened(each, ids) for each in some}


def below(rows: list[Row], top: str) -> list[Row]:
    """An execution and everything below it."""
    found, ids = [], {top}
    for row in rows:  # parents come first
        if row["id"] == top or row["parent_execution_id"] in ids:
            ids.add(row["id"])
            found.append(row)
    return found


def used(rows: list[Row]) -> Row:
    """What executions used together."""
    tokens = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    return {
        "executions": len(rows),
        "tokens": sum(row[name] for row in rows for name in tokens),
        "cost_usd": pytest.approx(sum(row["cost_usd"] for row in rows)),
    }


async def test_trees_and_their_sums_are_those_of_their_rows_and_of_the_views(
    reads: Reads, rows: list[Row], path: Path
) -> None:
    sizes = Counter(row["root_execution_id"] for row in rows)
    largest = sizes.most_common(1)[0][0]
    inner = next(row["id"] for row in rows if row["root_execution_id"] == largest and row["depth"] == 1)
    for top in (largest, inner, *Random(3).sample(list(sizes), 10)):
        tree = await reads.tree(top)
        view = f"select * from execution_tree where root_execution_id = '{tree[0]['root_execution_id']}'"
        known = {row["id"]: row for row in query(path, view).as_objects()}
        totals = await reads.subtree_totals([row["id"] for row in tree])

        assert {row["id"] for row in tree} == {row["id"] for row in below(rows, top)}
        for row in tree:
            expected = used(below(rows, row["id"])) if len(tree) < 50 or row is tree[0] else {}
            assert {name: row[f"subtree_{name}"] for name in expected} == expected
            assert {name: totals[row["id"]][name] for name in expected} == expected
            assert row["level"] == known[row["id"]]["depth"] == row["depth"]
            for name in ("own_tokens", "subtree_tokens", "subtree_cost_usd", "subtree_executions"):
                assert row[name] == pytest.approx(known[row["id"]][name])
            for name in ("own_seconds", "subtree_seconds"):
                ended = all(each["finished_at"] is not None for each in tree)  # else it goes on between the two
                assert not ended or row[name] == pytest.approx(known[row["id"]][name], abs=0.001 * len(tree))


async def test_what_agents_used_is_the_sum_of_their_rows(path: Path, rows: list[Row]) -> None:
    days = defaultdict[tuple[str, str, str], list[Row]](list)
    for row in rows:
        days[row["agent"], row["created_at"][:10], row["model"]].append(row)
    agents = {agent: used([row for row in rows if row["agent"] == agent]) for agent in {row["agent"] for row in rows}}

    by_day = query(path, "select agent, day, model, executions, tokens, cost_usd from daily_usage").rows
    by_agent = query(path, "select agent, executions, tokens, cost_usd from agent_costs").as_objects()

    assert {row[:3]: row[3:] for row in by_day} == {key: tuple(used(each).values()) for key, each in days.items()}
    assert {row.pop("agent"): row for row in by_agent} == agents


async def test_ps_shows_each_open_tree_with_its_own_sums_prices_and_work(path: Path, rows: list[Row]) -> None:
    roots = [row for row in reversed(rows) if row["parent_execution_id"] is None]
    with connected(path) as connection:
        for every, shown in ((False, [row for row in roots if row["finished_at"] is None]), (True, roots[: ps.RECENT])):
            found = await ps.entries(path, every=every)

            assert [each["id"] for each in found] == [row["id"] for row in shown]
            for each, row in zip(found, shown, strict=True):
                tree = below(rows, row["id"])
                sums = used(tree)
                assert {name: each[name] for name in sums} == sums
                assert each["pricing"] == (["priced"] if any(row["turns"] for row in tree) else [])
                assert each["owner_gone"] == (row["finished_at"] is None)
                assert each["doing"] == expected_work(connection, row)


def expected_work(connection: Any, row: Row) -> str:
    """What `ps` says that a tree does, from its last event, stage and question."""
    if row["finished_at"] is not None:
        return str(row["reason"] or row["outcome"] or row["status"])
    waiting = "select agent, approvals.tool, executions.id from approvals join executions on executions.id = execution_id"
    asked = connection.execute(
        f"{waiting} where approvals.root_execution_id = ? order by approvals.id", (row["id"],)
    ).fetchall()
    if asked:
        more = f" and {len(asked) - 1} more" if len(asked) > 1 else ""
        return f"{asked[0]['agent']} {waits(asked[0]['tool'], asked[0]['id'][-6:])}{more}"
    told = "select events.*, agent from events join executions on executions.id = execution_id"
    of_tree = [
        dict(each) for each in connection.execute(f"{told} where events.root_execution_id = ? order by seq", (row["id"],))
    ]
    words = happening(of_tree[-1]["type"], json.loads(of_tree[-1]["payload"]))
    if of_tree[-1]["execution_id"] != row["id"]:
        words = f"{of_tree[-1]['agent']}: {words}"
    stages = [each["payload"] for each in of_tree if each["execution_id"] == row["id"] and '"stage":' in each["payload"]]
    where = happening("execution.progress", json.loads(stages[-1])) if stages else words
    return words if where == words else f"{where} · {words}"


async def test_a_tool_call_is_found_by_the_whole_of_its_handle_alone(reads: Reads, path: Path) -> None:
    with connected(path) as connection:
        calls = [dict(row) for row in connection.execute("select * from tool_calls order by random() limit 20")]
    for call in calls:
        for name in ("id", "call_id"):
            found = await reads.evidence(call[name])
            assert found is not None
            assert found["id"] == call["id"]
        assert await reads.evidence(call["call_id"][-6:]) is None


def test_completions_are_the_newest_that_begin_so_top_level_ones_first(path: Path, rows: list[Row]) -> None:
    order: Callable[[Row], Any] = lambda row: (row["parent_execution_id"] is None, row["id"])  # noqa: E731
    for prefix in ("", "1", "k", rows[5]["id"][-6:][:1], rows[5]["id"][-6:][:2], rows[9]["id"][-6:][:4], rows[9]["id"][:9]):
        for only_open in (False, True):
            matches = [
                row["id"]
                for row in sorted(rows, key=order, reverse=True)
                if (row["id"].startswith(prefix) or row["id"][-6:].startswith(prefix))
                and (row["finished_at"] is None or not only_open)
            ]
            assert [each.id for each in recent(path, prefix, only_open=only_open)] == matches[:30], (prefix, only_open)
