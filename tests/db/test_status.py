from itertools import product

import pytest

from db.errors import WriteRefused
from db.status import OPEN, TERMINAL, TRANSITIONS, ExecutionStatus, sources
from tests.db.store import Store, beginning, birth, draft, ending
from tests.support.requirement import requirement

REACHABLE = [status for status in ExecutionStatus if status is not ExecutionStatus.PENDING]


def test_every_status_is_open_or_terminal_and_every_change_leads_somewhere_else() -> None:
    assert TRANSITIONS.keys() == set(ExecutionStatus)
    assert set(ExecutionStatus) == OPEN | TERMINAL
    assert not OPEN & TERMINAL
    assert all(status not in after for status, after in TRANSITIONS.items())
    assert sources(ExecutionStatus.PENDING) == frozenset()


@pytest.mark.parametrize("found", list(ExecutionStatus))
async def test_a_change_of_status_holds_exactly_when_the_table_allows_it(store: Store, found: ExecutionStatus) -> None:
    parent = await store.running()
    for position, target in enumerate(REACHABLE, start=1):
        place = await store.in_status(found, parent, position)
        before, events, told = store.row(place), store.sequence(), store.inbox(parent)
        write = beginning(place) if target is ExecutionStatus.RUNNING else ending(place, target)

        ticket = await store.apply(write)

        assert ticket.held == (target in TRANSITIONS[found]), f"{found} → {target}"
        if not ticket.held:
            assert store.row(place) == before
            assert store.sequence() == events
            assert store.inbox(parent) == told
        else:
            assert store.row(place)["status"] == target


@requirement("S2-DB-10")
async def test_of_two_terminal_writes_the_first_wins_and_the_other_is_told(store: Store) -> None:
    ends = sorted(TERMINAL & TRANSITIONS[ExecutionStatus.RUNNING])
    for first, second in product(ends, ends):
        place = await store.running()

        won, lost = await store.together(ending(place, first), ending(place, second))

        assert (won.held, lost.held) == (True, False)
        assert store.row(place)["status"] == first
        query = "select count(*) as n from events where execution_id = ? and payload like ?"
        assert store.sql(query, place.id, f'%"status":"{first.value}"%')[0]["n"] == 1


async def test_a_write_of_an_earlier_attempt_is_fenced_off(store: Store) -> None:
    place = await store.running()

    assert not (await store.apply(ending(place, attempt=2))).held

    assert store.row(place)["status"] == ExecutionStatus.RUNNING


async def test_the_database_takes_no_status_outside_the_table(store: Store) -> None:
    with pytest.raises(WriteRefused, match="CHECK constraint failed") as refused:
        await store.apply(birth(draft(status="resting")))

    assert refused.value.hint
    assert store.sql("select * from executions") == []
