"""The group-commit writer: order, all or nothing, durability, events."""

import struct
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from db.errors import WriterClosed, WriteRefused
from db.rows import endings, error_records, executions, transcript
from db.rows.endings import CancelWish
from db.rows.error_records import NewError
from db.rows.executions import Place, event
from db.status import ExecutionStatus
from db.store.lock import FileLock
from db.store.unit import Event, Statement, Write
from db.store.writer import BATCH, Writer
from tests.db.store import (
    Store,
    beginning,
    birth,
    draft,
    ending,
    message,
    model_call,
    open_store,
    outcome,
    place_of,
    rows_of,
    tool_start,
)
from tests.support.requirement import requirement


def commits_in_log(path: Path) -> int:
    """How many commits the write-ahead log holds: its frames that name a database size."""
    log = path.with_name(path.name + "-wal").read_bytes()
    page = struct.unpack(">I", log[8:12])[0]
    frames = range(32, len(log), page + 24)
    return sum(1 for frame in frames if struct.unpack(">I", log[frame + 4 : frame + 8])[0])


def hold_the_lock(path: Path) -> FileLock:
    """Keep every writer of a database from committing, so that what is handed in meanwhile shares a commit."""
    lock = FileLock(path.with_name(path.name + "-lock"))
    lock.acquire(5)
    return lock


async def test_writes_handed_in_together_share_a_commit(store: Store) -> None:
    before = commits_in_log(store.path)
    lock = hold_the_lock(store.path)

    tickets = store.post(*(birth(draft()) for _ in range(200)))
    lock.close()
    for ticket in tickets:
        await ticket.done.wait()

    assert all(ticket.held for ticket in tickets)
    assert commits_in_log(store.path) - before <= 200 / BATCH + 2  # the first may have left before the others came
    assert len(store.sql("select id from executions")) == 200


async def test_writes_of_one_batch_see_what_was_handed_in_before_them(store: Store) -> None:
    root = draft()
    top = place_of(root)
    children = [draft(top, position) for position in (1, 2, 3)]
    lock = hold_the_lock(store.path)

    tickets = store.post(
        birth(root),
        beginning(top),
        *(birth(child) for child in children),
        beginning(place_of(children[0])),
        endings.cancel(CancelWish(top.id, "a person", "enough")),
        birth(draft(top, 4)),
        beginning(place_of(children[1])),
    )
    lock.close()
    for ticket in tickets:
        await ticket.done.wait()

    assert [ticket.held for ticket in tickets] == [True, True, True, True, True, True, True, False, False]
    assert store.statuses(top, *map(place_of, children)) == ["running", "running", "cancelled", "cancelled"]
    assert len(tickets[6].touched) == 4 + 2  # all four were asked, two of them had not started


async def test_one_bad_row_fails_only_its_owner(store: Store) -> None:
    orphan = draft(position=1, parent_execution_id="nobody", root_execution_id="nobody")
    bad = Write([*birth(draft()).steps, *[step for step in birth(orphan).steps if not isinstance(step, Statement)]])

    tickets = await store.together(birth(draft()), birth(draft()), bad, birth(draft()))

    assert [ticket.held for ticket in tickets] == [True, True, False, True]
    assert isinstance(tickets[2].error, WriteRefused)
    assert [ticket.error for ticket in tickets if ticket is not tickets[2]] == [None] * 3
    assert len(store.sql("select id from executions")) == 3
    assert store.sequence() == [1, 2, 3]


@requirement("S2-DB-1")
async def test_a_parent_that_does_not_exist_is_refused(store: Store) -> None:
    assert not (await store.apply(birth(draft(Place("nobody", None, "nobody"))))).held
    lost = draft(parent_execution_id="nobody", root_execution_id="nobody")
    unguarded = Write([step for step in birth(lost).steps if not isinstance(step, Statement)])

    with pytest.raises(WriteRefused, match="FOREIGN KEY"):
        await store.apply(unguarded)

    assert store.sql("select * from executions") == []


@requirement("S2-DB-5")
async def test_positions_are_unique_among_the_agents_of_a_stage_and_among_the_children_of_an_agent(store: Store) -> None:
    chain = await store.running(strategy="chain")
    agent = await store.running(chain, 1, stage="investigate")
    await store.running(agent, 1, stage="investigate")
    await store.running(chain, 1, stage="conclude")

    for parent, stage in ((chain, "investigate"), (agent, "investigate")):
        with pytest.raises(WriteRefused, match="UNIQUE"):
            await store.apply(birth(draft(parent, 1, stage=stage)))
    plain = await store.running()
    await store.running(plain, 1)
    with pytest.raises(WriteRefused, match="UNIQUE"):
        await store.apply(birth(draft(plain, 1)))


async def test_a_guard_that_is_not_the_first_step_voids_the_whole_write(store: Store) -> None:
    parent, gone = await store.running(), await store.pending()
    said = message(parent, 1)
    first_guard = birth(draft(parent)).steps
    late_guard = beginning(parent).steps  # already running: does not hold
    told = [event(parent, "execution.progress", {})]

    before = store.sequence()
    ticket = await store.apply(Write([*first_guard, said.added(), *late_guard], told))

    assert not ticket.held
    assert ticket.touched == []
    assert store.sql("select id from executions where id not in (?, ?)", parent.id, gone.id) == []
    assert store.sql("select * from messages") == []
    assert store.sequence() == before


async def test_events_made_by_the_rows_of_a_statement_are_void_with_the_write(store: Store) -> None:
    top = await store.running()
    await store.pending(top)
    before = store.sequence()
    cancel = endings.cancel(CancelWish(top.id, "a person", "enough"))

    tickets = await store.together(Write([*cancel.steps, *beginning(top).steps]), birth(draft()))

    assert [ticket.held for ticket in tickets] == [False, True]
    assert store.row(top)["cancel_requested_at"] is None
    assert store.sequence() == [*before, before[-1] + 1]


async def test_a_delivery_is_consumed_once_and_a_message_that_shows_it_twice_is_not_written(store: Store) -> None:
    parent = await store.running()
    one, two = [await store.in_status(ExecutionStatus.COMPLETED, parent, number) for number in (1, 2)]
    deliveries = [f"{child.id}.result" for child in (one, two)]
    assert (await store.apply(transcript.say(1, message(parent, 1), deliveries[:1], []))).held

    again = await store.apply(transcript.say(1, message(parent, 2), deliveries, []))

    assert not again.held
    assert [row["id"] for row in await store.database.reads.unread(parent.id)] == [deliveries[1]], "the other still waits"
    assert len(store.sql("select * from messages where execution_id = ?", parent.id)) == 1
    assert (await store.apply(transcript.say(1, message(parent, 2), deliveries[1:], []))).held
    assert await store.database.reads.unread(parent.id) == []


async def test_a_dispatch_and_its_tool_result_are_one_write(store: Store) -> None:
    parent = await store.running()
    said = message(parent, 1)
    tool = tool_start(parent, said, tool="dispatch_agent")
    await store.apply(transcript.reply(1, model_call(parent), said, [tool], []))
    child = draft(parent, tool_call_id=tool.id)

    held = (await store.apply(executions.create(child, [], settled=outcome(tool)))).held
    again = await store.apply(executions.create(draft(parent, 2), [], settled=outcome(tool)))

    assert (held, again.held) == (True, False)
    assert [row["id"] for row in await store.database.reads.children(parent.id)] == [child.id]
    assert store.sql("select status, result from tool_calls") == [{"status": "completed", "result": "found"}]


async def test_the_call_that_made_a_child_can_make_no_second_one(store: Store) -> None:
    parent = await store.running()
    await store.pending(parent, 1, tool_call_id="the-call")

    with pytest.raises(WriteRefused, match="tool_call_id"):
        await store.apply(birth(draft(parent, 2, tool_call_id="the-call")))


async def test_cancelling_a_caller_does_not_undo_its_write(store: Store) -> None:
    new = draft()
    lock = hold_the_lock(store.path)
    async with anyio.create_task_group() as group:
        group.start_soon(store.apply, birth(new))
        await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    lock.close()

    await store.apply(birth(draft()))

    assert store.row(place_of(new))["status"] == "pending"


async def test_events_are_published_in_order_after_their_commit(tmp_path: Path) -> None:
    path = tmp_path / "outrider.db"
    seen: list[int] = []

    def publish(events: Sequence[Event]) -> None:
        stored = {row["seq"] for row in rows_of(path, "select seq from events")}
        assert {event["seq"] for event in events} <= stored
        seen.extend(event["seq"] for event in events)

    async with Writer(path, publish) as writer:
        tickets = [writer.post(birth(draft())) for _ in range(50)]
        for ticket in tickets:
            await ticket.done.wait()
            assert seen

    assert seen == list(range(1, 51))


async def test_a_listener_that_fails_stops_no_writer(tmp_path: Path) -> None:
    def publish(_: Sequence[Event]) -> None:
        raise ValueError("a listener's fault")

    async with Writer(tmp_path / "outrider.db", publish) as writer:
        with anyio.fail_after(5):
            assert (await writer.apply(birth(draft()))).held
            assert (await writer.apply(birth(draft()))).held


async def test_closing_commits_what_was_handed_in(tmp_path: Path) -> None:
    path = tmp_path / "outrider.db"
    async with open_store(path) as store:
        store.post(*(birth(draft()) for _ in range(300)))

    assert len(rows_of(path, "select id from executions")) == 300
    assert not path.with_name("outrider.db-wal").exists()
    with pytest.raises(WriterClosed) as refused:
        store.post(birth(draft()))
    assert refused.value.hint


async def test_a_body_that_is_cancelled_still_closes_the_store(tmp_path: Path) -> None:
    path = tmp_path / "outrider.db"
    with anyio.CancelScope() as scope:
        async with open_store(path) as store:
            store.post(birth(draft()))
            scope.cancel()
            await anyio.lowlevel.checkpoint()

    assert len(rows_of(path, "select id from executions")) == 1


@requirement("S2-DB-2")
async def test_a_task_reads_back_as_it_was_dispatched(store: Store) -> None:
    task = ("Zeile 1\r\nline 2\n\t— “quotes” 'and' \\ 🚒 " * 3000)[:100_000]

    place = await store.pending(task=task)

    row = await store.database.reads.execution(place.id)
    assert row is not None
    assert row["task"] == task
    assert (await store.database.reads.execution((await store.pending()).id) or {})["task"] is None


async def test_the_same_error_again_is_counted_and_not_repeated(store: Store) -> None:
    place = await store.running()
    for text in ("upstream is down", "upstream is down", "another thing"):
        await store.apply(error_records.record(NewError(place.id, "upstream", "high", text, {"agent": "Agent"})))

    rows = store.sql("select message, recurrence_count from error_records order by first_seen")

    assert [(row["message"], row["recurrence_count"]) for row in rows] == [("upstream is down", 2), ("another thing", 1)]


@requirement("S2-LE-5")
async def test_own_totals_are_the_sums_of_the_stored_calls(store: Store) -> None:
    place = await store.running()
    for turn in (1, 2, 3):
        said = message(place, turn)
        tools = [tool_start(place, said, number) for number in range(turn)]
        assert (await store.apply(transcript.reply(1, model_call(place, turn, input_tokens=turn), said, tools, []))).held
        for tool in tools:
            assert (await store.apply(transcript.settle(outcome(tool, ran=tool.position > 0), []))).held
    await store.apply(ending(place))
    assert not (await store.apply(transcript.reply(1, model_call(place, 4), message(place, 4), [], []))).held

    row = store.row(place)
    sums = store.sql(
        "select count(*) as turns, sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,"
        " sum(cache_read_tokens) as cache_read_tokens, sum(cache_write_tokens) as cache_write_tokens,"
        " sum(cost_usd) as cost_usd, (select count(*) from tool_calls where position > 0) as tool_call_count"
        " from model_calls"
    )[0]

    assert sums["turns"] == 3
    assert {name: row[name] for name in sums} == sums
