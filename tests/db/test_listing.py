"""Lists of executions: what is wanted, newest first, page by page, without looking at the rest; how long runs take."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from sqlalchemy.dialects import sqlite

from db.clock import stamp
from db.rows import executions
from db.rows.executions import StartWrite
from db.rows.lists import ListFilter, listed, recently_completed
from db.status import ExecutionStatus
from tests.db.store import Store, birth, connected, draft, ending, place_of


async def listing(store: Store, **wanted: Any) -> list[str]:
    """The ids of one page."""
    return [row["id"] for row in await store.database.reads.listing(ListFilter(**wanted))]


async def test_what_is_wanted_comes_newest_first_and_page_by_page(store: Store) -> None:
    old = await store.running(principal="ada", agent="Left")
    child = await store.pending(old, principal="ada", agent="Right")
    other = await store.running(principal="grace", agent="Left")
    new = await store.pending(agent="Left")
    everything = [new.id, other.id, child.id, old.id]

    assert await listing(store) == everything
    assert await listing(store, principal="ada") == [child.id, old.id]
    assert await listing(store, principal="ada", only_roots=True) == [old.id]
    assert await listing(store, only_roots=True) == [new.id, other.id, old.id]
    assert await listing(store, status="pending") == [new.id, child.id]
    assert await listing(store, agent="Left", status="running") == [other.id, old.id]
    assert await listing(store, principal="nobody") == []

    pages, before = list[str](), None
    while page := await listing(store, before=before, limit=3):
        pages += page
        before = page[-1]
    assert pages == everything


def plan(store: Store, query: Any) -> list[str]:
    """How SQLite finds the rows of a query."""
    compiled = query.compile(dialect=sqlite.dialect(paramstyle="named"))
    with connected(store.database.path) as connection:
        return [row["detail"] for row in connection.execute(f"explain query plan {compiled}", compiled.params)]


async def test_no_list_looks_at_executions_it_does_not_show_or_sorts_them(store: Store) -> None:
    for principal, status, agent, only_roots in product((None, "ada"), (None, "failed"), (None, "Left"), (False, True)):
        wanted = ListFilter(principal, status, agent, only_roots)
        for query in (listed(wanted), listed(replace(wanted, before="x"))):
            first, *others = [step for step in plan(store, query) if "executions" in step]
            assert first.startswith("SEARCH executions USING COVERING INDEX"), (wanted, first)
            assert others == ["SEARCH executions USING INDEX sqlite_autoindex_executions_1 (id=?)"], (wanted, others)
    steps = plan(store, recently_completed("Left", None))
    assert any(step.startswith("SEARCH executions USING COVERING INDEX executions_of_agent") for step in steps), steps


async def test_a_principal_and_a_session_are_looked_up_without_a_look_at_all_executions(store: Store) -> None:
    of_session = ListFilter(session="s", since="x", only_roots=True)
    for query in (recently_completed("Left", "ada"), listed(of_session)):
        steps = plan(store, query)
        assert not any("SCAN executions" in step for step in steps), steps
        assert any(step.startswith("SEARCH executions USING INDEX") for step in steps), steps
        assert not any("TEMP B-TREE" in step for step in steps), steps


@pytest.mark.parametrize(("seconds", "typical"), [([], None), ([3], 3.0), ([1, 2, 9], 2.0), ([100] * 11 + [1] * 20, 1.0)])
async def test_the_usual_length_of_a_run_is_the_median_of_the_last_twenty_that_completed(
    store: Store, seconds: list[float], typical: float | None
) -> None:
    async def run(agent: str, length: float, status: ExecutionStatus = ExecutionStatus.COMPLETED) -> None:
        place = place_of(new := draft(agent=agent))
        began = stamp(datetime.now(UTC) - timedelta(seconds=length))
        start = executions.start(place.id, StartWrite(began, None), [])
        assert all(ticket.held for ticket in await store.together(birth(new), start, ending(place, status)))

    for each in seconds:
        await run("Left", each)
    await run("Left", 1000, ExecutionStatus.FAILED)
    await run("Right", 1000)
    await store.running(agent="Left")

    found = await store.database.reads.typical_seconds("Left")
    assert found == (pytest.approx(typical, abs=0.5) if typical is not None else None)
