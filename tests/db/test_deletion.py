"""Deleting a tree: all of it or nothing, and nothing else."""

from sqlmodel import SQLModel

from db.clock import stamp
from db.ids import new_id
from db.rows.adoption import pass_on
from db.rows.approvals import request
from db.rows.deletion import delete_tree
from db.rows.endings import CancelWish, cancel
from db.rows.error_records import NewError, record
from db.rows.executions import Place
from db.rows.memories import MemoryScope, remember
from db.rows.plans import NewPlan, PlanStatus, keep
from db.rows.transcript import reply, settle
from db.rows.users import NewUser, chat_messages, introduced
from db.status import ExecutionStatus
from db.store.unit import Added, Write
from tests.db.store import Store, ending, message, model_call, outcome, question, tool_start
from tests.support.requirement import requirement

KEPT = ["config_snapshots", "daily_totals", "event_numbers", "facts", "upstream_tools", "users", "work_items"]
"""Of no tree alone: what is remembered of people is theirs, what is to be done stays to be done, sums are of many trees."""


async def grow(store: Store) -> Place:
    """A tree with something in every table, all of it ended."""
    root = await store.running(owner="somebody")
    child = await store.running(root)
    grandchild = await store.running(child)
    for place in (root, child, grandchild):
        said = message(place, 1, "reply")
        tool = tool_start(place, said)
        await store.apply(reply(1, model_call(place), said, [tool], []))
        await store.apply(request(question(tool), 1, []))
        await store.apply(settle(outcome(tool), []))
        await store.apply(record(NewError(place.id, "failed", "high", "it failed", {"agent": place.id})))
    person = NewUser("alex", "Alex", "UTC", "en", "[]", "[]", "[]")
    spoken = {"id": new_id(), "user_id": "alex", "role": "user", "content": "look", "token_count": 1}
    row = {**spoken, "created_at": stamp(), "execution_id": root.id}
    await store.apply(Write([*introduced([person]), Added(chat_messages, row)]))
    await store.apply(remember(MemoryScope("alex", child, 1), [("general", "likes tea")]))
    await store.apply(keep(NewPlan(f"{root.id}.1", root.id, 1, PlanStatus.EXECUTING, "look"), 1, []))
    for place in (grandchild, child, root):
        await store.apply(ending(place, ExecutionStatus.FAILED))
    return root


def counts(store: Store, root: Place | None = None) -> dict[str, int]:
    """The rows of each table, of one tree or of all."""
    below = "select id from executions where root_execution_id = ?"
    found = {}
    for name in sorted(set(SQLModel.metadata.tables) - set(KEPT)):
        column = "id" if name == "executions" else "execution_id"
        where = f" where {column} in ({below})" if root is not None else ""
        found[name] = store.sql(f"select count(*) as n from {name}{where}", *([root.id] if root is not None else []))[0][
            "n"
        ]
    return found


@requirement("S2-DB-12")
async def test_a_deleted_tree_leaves_no_row_in_any_table_and_its_neighbour_keeps_all(store: Store) -> None:
    doomed, neighbour = await grow(store), await grow(store)
    before = counts(store, neighbour)
    assert all(counts(store, doomed).values())

    assert (await store.apply(delete_tree(doomed.id))).held

    assert counts(store) == counts(store, neighbour) == before
    assert store.sql("select executions from agent_costs") == [{"executions": before["executions"]}]
    assert store.sql("pragma foreign_key_check") == []
    assert not (await store.apply(delete_tree(doomed.id))).held


@requirement("S2-DB-12")
async def test_a_tree_of_which_something_is_open_is_not_deleted_and_neither_is_a_part_of_one(store: Store) -> None:
    root = await store.running()
    child = await store.running(root)
    before = counts(store)

    assert not (await store.apply(delete_tree(root.id))).held
    assert not (await store.apply(delete_tree(child.id))).held

    assert counts(store) == before
    await store.apply(cancel(CancelWish(root.id, "a person", "enough")))
    for place in (child, root):
        await store.apply(ending(place, ExecutionStatus.CANCELLED))
    assert not (await store.apply(delete_tree(child.id))).held
    assert (await store.apply(delete_tree(root.id))).held
    assert set(counts(store).values()) == {0}


def mentions(store: Store, ids: set[str]) -> list[tuple[str, str]]:
    """The columns, of any table in the file, that are named as the id of an execution and hold one of these."""
    tables = [row["name"] for row in store.sql("select name from sqlite_master where type = 'table'")]
    found, looked_at = [], 0
    for table in tables:
        for column in store.sql(f"select name from pragma_table_info('{table}')"):
            name = column["name"]
            if name.endswith("execution_id") or (table, name) == ("executions", "id"):
                looked_at += 1
                if ids & {row[name] for row in store.sql(f"select {name} from {table}")}:
                    found.append((table, name))
    assert looked_at > 15
    return found


@requirement("S2-DB-12")
async def test_no_table_names_an_execution_of_a_deleted_tree_and_what_continued_it_stays(store: Store) -> None:
    doomed = await grow(store)
    ids = {row["id"] for row in store.sql("select id from executions")}
    later = await store.running(continues_execution_id=doomed.id)
    child = next(iter(ids - {doomed.id}))
    await store.apply(pass_on(later.id, 1, [child], []))
    await store.apply(record(NewError(later.id, "failed", "high", "it failed", {})))
    assert len(mentions(store, ids)) > 12
    assert not (await store.apply(delete_tree(doomed.id))).held  # what continues it reads it
    await store.apply(cancel(CancelWish(later.id, "a person", "enough")))
    await store.apply(ending(later, ExecutionStatus.CANCELLED))

    counted = await store.database.reads.belongings.of([doomed.id])
    [continued] = await store.database.reads.belongings.continued_by([doomed.id])
    assert (continued["id"], continued["open"]) == (later.id, 0)
    before = {table: rows[0]["n"] for table in counted if (rows := store.sql(f"select count(*) as n from {table}"))}
    assert (await store.apply(delete_tree(doomed.id))).held

    assert mentions(store, ids) == []
    assert [row["id"] for row in store.sql("select id from executions")] == [later.id]
    after = {table: store.sql(f"select count(*) as n from {table}")[0]["n"] for table in counted}
    assert {table: before[table] - after[table] for table in counted} == counted
    assert [row["content"] for row in store.sql("select content from facts")] == ["likes tea"]


@requirement("S2-DB-12")
async def test_the_room_of_a_deleted_tree_is_used_again(store: Store) -> None:
    def pages() -> int:
        return int(store.sql("select page_count as n from pragma_page_count")[0]["n"])

    async def come_and_go() -> None:
        for _ in range(5):
            doomed = await grow(store)
            await store.apply(record(NewError(doomed.id, "failed", "high", "x" * 100_000, {})))
            await store.apply(delete_tree(doomed.id))

    await come_and_go()
    grown = pages()
    await come_and_go()
    assert pages() <= grown + 2


@requirement("S2-DB-12")
async def test_events_after_a_deletion_are_numbered_above_those_that_were_deleted(store: Store) -> None:
    kept = await store.running()
    left, highest = list[int](), 0
    for _ in range(2):
        doomed = await grow(store)
        left, highest = store.sequence(), max(store.sequence())
        await store.apply(delete_tree(doomed.id))
        assert set(store.sequence()) < set(left)
        assert await store.database.reads.stream.newest() == highest

    await store.apply(ending(kept))

    assert next(number for number in store.sequence() if number not in left) == highest + 1
    assert store.sequence() == sorted(set(store.sequence()))
