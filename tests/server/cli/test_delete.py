"""`outrider delete`: a whole tree that has ended goes, with all that was written about it, once a person has seen it."""

import json
from pathlib import Path

from tests.support.requirement import requirement
from tests.support.shell import CONFIG, Shell, held, make_shell
from tests.support.terminal import screen

TABLES = ("executions", "events", "messages", "model_calls", "tool_calls", "deliveries", "chat_messages")


def left(shell: Shell) -> dict[str, int]:
    """How many rows there are, by table."""
    return {table: shell.rows(f"select count(*) as n from {table}")[0]["n"] for table in TABLES}


@requirement("S2-DB-12")
def test_a_person_sees_what_would_go_and_only_yes_deletes_a_whole_tree_that_has_ended(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, CONFIG + "chat: {agent: Lead}\nusers: {alex: {}}\n")
    gate = shell.gate("gate")
    with shell.start("chat", "look around", GATE=str(gate)) as running:
        with held(gate):
            [root, child] = [row["id"] for row in shell.rows("select id from executions order by id")]
            at_work = shell.type("delete", root, "--yes")
        running.communicate(timeout=40)
    before = left(shell)
    assert (at_work.returncode, running.returncode) == (2, 0)
    assert f"execution `{root}` has not ended" in at_work.stderr
    assert all(before.values())

    with screen(shell, "delete", root[-8:]) as person:
        shown = person.until("[y/N] ")
        person.press("no\n")
        code, said = person.end()
    assert (code, left(shell)) == (3, before)
    assert "nothing was deleted" in said
    assert root in shown
    assert "look around" in shown
    assert "Lead, Waiter" in shown
    assert "deletes    2 executions" in shown
    assert "2 chat messages" in shown

    piped, part = shell.type("delete", root), shell.type("delete", child, "--yes")
    assert (piped.returncode, part.returncode, left(shell)) == (2, 2, before)
    assert "hint: add `--yes` to delete it" in piped.stderr
    assert "is part of a tree, and only whole trees are deleted" in part.stderr
    assert f"delete {root}` deletes the tree it belongs to" in part.stderr

    told = json.loads(shell.type("delete", root, "--yes", "--json").stdout)
    assert (told["execution_id"], told["agent"], told["continued_by"]) == (root, "Lead", [])
    assert {table: told["deleted"][table] for table in TABLES} == before
    assert set(left(shell).values()) == {0}
    assert shell.type("delete", root, "--yes").returncode == 4


def test_what_continues_a_deleted_tree_stays_and_is_named(tmp_path: Path) -> None:
    shell = make_shell(tmp_path)
    first = shell.json("run", "Quick", "look")["execution_id"]
    assert shell.type("resume", first, "and now?").returncode == 0
    [later] = [row["id"] for row in shell.rows("select id from executions where continues_execution_id is not null")]

    with screen(shell, "delete", first) as person:
        shown = person.until("[y/N] ")
        person.press("y\n")
        code, said = person.end()
    assert code == 0
    assert f"`{later}` continued it and is kept" in said
    assert f"what continued it: {later}" in shown
    assert shell.rows("select id, continues_execution_id as c from executions") == [{"id": later, "c": None}]
