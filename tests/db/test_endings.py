"""How executions end: by themselves, with their parents, on request; and races between these."""

import random

import pytest

from db.rows import endings, executions, transcript
from db.rows.endings import CancelWish
from db.rows.executions import Place
from db.status import ExecutionStatus
from db.store.unit import Write
from tests.db.store import Store, beginning, birth, draft, ending, message
from tests.support.requirement import requirement

COMPLETED, CANCELLED, FAILED = ExecutionStatus.COMPLETED, ExecutionStatus.CANCELLED, ExecutionStatus.FAILED


async def family(store: Store) -> tuple[Place, Place, Place, Place]:
    """A running line of three, and a pending leaf below."""
    top = await store.running()
    middle = await store.running(top)
    low = await store.running(middle)
    return top, middle, low, await store.pending(low)


async def test_the_end_of_a_child_and_the_row_in_its_parents_inbox_are_one_write(store: Store) -> None:
    parent = await store.running()
    child = await store.running(parent)

    assert (await store.apply(ending(child, FAILED))).held
    assert not (await store.apply(ending(child, FAILED))).held

    assert store.inbox(parent) == [child.id]


async def test_an_end_whose_delivery_cannot_be_stored_does_not_happen(store: Store) -> None:
    parent = await store.running()
    child = await store.running(parent)
    await store.apply(Write([endings.delivery_of(child)]))

    ticket = store.post(ending(child))[0]
    await ticket.done.wait()

    assert ticket.error is not None
    assert store.statuses(child) == ["running"]


async def test_success_is_refused_while_a_delivery_is_unread(store: Store) -> None:
    parent = await store.running()
    child = await store.in_status(COMPLETED, parent)

    refused = await store.apply(ending(parent))
    await store.apply(transcript.say(1, message(parent, 1), [f"{child.id}.result"], []))

    assert not refused.held
    assert (await store.apply(ending(parent))).held


async def test_success_is_refused_while_a_child_is_open(store: Store) -> None:
    parent = await store.running()
    child = await store.pending(parent)

    refused = await store.apply(ending(parent))
    assert (await store.apply(ending(child, ExecutionStatus.SKIPPED))).held
    await store.apply(transcript.say(1, message(parent, 1), [f"{child.id}.result"], []))

    assert not refused.held
    assert store.statuses(child) == ["skipped"]
    assert (await store.apply(ending(parent))).held


async def test_success_is_refused_by_a_message_of_the_same_batch(store: Store) -> None:
    place = await store.running()

    delivered, refused = await store.together(executions.deliver(place.id, "late", "message", "wait!", []), ending(place))

    assert (delivered.held, refused.held) == (True, False)
    assert [row["payload"] for row in await store.database.reads.unread(place.id)] == ["wait!"]


async def test_nothing_is_delivered_to_an_execution_that_has_ended_or_shall_stop(store: Store) -> None:
    ended, stopping = await store.in_status(COMPLETED), await store.running()
    await store.apply(endings.cancel(CancelWish(stopping.id, "a person", "enough")))

    tickets = await store.together(
        *(executions.deliver(place.id, place.id, "message", "hello", []) for place in (ended, stopping))
    )

    assert [ticket.held for ticket in tickets] == [False, False]


@requirement("S2-CN-7")
async def test_success_is_refused_after_a_wish_to_cancel_and_what_came_late_is_kept_beside_it(store: Store) -> None:
    place = await store.running()
    await store.apply(endings.cancel(CancelWish(place.id, "a person", "enough")))

    assert not (await store.apply(ending(place, COMPLETED))).held
    assert (await store.apply(ending(place, CANCELLED, result='{"summary":"half of it"}', reason="user"))).held

    row = store.row(place)
    assert (row["status"], row["result"]) == ("cancelled", '{"summary":"half of it"}')
    assert (row["cancelled_by"], row["cancel_reason"]) == ("a person", "enough")


@pytest.mark.parametrize("status", [FAILED, ExecutionStatus.TIMED_OUT, CANCELLED])
async def test_the_end_of_an_execution_ends_whatever_is_open_below_it_at_any_depth(
    store: Store, status: ExecutionStatus
) -> None:
    top, middle, low, leaf = await family(store)
    done = await store.in_status(COMPLETED, middle, 2)
    beside = await store.running()

    assert (await store.apply(ending(top, status))).held

    assert store.statuses(top, middle, low, leaf) == [status, "cancelled", "cancelled", "cancelled"]
    assert {store.row(place)["reason"] for place in (middle, low, leaf)} == {"parent_ended"}
    assert store.statuses(done, beside) == ["completed", "running"]
    assert store.inbox(middle) == [done.id, low.id]
    stopped = [each["execution_id"] for each in store.published if '"status":"cancelled"' in each["payload"]]
    assert sorted(stopped)[-3:] == sorted([middle.id, low.id, leaf.id])


@requirement("S2-CN-4")
async def test_who_asked_to_stop_is_still_known_when_the_parents_end_came_first(store: Store) -> None:
    top, middle, *_ = await family(store)
    await store.apply(endings.cancel(CancelWish(top.id, "a person", "enough")))

    await store.apply(ending(top, CANCELLED))

    row = store.row(middle)
    assert (row["status"], row["cancelled_by"], row["cancel_reason"]) == ("cancelled", "a person", "enough")


async def test_a_wish_to_cancel_flags_the_subtree_ends_what_has_no_task_and_leaves_the_rest_alone(store: Store) -> None:
    top, middle, low, leaf = await family(store)
    sibling = await store.running(top, 2)

    ticket = await store.apply(endings.cancel(CancelWish(middle.id, "a person", "enough")))

    assert ticket.held
    assert store.statuses(top, sibling, middle, low, leaf) == ["running", "running", "running", "running", "cancelled"]
    flagged = {row["id"] for row in store.sql("select id from executions where cancel_requested_at is not null")}
    assert flagged == {middle.id, low.id, leaf.id}
    assert store.inbox(low) == [leaf.id]
    refused = await store.together(birth(draft(middle, 9)), birth(draft(low, 9)), ending(middle), ending(low))
    assert [each.held for each in refused] == [False] * 4
    assert (await store.apply(birth(draft(sibling)))).held


async def test_a_wish_to_cancel_ends_what_a_gone_process_left_running(store: Store) -> None:
    top = await store.running(owner="gone")
    child = await store.running(top, owner="gone")
    alive = await store.running(top, 2, owner="alive")

    ticket = await store.apply(endings.cancel(CancelWish(top.id, "a person", "enough", gone_owners=["gone"])))

    assert ticket.held
    assert store.statuses(top, child, alive) == ["cancelled", "cancelled", "running"]
    assert store.inbox(top) == [child.id]
    assert {store.row(place)["reason"] for place in (top, child)} == {"cancelled"}


async def test_a_second_wish_ends_what_its_owner_left_since_the_first(store: Store) -> None:
    top = await store.running(owner="gone")
    await store.apply(endings.cancel(CancelWish(top.id, "a person", "enough")))

    assert (await store.apply(endings.cancel(CancelWish(top.id, "another", "again", gone_owners=["gone"])))).held

    row = store.row(top)
    assert (row["status"], row["cancelled_by"], row["cancel_reason"]) == ("cancelled", "a person", "enough")


async def test_a_wish_to_cancel_what_has_ended_is_refused(store: Store) -> None:
    ended = await store.in_status(COMPLETED)

    assert not (await store.apply(endings.cancel(CancelWish(ended.id, "a person", "enough")))).held

    assert store.row(ended)["cancel_requested_at"] is None


async def test_nothing_starts_after_a_wish_to_cancel(store: Store) -> None:
    place = await store.pending()

    cancelled, started = await store.together(endings.cancel(CancelWish(place.id, "a person", "enough")), beginning(place))

    assert (cancelled.held, started.held) == (True, False)
    assert store.statuses(place) == ["cancelled"]


@requirement("S2-CN-7")
async def test_when_cancel_and_completion_meet_one_of_them_wins_once(store: Store) -> None:
    dice = random.Random(7)
    parent = await store.running()
    drafts = [draft(parent, number) for number in range(1, 1001)]
    places = [Place(each.id, parent.id, parent.root_execution_id) for each in drafts]
    await store.together(*map(birth, drafts))
    await store.together(*map(beginning, places))
    race = [
        write
        for place in places
        for write in (ending(place, COMPLETED), endings.cancel(CancelWish(place.id, "a person", "enough")))
    ]
    dice.shuffle(race)

    await store.together(*race)
    await store.together(*(ending(place, CANCELLED) for place in places))

    rows = store.sql(
        "select e.status, e.result, count(v.seq) as told, (select count(*) from deliveries where child_execution_id = e.id)"
        " as notices from executions as e join events as v on v.execution_id = e.id and v.type = 'execution.status'"
        " and json_extract(v.payload, '$.status') in ('completed', 'cancelled') where e.depth = 0"
        " and e.parent_execution_id is not null group by e.id"
    )
    assert len(rows) == 1000
    assert {(row["told"], row["notices"]) for row in rows} == {(1, 1)}
    assert {row["status"] for row in rows} == {"completed", "cancelled"}
    assert all(f'"{row["status"]}"' in row["result"] for row in rows)


async def test_no_open_row_is_ever_left_below_a_terminal_one(store: Store) -> None:
    dice = random.Random(11)
    places = [await store.running() for _ in range(5)]
    for number in range(60):
        parent = dice.choice(places)
        if store.row(parent)["status"] == "running":
            place = await store.pending(parent, number + 100)
            if dice.random() < 0.8:
                await store.apply(beginning(place))
                places.append(place)
    ends = [FAILED, CANCELLED, ExecutionStatus.TIMED_OUT]
    await store.together(*(ending(place, dice.choice(ends)) for place in dice.sample(places, len(places) // 2)))

    orphans = store.sql(
        "select c.id from executions as c join executions as p on p.id = c.parent_execution_id"
        " where c.finished_at is null and p.finished_at is not null"
    )

    assert orphans == []
