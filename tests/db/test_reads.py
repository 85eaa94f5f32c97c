"""Reads: what comes back, and in which order."""

from pathlib import Path

import pytest

from db.errors import DatabaseUnavailable, UnknownExecution
from db.ids import named_among
from db.rows import endings, executions, transcript
from db.rows.endings import CancelWish
from db.rows.reads import Reads
from db.status import ExecutionStatus
from db.store.engine import open_reader
from tests.db.store import Store, ending, message, model_call, names_in, open_store, outcome, tool_start
from tests.support.requirement import requirement


async def test_a_prefix_stands_for_the_one_execution_that_begins_with_it(store: Store) -> None:
    ids = ["00000000000aaaa" + "0" * 22, "00000000000aabb" + "0" * 22]
    for identifier in ids:
        await store.pending(id=identifier, root_execution_id=identifier)
    resolve = store.database.reads.resolve

    assert await resolve(ids[0]) == ids[0]
    assert await resolve(ids[1][:14]) == ids[1]
    with pytest.raises(UnknownExecution, match="2 executions begin with") as several:
        await resolve(ids[0][:13])
    with pytest.raises(UnknownExecution, match="no execution") as nobody:
        await resolve("zzz")
    assert "more characters" in several.value.hint
    assert "outrider ps" in nobody.value.hint


@pytest.mark.parametrize("prefix", ["", "%", "_", "0_", "ABC", "' or 1=1 --", "a\0b", "\udce9", "é" * 50])
async def test_what_is_no_prefix_of_an_id_is_unknown_whatever_it_holds(store: Store, prefix: str) -> None:
    await store.pending()

    with pytest.raises(UnknownExecution):
        await store.database.reads.resolve(prefix)


async def test_an_end_stands_for_the_one_execution_that_ends_with_it(store: Store) -> None:
    ids = ["00000000000" + "0" * 22 + "aaxy", "00000000000" + "0" * 22 + "bbxy", "0000x000000" + "0" * 22 + "aaxz"]
    for identifier in ids:
        await store.pending(id=identifier, root_execution_id=identifier)
    resolve = store.database.reads.resolve

    assert await resolve("aaxy") == ids[0]
    assert await resolve("0000x") == ids[2]
    with pytest.raises(UnknownExecution, match="no execution `axz`"):
        await resolve("axz")  # fewer characters are too easily typed by mistake
    await store.pending(id="1" * 33 + "aaxy", root_execution_id="1" * 33 + "aaxy")
    with pytest.raises(UnknownExecution, match="2 executions end with `aaxy`") as several:
        await resolve("aaxy")
    assert "more characters" in several.value.hint


async def test_a_short_id_means_the_same_in_rows_and_in_memory(store: Store) -> None:
    ids = ["0" * 31 + "1aaaaa", "1" * 31 + "1aaaaa", "2" * 30 + "0aaaaaa", "3" * 31 + "444444", "444444" + "5" * 31]
    for identifier in ids:
        await store.pending(id=identifier, root_execution_id=identifier)
    given = {"", "o", "zzzz", "aaaaa", "1aaaaa", "444444", "444", "4" * 40, ids[0] + "0", ids[0][:-1], "555", "5555", *ids}

    for each in sorted(given):
        assert named_among(each, ids) == await store.database.reads.named(each), each


async def test_an_id_is_shortened_to_an_end_that_no_other_shares(store: Store) -> None:
    ids = ["0" * 31 + "1aaaaa", "1" * 31 + "1aaaaa", "2" * 30 + "0aaaaaa", "3" * 31 + "444444", "444444" + "5" * 31]
    for identifier in ids:
        await store.pending(id=identifier, root_execution_id=identifier)

    short = await store.database.reads.shorts(ids)

    assert list(short.values()) == ["01aaaaa", "11aaaaa", "aaaaaa", "3444444", "555555"]
    assert [await store.database.reads.resolve(each) for each in short.values()] == ids
    assert await store.database.reads.short(ids[3]) == "3444444"


@requirement("S2-DB-6")
async def test_children_come_in_order_from_one_query_and_from_the_reads(store: Store) -> None:
    parent = await store.running()
    children = [await store.pending(parent, number) for number in range(1, 6)]
    await store.pending(await store.running())

    by_query = store.sql("select id from executions where parent_execution_id = ? order by position", parent.id)

    assert [row["id"] for row in by_query] == [child.id for child in children]
    assert [row["id"] for row in await store.database.reads.children(parent.id)] == [child.id for child in children]


@requirement("S2-DB-7")
async def test_a_tree_comes_parents_first_siblings_in_order_with_levels_and_paths(store: Store) -> None:
    top = await store.running(agent="A", path="A")
    first = await store.running(top, 1, agent="B", path="A/B")
    second = await store.running(top, 2, agent="C", path="A/C")
    below_second = await store.running(second, 1, agent="D", path="A/C/D")
    below_first = await store.running(first, 1, agent="D", path="A/B/D")
    await store.running()

    tree = await store.database.reads.tree(top.id)
    branch = await store.database.reads.tree(second.id)

    order = [top, first, below_first, second, below_second]
    assert [row["id"] for row in tree] == [place.id for place in order]
    assert [row["level"] for row in tree] == [0, 1, 2, 1, 2]
    assert [row["path"] for row in tree] == ["A", "A/B", "A/B/D", "A/C", "A/C/D"]
    assert [row["subtree_executions"] for row in tree] == [5, 2, 1, 2, 1]
    assert [row["id"] for row in branch] == [second.id, below_second.id]
    assert await store.database.reads.tree("nobody") == []


async def test_roots_come_newest_first_with_the_sums_of_their_trees(store: Store) -> None:
    old, new = await store.running(), await store.running()
    child = await store.running(old)
    await store.apply(transcript.reply(1, model_call(child), message(child, 1), [], []))
    await store.apply(ending(new))

    roots = await store.database.reads.roots(10)

    assert [row["id"] for row in roots] == [new.id, old.id]
    assert [(row["subtree_executions"], row["subtree_tokens"]) for row in roots] == [(1, 0), (2, 116)]
    assert [row["id"] for row in await store.database.reads.roots(10, only_open=True)] == [old.id]
    assert len(await store.database.reads.roots(1)) == 1


async def test_a_transcript_comes_in_order_with_its_calls(store: Store) -> None:
    place = await store.running()
    reads = store.database.reads
    said = [message(place, number) for number in (1, 2)]
    tools = [tool_start(place, said[0], number) for number in (1, 2)]
    await store.apply(transcript.reply(1, model_call(place, 1), said[0], tools, []))
    await store.apply(transcript.settle(outcome(tools[1], text="second", full_text="the whole second"), []))
    await store.apply(transcript.reply(1, model_call(place, 2), said[1], [], []))

    assert [row["id"] for row in await reads.messages(place.id)] == [each.id for each in said]
    assert [row["turn"] for row in await reads.model_calls(place.id)] == [1, 2]
    assert [(row["id"], row["result"]) for row in await reads.tool_calls(place.id)] == [
        (tools[0].id, None),
        (tools[1].id, "second"),
    ]
    by_name = await reads.tool_call(place.id, tools[1].call_id)
    assert by_name is not None
    assert by_name["full_result"] == "the whole second"
    assert by_name == await reads.tool_call(place.id, tools[1].id)
    assert await reads.tool_call(place.id, "nothing") is None


async def test_events_of_a_tree_are_replayed_from_a_number_on(store: Store) -> None:
    top, other = await store.running(), await store.running()
    await store.running(top)

    events = await store.database.reads.events(top.id)

    numbers = [row["seq"] for row in events]
    assert numbers == [1, 2, 5, 6]
    assert [row["seq"] for row in await store.database.reads.events(top.id, after=2)] == [5, 6]
    assert [row["seq"] for row in await store.database.reads.events(other.id, limit=1)] == [3]
    assert [dict(event) for event in store.published if event["seq"] in numbers] == events


async def test_a_process_finds_the_wishes_and_messages_others_left_for_it(store: Store) -> None:
    reads = store.database.reads
    mine, theirs = await store.running(owner="me"), await store.running(owner="them")
    child = await store.in_status(ExecutionStatus.COMPLETED, mine)
    for place in (mine, theirs):
        await store.apply(executions.deliver(place.id, f"to {place.id}", "message", "look left", []))
        await store.apply(endings.cancel(CancelWish(place.id, "a person", "enough")))

    assert [row["id"] for row in await reads.cancel_wishes("me")] == [mine.id]
    assert [row["payload"] for row in await reads.waiting_deliveries("me")] == ["look left"]
    assert {row["child_execution_id"] for row in await reads.unread(mine.id)} == {None, child.id}
    assert await reads.open_owners() == {"me": 1, "them": 1}
    assert await reads.open_owners(theirs.id) == {"them": 1}
    await store.apply(ending(mine, ExecutionStatus.CANCELLED))
    assert await reads.cancel_wishes("me") == []


async def test_a_configuration_is_kept_once_and_found_by_the_hash_of_its_executions(store: Store) -> None:
    for body in ("agents: {}", "never again"):
        await store.apply(executions.snapshot("abc", body))
    place = await store.pending(config_hash="abc")

    query = "select body from config_snapshots join executions on hash = config_hash where id = ?"
    assert store.sql(query, place.id) == [{"body": "agents: {}"}]


async def test_a_reader_cannot_write(store: Store) -> None:
    engine = open_reader(store.path)
    try:
        for statement in ("delete from executions", "pragma user_version = 7", "create table t (x)"):
            async with engine.connect() as connection:
                with pytest.raises(Exception, match="readonly"):
                    await connection.exec_driver_sql(statement)
    finally:
        await engine.dispose()


async def test_a_missing_database_is_told_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable, match="no database at") as refused:
        Reads(tmp_path / "nothing.db")

    assert "--db" in refused.value.hint


async def test_trouble_while_reading_is_told_for_people(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("this is no database, but long enough to be looked at " * 30, encoding="utf-8")
    reads = Reads(file)
    try:
        for question in (reads.check(), reads.open_owners()):
            with pytest.raises(DatabaseUnavailable, match="not a database") as refused:
                await question
            assert "--db" in refused.value.hint
    finally:
        await reads.close()


@pytest.mark.parametrize("name", ["with space.db", "what?.db", "100%25#.db", "日誌&x=1.db", "it's.db", "file:x.db"])
async def test_a_file_name_may_hold_anything(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    async with open_store(path) as store:
        place = await store.pending()
        assert (await store.database.reads.execution(place.id) or {})["id"] == place.id

    assert names_in(tmp_path) == {name, f"{name}-lock", f"{name}-owners"}
