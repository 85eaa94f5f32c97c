"""The history checker finds what it is there to find: each kind of damage to the rows or the ledger of a sound tree."""

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from db.store.engine import sqlite_library
from tests.faults.crash.brigade import CONFIG, CONFIGS, EXECUTIONS, HAPPENINGS, LEAD, ROOT
from tests.faults.crash.expedition import CAUTIOUS, COURIER
from tests.faults.crash.history import INVARIANTS, History, violations
from tests.faults.crash.ledger import Entry, What
from tests.faults.crash.scene import at_rest, scene
from tests.faults.crash.voyage import ADMIRAL

Entries = list[Entry]
LEAF = "(select id from executions where task = 'root.1.1')"
MIDDLE = "(select id from executions where task = 'root.1')"
WISH = """insert into events select 1000000, execution_id, parent_execution_id, root_execution_id, 'execution.progress',
          '{"action": "cancel requested"}', at, session_id from events where execution_id = {} limit 1"""
LATE = """insert into events select 1000001, execution_id, parent_execution_id, root_execution_id, {}, at, session_id
          from events where execution_id = {} limit 1"""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> History:
    """A tree that nobody disturbed."""
    return anyio.run(undisturbed, tmp_path_factory.mktemp("sound"), LEAD)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> History:
    """A plan that nobody disturbed."""
    return anyio.run(undisturbed, tmp_path_factory.mktemp("planned"), COURIER)


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> History:
    """Five levels that nobody disturbed."""
    return anyio.run(undisturbed, tmp_path_factory.mktemp("nested"), ADMIRAL)


async def undisturbed(folder: Path, agent: str) -> History:
    """Run a tree or a plan to its end."""
    async with scene(folder, CONFIGS.get(agent, CONFIG)) as here:
        with anyio.fail_after(50):
            async with here.client() as client:
                await client.result(ROOT, await client.dispatch(agent, ROOT))
                await client.leave()
            here.ledger.add("rest", "ok", processes=await at_rest(here))
        return History(here.database, here.ledger.entries, agent)


def test_nothing_is_found_where_nothing_is_wrong(sound: History, planned: History, nested: History) -> None:
    assert violations(sound) == violations(planned) == violations(nested) == {}
    assert len(sound.executions) == EXECUTIONS
    for each in (sound, planned, nested):
        assert len(each.of("turn", "invoke")) + len(each.of("tool", "invoke")) == HAPPENINGS[each.agent]


ROWS = {
    "an execution is gone": ("I1", f"delete from executions where id = {LEAF}"),
    "an execution is there twice": ("I1", f"update executions set task = 'root.1.2' where id = {LEAF}"),
    "an end has changed": ("I2", "update executions set status = 'failed' where task = 'root'"),
    "an end is told twice": ("I2", LATE.format("""'execution.status', '{"status": "completed"}'""", LEAF)),
    "an end is not told": ("I2", f"delete from events where execution_id = {LEAF} and payload like '%completed%'"),
    "a child outlives its parent": ("I3", f"update executions set status = 'running' where id = {LEAF}"),
    "work begins below an end": ("I3", LATE.format("'timeline_event.created', '{}'", LEAF)),
    "a message is missing": ("I4", f"delete from messages where execution_id = {LEAF} and position = 1"),
    "a turn is missing": ("I4", f"delete from model_calls where execution_id = {LEAF} and turn = 1"),
    "a turn is there twice": ("I4", f"update model_calls set turn = 1 where execution_id = {LEAF}"),
    "a call has no row": ("I4", f"delete from tool_calls where execution_id = {LEAF}"),
    "a call has no result": ("I4", f"update tool_calls set result = null where execution_id = {LEAF}"),
    "a call has not ended": ("I4", f"update tool_calls set status = 'started' where execution_id = {LEAF}"),
    "a lost turn counts": ("I4", f"update model_calls set pricing = 'lost' where execution_id = {LEAF} and turn = 1"),
    "a call began and its end is not told": (
        "I4",
        f"delete from events where execution_id = {LEAF} and payload like '%look%' and type = 'timeline_event.completed'",
    ),
    "a result was kept otherwise": ("I4", f"update tool_calls set result = 'else' where execution_id = {LEAF}"),
    "a call is unknown that nothing cut": ("I5", f"update tool_calls set status = 'unknown' where execution_id = {LEAF}"),
    "the last word is another": ("result", "update executions set result = '{\"output\": \"no\"}' where task = 'root'"),
    "a result was not delivered": ("I7", f"delete from deliveries where child_execution_id = {LEAF}"),
    "a result was not read": ("I7", f"update deliveries set consumed_at = null where child_execution_id = {LEAF}"),
    "a result was read by nobody": ("I7", f"update deliveries set consumed_by = null where child_execution_id = {LEAF}"),
    "an execution is left open": ("I9", "update executions set status = 'running' where task = 'root'"),
    "an end lies before its start": ("I10", f"update executions set finished_at = '2000' where id = {LEAF}"),
    "a tool took less than no time": ("I10", f"update tool_calls set finished_at = '2000' where execution_id = {LEAF}"),
    "an event tells of less than no time": ("I10", LATE.format("""'note', '{"seconds": -1}'""", LEAF)),
    "a parent does not exist": ("file", f"update executions set parent_execution_id = 'nobody' where id = {LEAF}"),
}
"""What is done to the rows, and which invariant must break."""


def damaged(sound: History, folder: Path, statement: str) -> History:
    """A copy with something wrong in its rows."""
    copy = folder / "outrider.db"
    shutil.copy(sound.database, copy)
    with closing(sqlite_library().connect(copy)) as connection:
        assert connection.execute(statement).rowcount > 0
        connection.commit()
    return replace(sound, database=copy)


@pytest.mark.parametrize("damage", ROWS)
def test_damage_to_the_rows_is_found(sound: History, tmp_path: Path, damage: str) -> None:
    invariant, statement = ROWS[damage]

    assert INVARIANTS[invariant](damaged(sound, tmp_path, statement))


PLANS = {
    "a version is gone": ("plan", "delete from plans where version = 1"),
    "a version is under way": ("plan", "update plans set status = 'replanning' where version = 2"),
    "a step has no row": ("plan", "update executions set role = 'sub_agent' where step_id = 'g'"),
    "a step has two rows": ("plan", "update executions set step_id = 'e' where step_id = 'g'"),
    "a step ran that was replaced": ("plan", "update executions set status = 'completed' where step_id = 'd'"),
    "a person was asked again": ("question", "update approvals set kind = 'repeat'"),
    "a yes was not used": ("question", "update approvals set used_at = null"),
    "a message has no answer": ("chat", "delete from chat_messages where role = 'assistant'"),
    "a message has another answer": ("chat", "update chat_messages set content = 'no' where role = 'assistant'"),
    "a message is there twice": (
        "chat",
        "insert into chat_messages select 'two', user_id, role, content, 1, created_at, null from chat_messages limit 1",
    ),
}
"""What is done to the rows of a plan, and which invariant must break."""


@pytest.mark.parametrize("damage", PLANS)
def test_damage_to_the_rows_of_a_plan_is_found(planned: History, tmp_path: Path, damage: str) -> None:
    invariant, statement = PLANS[damage]

    assert INVARIANTS[invariant](damaged(planned, tmp_path, statement))


def test_a_step_that_no_person_had_allowed_is_found(planned: History) -> None:
    rash = with_entry("tool", CAUTIOUS, at=0, tool="strike")

    assert INVARIANTS["question"](replace(planned, entries=rash(list(planned.entries))))


def test_a_birth_below_a_cancel_is_found(sound: History, tmp_path: Path) -> None:
    wished = damaged(sound, tmp_path, WISH.replace("{}", MIDDLE, 1).replace("1000000", "-1"))

    assert INVARIANTS["I6"](wished)


def test_a_torn_page_is_found(sound: History, tmp_path: Path) -> None:
    copy = tmp_path / "outrider.db"
    content = bytearray(sound.database.read_bytes())
    content[4096 * 5 : 4096 * 5 + 64] = bytes(64)
    copy.write_bytes(content)

    assert INVARIANTS["file"](replace(sound, database=copy))


def with_entry(what: What, label: str = "", *, at: int | None = None, **more: Any) -> Callable[[Entries], Entries]:
    """The entries with one more, at the end or elsewhere."""

    def add(entries: Entries) -> Entries:
        entry = Entry(what, "invoke" if what in ("turn", "tool") else "ok", label, more)
        return [*entries[:at], entry, *(entries[at:] if at is not None else [])]

    return add


KILL: dict[str, Any] = {"open": {}, "ended": [], "replies": {}, "cut": []}
LEDGERS: dict[str, tuple[str, Callable[[Entries], Entries]]] = {
    "a dispatch was told and is lost": ("I1", with_entry("dispatch", "root.9", id="nowhere")),
    "a child was seen and is lost": ("I1", with_entry("turn", "root.9", turn=1, calls=[])),
    "what had ended went on": ("I2", with_entry("kill", at=0, **{**KILL, "ended": ["root.1.1"]})),
    "a result was told otherwise": ("I2", lambda entries: [*entries, _told(entries, status="failed")]),
    "more turns were seen than are kept": ("I4", with_entry("turn", "root.1", turn=9, calls=[])),
    "a call was seen that is not kept": ("I4", with_entry("turn", "root.1", turn=2, calls=["toolu_lost"])),
    "a tool ran for a turn that is not kept": ("I4", with_entry("tool", "root.9", tool="look")),
    "a kept reply was asked for again": ("I4", with_entry("kill", at=0, **{**KILL, "replies": {"root.1": 1}})),
    "a request has no row": ("I4", with_entry("turn", "root.1", turn=1, calls=[])),
    "no API would accept it": ("I4", with_entry("turn", "root.1", turn=1, calls=[], wrong=["a text is blank"])),
    "the story was told otherwise": ("I4", with_entry("turn", "root.1", turn=1, calls=[], marks=["another"])),
    "a strike ran twice": ("I5", with_entry("tool", "root.1.3", tool="strike")),
    "a cut call is not called unknown": ("I5", with_entry("kill", **{**KILL, "cut": ["nowhere"]})),
    "a child began below a cancel": ("I6", with_entry("cancel", "root", at=0, id="whatever")),
    "a cancelled one was asked on": (
        "I6",
        lambda entries: with_entry("turn", "root", turn=3, calls=[])(
            with_entry("kill", **KILL)(with_entry("cancel", "root", id="whatever")(entries))
        ),
    ),
    "something was said and never read": ("I7", lambda entries: [*entries, _said(entries)]),
    "a process is left": ("I9", with_entry("rest", processes=1)),
}
"""What is done to the ledger, and which invariant must break."""


def _told(entries: Entries, **more: object) -> Entry:
    told = next(entry for entry in entries if entry.what == "result")
    return replace(told, more={**told.more, **more})


def _said(entries: Entries) -> Entry:
    told = next(entry for entry in entries if entry.what == "result")
    return Entry("message", "ok", ROOT, {"id": told.more["id"], "text": "mind the gap"})


@pytest.mark.parametrize("damage", LEDGERS)
def test_a_promise_that_the_rows_do_not_keep_is_found(sound: History, damage: str) -> None:
    invariant, doctor = LEDGERS[damage]

    assert INVARIANTS[invariant](replace(sound, entries=doctor(list(sound.entries))))


def test_an_end_without_a_reason_after_a_kill_is_found(sound: History) -> None:
    open_then = dict.fromkeys(sound.executions, 1)
    kill = Entry("kill", "ok", more={**KILL, "open": open_then})

    assert len(INVARIANTS["I9"](replace(sound, entries=[*sound.entries, kill]))) == EXECUTIONS


def test_a_cut_call_whose_result_does_not_say_unknown_is_found(sound: History, tmp_path: Path) -> None:
    struck = "execution_id = (select id from executions where task = 'root.1.3')"
    unknown = damaged(sound, tmp_path, f"update tool_calls set status = 'unknown' where {struck}")
    [call] = unknown.sql(f"select id from tool_calls where {struck}")
    kill = Entry("kill", "ok", more={**KILL, "cut": [call["id"]]})

    assert INVARIANTS["I5"](replace(unknown, entries=[*sound.entries, kill]))


NESTED = {
    "a planner was asked twice": "update executions set step_id = 'plan.2' where agent = 'Compass' and step_id = 'plan.3'",
    "a task has no worker": "update executions set agent = 'Nobody' where step_id = 'task.2'",
    "somebody is too high": "update executions set depth = 1 where agent = 'Captain'",
    "the bottom is elsewhere": "update executions set path = 'Admiral/Helm/Else/Captain/Scout' where depth = 4",
    "a decision is told twice": "insert into events select 1000002, execution_id, parent_execution_id, root_execution_id,"
    " type, payload, at, session_id from events where type = 'iterate.decided' limit 1",
    "a decision is not told": "delete from events where type = 'iterate.decided' and payload like '%\"finished\":true%'",
}


@pytest.mark.parametrize("damage", NESTED)
def test_damage_to_five_levels_is_found(nested: History, tmp_path: Path, damage: str) -> None:
    assert INVARIANTS["nest"](damaged(nested, tmp_path, NESTED[damage]))
