"""The views people ask: their sums are the sums of the rows, and a question about one tree does not read the others."""

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from db.clock import stamp
from db.rows import transcript
from db.status import ExecutionStatus
from db.tables import executions
from tests.db.store import Store, connected, message, model_call, open_store, outcome, tool_start
from tests.support.requirement import requirement

START = datetime(2026, 1, 1, tzinfo=UTC)
TOKENS = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"]
BLANK = {column.name: column.default.arg if column.default is not None else None for column in executions.columns}  # type: ignore[attr-defined]

Row = dict[str, Any]


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """A connection to an empty, migrated database."""
    path = tmp_path_factory.mktemp("views") / "outrider.db"

    async def make() -> None:
        async with open_store(path):
            pass

    anyio.run(make)
    with connected(path) as connection:
        yield connection


@st.composite
def forests(draw: st.DrawFn) -> list[Row]:
    """Rows of one or more trees, of any shape, each parent before its children."""
    rows: list[Row] = []
    for number in range(draw(st.integers(1, 14))):
        parent = draw(st.none() | st.sampled_from(rows)) if rows else None
        began = START + timedelta(seconds=draw(st.integers(0, 100)))
        lasted = timedelta(milliseconds=draw(st.integers(0, 500_000)))
        started = draw(st.booleans())
        row = BLANK | {
            "id": f"e{number}",
            "parent_execution_id": parent["id"] if parent else None,
            "root_execution_id": parent["root_execution_id"] if parent else f"e{number}",
            "agent": draw(st.sampled_from("ABC")),
            "role": "agent",
            "strategy": "loop",
            "position": number,
            "path": f"{parent['path']}/e{number}" if parent else f"e{number}",
            "status": draw(st.sampled_from(list(ExecutionStatus))).value,
            "created_at": stamp(began),
            "started_at": stamp(began) if started else None,
            "finished_at": stamp(began + lasted),
            "tool_call_count": draw(st.integers(0, 5)),
            "turns": draw(st.integers(0, 5)),
            "cost_usd": draw(st.integers(0, 1000)) / 64,
            "seconds": lasted.total_seconds() if started else 0.0,
        }
        rows.append(row | {name: draw(st.integers(0, 10_000)) for name in TOKENS})
    return rows


def below(rows: list[Row], top: Row) -> list[Row]:
    """A row and everything below it."""
    return [row for row in rows if f"{row['path']}/".startswith(f"{top['path']}/")]


def filled(connection: sqlite3.Connection, rows: list[Row]) -> None:
    """Begin a transaction that holds these rows; roll it back when done."""
    connection.execute("begin")
    names = [name for name in rows[0] if name != "seconds"]
    statement = f"insert into executions ({', '.join(names)}) values ({', '.join('?' * len(names))})"
    connection.executemany(statement, [[row[name] for name in names] for row in rows])


@requirement("S2-DB-7", "S2-LE-5")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rows=forests())
def test_the_sums_of_every_subtree_are_the_sums_of_its_rows(connection: sqlite3.Connection, rows: list[Row]) -> None:
    filled(connection, rows)
    try:
        found = {row["id"]: dict(row) for row in connection.execute("select * from execution_tree")}
    finally:
        connection.execute("rollback")

    assert found.keys() == {row["id"] for row in rows}
    for row in rows:
        subtree, view = below(rows, row), found[row["id"]]
        assert view["depth"] == row["path"].count("/")
        for name in ("path", "agent", "status", "parent_execution_id", "root_execution_id"):
            assert view[name] == row[name]
        assert view["own_tokens"] == sum(row[name] for name in TOKENS)
        assert view["own_cost_usd"] == row["cost_usd"]
        assert view["own_seconds"] == pytest.approx(row["seconds"], abs=0.002)
        assert view["subtree_executions"] == len(subtree)
        assert view["subtree_tokens"] == sum(each[name] for each in subtree for name in TOKENS)
        assert view["subtree_cost_usd"] == pytest.approx(sum(each["cost_usd"] for each in subtree))
        assert view["subtree_seconds"] == pytest.approx(sum(each["seconds"] for each in subtree), abs=0.002 * len(subtree))


@requirement("S2-DB-8")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rows=forests())
def test_the_totals_of_every_subtree_count_its_states_and_what_it_used(
    connection: sqlite3.Connection, rows: list[Row]
) -> None:
    filled(connection, rows)
    try:
        found = {row["id"]: dict(row) for row in connection.execute("select * from subtree_totals")}
    finally:
        connection.execute("rollback")

    assert found.keys() == {row["id"] for row in rows}
    for row in rows:
        subtree, view = below(rows, row), found[row["id"]]
        statuses = [each["status"] for each in subtree]
        assert view["executions"] == len(subtree)
        assert {status: view[status] for status in ExecutionStatus} == {
            each: statuses.count(each) for each in ExecutionStatus
        }
        assert view["turns"] == sum(each["turns"] for each in subtree)
        assert view["tool_calls"] == sum(each["tool_call_count"] for each in subtree)
        assert view["tokens"] == sum(each[name] for each in subtree for name in TOKENS)
        assert view["cost_usd"] == pytest.approx(sum(each["cost_usd"] for each in subtree))
        assert view["seconds"] == pytest.approx(sum(each["seconds"] for each in subtree), abs=0.002 * len(subtree))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rows=forests())
def test_the_critical_path_follows_the_child_that_ended_last(connection: sqlite3.Connection, rows: list[Row]) -> None:
    filled(connection, rows)
    try:
        found = [dict(row) for row in connection.execute("select * from critical_path order by root_execution_id, step")]
    finally:
        connection.execute("rollback")

    expected = []
    for top in sorted((row for row in rows if row["parent_execution_id"] is None), key=lambda row: str(row["id"])):
        line = [top]
        while children := [row for row in rows if row["parent_execution_id"] == line[-1]["id"]]:
            line.append(max(children, key=lambda row: (row["finished_at"], row["id"])))
        expected += [(top["id"], step, row["id"]) for step, row in enumerate(line)]
    assert [(row["root_execution_id"], row["step"], row["id"]) for row in found] == expected


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rows=forests())
def test_the_costs_of_an_agent_are_the_sums_of_its_executions(connection: sqlite3.Connection, rows: list[Row]) -> None:
    filled(connection, rows)
    try:
        found = {row["agent"]: dict(row) for row in connection.execute("select * from agent_costs")}
    finally:
        connection.execute("rollback")

    assert found.keys() == {row["agent"] for row in rows}
    for agent, view in found.items():
        own = [row for row in rows if row["agent"] == agent]
        statuses = [row["status"] for row in own]
        assert view["executions"] == len(own)
        assert view["completed"] == statuses.count("completed")
        assert view["failed"] == statuses.count("failed") + statuses.count("timed_out")
        assert view["cancelled"] == statuses.count("cancelled")
        assert view["turns"] == sum(row["turns"] for row in own)
        assert view["tool_calls"] == sum(row["tool_call_count"] for row in own)
        assert view["tokens"] == sum(row[name] for row in own for name in TOKENS)
        assert view["cost_usd"] == pytest.approx(sum(row["cost_usd"] for row in own))


ALL_USED = """
    select agent, substr(created_at, 1, 10) as day, coalesce(model, '') as model, count(*) as executions,
        sum(status = 'completed') as completed, sum(status in ('failed', 'timed_out')) as failed,
        sum(status = 'cancelled') as cancelled, sum(turns) as turns, sum(tool_call_count) as tool_calls,
        sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens) as tokens, sum(cost_usd) as cost_usd
    from executions group by 1, 2, 3 order by 1, 2, 3"""


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rows=forests(), data=st.data())
def test_daily_usage_is_the_sum_of_all_executions_whatever_became_of_them(
    connection: sqlite3.Connection, rows: list[Row], data: st.DataObject
) -> None:
    changes = st.sampled_from(
        [
            "update executions set finished_at = '2026-03-01T00:00:00.000000Z', status = 'failed' where id = ?",
            "update executions set turns = turns + 1, cost_usd = cost_usd + 0.5 where id = ?",
            "update executions set model = 'another', input_tokens = 7 where id = ?",
            "delete from executions where id = ?",
        ]
    )
    open_ = data.draw(st.sets(st.sampled_from([row["id"] for row in rows])))
    filled(connection, [row | ({"finished_at": None} if row["id"] in open_ else {}) for row in rows])
    try:
        for change in data.draw(st.lists(changes, max_size=8)):
            connection.execute(change, (data.draw(st.sampled_from(rows))["id"],))
        found = [dict(row) for row in connection.execute("select * from daily_usage order by agent, day, model")]
        expected = [dict(row) for row in connection.execute(ALL_USED)]
    finally:
        connection.execute("rollback")

    assert found == expected


@pytest.mark.parametrize("view", ["execution_tree", "subtree_totals", "critical_path"])
@pytest.mark.parametrize("column", ["root_execution_id", "id"])
def test_a_question_about_one_tree_reads_no_other(connection: sqlite3.Connection, view: str, column: str) -> None:
    plan = connection.execute(f"explain query plan select * from {view} where {column} = ?", ("x",)).fetchall()

    scans = {row["detail"] for row in plan if row["detail"].startswith("SCAN")}

    assert scans <= {"SCAN up", "SCAN below", "SCAN CONSTANT ROW", f"SCAN {view}"}, "only what was found is gone through"


def test_a_clock_set_back_makes_no_negative_duration(connection: sqlite3.Connection) -> None:
    later, earlier = stamp(START + timedelta(hours=1)), stamp(START)
    row = BLANK | {"id": "e", "root_execution_id": "e", "agent": "A", "role": "r", "strategy": "loop", "path": "A"}
    row |= {"status": "completed", "created_at": later, "started_at": later, "finished_at": earlier}
    filled(connection, [row])
    try:
        seconds = connection.execute("select own_seconds, subtree_seconds from execution_tree").fetchone()
    finally:
        connection.execute("rollback")

    assert tuple(seconds) == (0.0, 0.0)


async def test_an_open_execution_counts_until_now_and_a_waiting_one_not_at_all(store: Store) -> None:
    top = await store.running()
    await store.pending(top)

    rows = store.sql("select status, own_seconds from execution_tree order by depth")

    assert [row["status"] for row in rows] == ["running", "pending"]
    assert 0.0 <= rows[0]["own_seconds"] < 60.0
    assert rows[1]["own_seconds"] == 0.0


async def test_tool_errors_are_counted_by_tool_and_kind(store: Store) -> None:
    place = await store.running(agent="LogAnalyzer")
    said = message(place, 1)
    tools = [tool_start(place, said, number, tool="loki__query") for number in range(6)]
    await store.apply(transcript.reply(1, model_call(place), said, tools, []))
    ends = [
        ("unknown", "timeout"),
        ("failed", "timeout"),
        ("failed", "refused"),
        ("completed", None),
        ("failed", "cancelled"),
        ("unknown", "cancelled"),
    ]
    for tool, (status, kind) in zip(tools, ends, strict=True):
        await store.apply(transcript.settle(outcome(tool, status=status, is_error=kind is not None, error_type=kind), []))

    columns = "tool, error_type, errors, outcome_unknown, last_agent"
    rows = store.sql(f"select {columns} from tool_errors order by errors desc, error_type")

    assert [tuple(row.values()) for row in rows] == [
        ("loki__query", "timeout", 2, 1, "LogAnalyzer"),
        ("loki__query", "cancelled", 1, 1, "LogAnalyzer"),
        ("loki__query", "refused", 1, 0, "LogAnalyzer"),
    ]
