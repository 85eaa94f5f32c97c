"""The table of status changes, every pair of it, and the guarded UPDATE that keeps it."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from db.database import open_database
from db.ids import new_id
from db.rows.endings import CancelWish, Ending, cancel, end
from db.rows.executions import NewExecution, Place, StartWrite, create, start
from db.status import OPEN, TERMINAL, TRANSITIONS, ExecutionStatus, sources
from tests.support.requirement import requirement

LEGAL = {
    ("pending", "running"),
    ("pending", "blocked"),
    ("pending", "skipped"),
    ("pending", "cancelled"),
    ("running", "completed"),
    ("running", "failed"),
    ("running", "timed_out"),
    ("running", "cancelled"),
}


@requirement("S2-RN-11")
@pytest.mark.parametrize(("before", "after"), list(product(ExecutionStatus, ExecutionStatus)))
def test_exactly_the_listed_changes_are_legal(before: ExecutionStatus, after: ExecutionStatus) -> None:
    assert (after in TRANSITIONS[before]) == ((before.value, after.value) in LEGAL)
    assert (before in sources(after)) == (after in TRANSITIONS[before])


def test_a_status_is_open_or_terminal_and_nothing_follows_a_terminal_one() -> None:
    assert frozenset(ExecutionStatus) == OPEN | TERMINAL
    assert not OPEN & TERMINAL
    assert all(status.is_terminal == (not TRANSITIONS[status]) for status in ExecutionStatus)


def new_row(status: ExecutionStatus) -> NewExecution:
    identifier = new_id()
    return NewExecution(
        id=identifier,
        parent_execution_id=None,
        root_execution_id=identifier,
        owner=None,
        agent="Somebody",
        role="root",
        strategy="loop",
        position=1,
        depth=0,
        path="Somebody",
        created_at="2026-01-01T00:00:00.000000Z",
        status=status.value,
    )


@requirement("S2-RN-11")
async def test_the_store_makes_exactly_the_legal_changes(tmp_path: Path) -> None:
    async with open_database(tmp_path / "outrider.db", lambda _: None) as database:
        for before, after in product(ExecutionStatus, sorted(TERMINAL)):
            row = new_row(before)
            await database.writer.apply(create(row, []))
            ending = Ending(Place(row.id, None, row.id), 1, after, None, None, None)

            ticket = await database.writer.apply(end(ending, []))

            stored = await database.reads.execution(row.id)
            assert stored is not None
            assert ticket.held == ((before.value, after.value) in LEGAL), (before, after)
            assert stored["status"] == (after if ticket.held else before)


@requirement("S2-CA-8", "S2-CN-7")
async def test_after_the_wish_to_cancel_nothing_starts_and_no_success_wins(tmp_path: Path) -> None:
    async with open_database(tmp_path / "outrider.db", lambda _: None) as database:
        row = new_row(ExecutionStatus.RUNNING)
        place = Place(row.id, None, row.id)
        await database.writer.apply(create(row, []))
        await database.writer.apply(cancel(CancelWish(row.id, "somebody", "enough")))
        child = replace(new_row(ExecutionStatus.PENDING), parent_execution_id=row.id)

        born = await database.writer.apply(create(child, []))
        success = await database.writer.apply(end(Ending(place, 1, ExecutionStatus.COMPLETED, None, None, None), []))
        stop = await database.writer.apply(end(Ending(place, 1, ExecutionStatus.CANCELLED, None, None, None), []))

        assert (born.held, success.held, stop.held) == (False, False, True)


async def test_a_late_write_of_an_earlier_attempt_is_refused(tmp_path: Path) -> None:
    async with open_database(tmp_path / "outrider.db", lambda _: None) as database:
        row = new_row(ExecutionStatus.PENDING)
        await database.writer.apply(create(row, []))
        await database.writer.apply(start(row.id, StartWrite(row.created_at, None), []))
        stale = Ending(Place(row.id, None, row.id), 0, ExecutionStatus.FAILED, None, None, None)

        assert not (await database.writer.apply(end(stale, []))).held
