"""A terminal shows what tools, models and rows say, and obeys none of it; programs get every character."""

import json
import logging
import re
import sqlite3
from contextlib import closing

import pytest

from server.cli.terminal.output import LogLines, safe
from tests.support.shell import Shell
from tests.support.sources import python_files, relative, text_of
from tests.support.terminal import typed

TITLE, CLIPBOARD, CLEAR, COLOUR = "\x1b]0;OWNED\x07", "\x1b]52;c;T1dORUQ=\x07", "\x1b[2J\x1b[H", "\x1b[5;41mOWNED"
HOSTILE = f"{TITLE}{CLIPBOARD}{CLEAR}{COLOUR}\x9b41m\x9d0;OWNED\x9c\u202eOWNED\u2066\x08\x7f\r over"

OURS = re.compile(r"\x1b\[(?:\?25[lh]|[0-9]*[ABKJ]|[0-9;]*m)")
"""What our own drawing uses: hide the cursor, go up, wipe a line or what is below, colours."""
OBEYED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

SCRIPT = """\
agents:
  Waiter:
    - {when: start, call: [{tool: gate.wait}]}
    - {when: any, say: "HOSTILE"}
  Broken: [{when: conclude, say: "nothing"}]
"""


def harmless(seen: str) -> bool:
    """Whether a terminal that gets this does only what we meant."""
    return "\x1b[5;41m" not in seen and "\x1b[2J" not in seen and not OBEYED.search(OURS.sub("", seen))


@pytest.fixture
def hostile(shell: Shell) -> Shell:
    """A folder whose tool and model say hostile things."""
    shell.folder.joinpath("script.yaml").write_text(SCRIPT.replace("HOSTILE", json.dumps(HOSTILE)[1:-1]), encoding="utf-8")
    shell.folder.joinpath("result.txt").write_text(HOSTILE, encoding="utf-8", newline="")
    shell.environ["GATE"] = str(shell.folder / "result.txt")
    return shell


def test_a_live_run_and_its_answer_are_shown_and_not_obeyed(hostile: Shell) -> None:
    code, answer, seen = typed(hostile, "run", "Waiter", f"look {HOSTILE}")
    plain = hostile.type("run", "Waiter", f"look {HOSTILE}", OUTRIDER_LOG="debug")

    assert (code, plain.returncode) == (0, 0)
    assert "OWNED" in answer
    started = hostile.rows("select id from executions")[0]["id"]
    _, _, again = typed(hostile, "watch", started)
    events = hostile.type("watch", started, "--json").stdout
    assert "OWNED" in again
    assert "OWNED" in events
    for told in (answer, seen.replace("\r", ""), plain.stdout, plain.stderr, again.replace("\r", ""), events):
        assert harmless(told)


def poison(shell: Shell) -> None:
    """Put hostile text into whatever a tool, a model or a caller may have written into rows."""
    words = f"'{HOSTILE}'"
    escaped = json.dumps({"words": HOSTILE, "message": HOSTILE, "server": HOSTILE, "tool": HOSTILE})
    with closing(sqlite3.connect(shell.database)) as connection, connection:
        for table, columns in {
            "executions": ("task", "error", "cancelled_by", "cancel_reason", "reason", "stage", "agent", "model"),
            "tool_calls": ("call_id", "tool", "server", "result", "full_result"),
        }.items():
            known = {row[1] for row in connection.execute(f"pragma table_info({table})")}
            for column in known.intersection(columns):
                connection.execute(f"update {table} set {column} = {words}")
        connection.execute("update tool_calls set arguments = ?", [escaped])
        connection.execute("update executions set status = 'failed', cancel_requested_at = created_at")
        connection.execute("update events set payload = ? where type like 'upstream.%'", [escaped])


def test_hostile_rows_are_shown_and_not_obeyed_by_any_command(hostile: Shell) -> None:
    started = hostile.json("run", "Waiter", "look")["execution_id"]
    hostile.type("run", "Broken", "fail")
    poison(hostile)
    commands = [
        ["ps", "--all"],
        ["show", started],
        ["show", started, "--tree"],
        ["show", started, "--transcript"],
        ["errors"],
        ["sql", "select * from executions"],
        ["sql", "select call_id, tool, arguments, result from tool_calls"],
        ["cancel", started],
        ["message", started, HOSTILE],
        ["show", HOSTILE.replace("\x00", "")],
        ["run", f"No{HOSTILE}", "x"],
        ["agents"],
    ]

    for words in commands:
        told = hostile.type(*words)
        _, out, seen = typed(hostile, *words)
        for text in (told.stdout, told.stderr, out, seen.replace("\r", "")):
            assert harmless(text), words
    for shell in ("zsh", "fish", "bash"):
        completed = hostile.type("show", "", OUTRIDER_COMPLETE=shell)
        assert completed.stdout
        assert harmless(completed.stdout)
    assert "OWNED" in hostile.type("show", started, "--transcript").stdout


def test_json_keeps_every_character_and_a_terminal_may_print_it(hostile: Shell) -> None:
    started = hostile.json("run", "Waiter", "look")["execution_id"]
    told = hostile.type("show", started, "--transcript", "--json").stdout

    [call] = json.loads(told)["tool_calls"]
    assert HOSTILE.replace("\r", "\n") in (call["full_result"] or call["result"])  # the server reads it as text
    assert harmless(told)


def test_a_log_line_is_one_record_and_obeyed_by_no_terminal() -> None:
    record = logging.makeLogRecord(
        {"msg": "said %s", "args": (f"{HOSTILE}\n2026-01-01 ERROR forged",), "levelname": "INFO"}
    )

    line = LogLines("%(levelname)s %(message)s").format(record)

    assert harmless(line)
    assert [each for each in line.split("\n") if each.startswith("2026")] == []


def test_right_to_left_text_keeps_its_letters_and_loses_its_overrides() -> None:
    assert safe("שלום\u200f, 3 \u200eABC") == "שלום, 3 ABC"
    assert safe("a\u202ecod.exe\tb\r\nc") == "a\ufffdcod.exe\tb\nc"


def test_commands_write_through_one_place_only() -> None:
    writing = re.compile(
        r"sys\.(?:stdout|stderr)\.(?:write|buffer)|\bprint\(|\bConsole\(|(?:click|typer)\.echo|rich\.print"
    )
    commands = [file for file in python_files("server") if relative(file).startswith("server/cli/")]

    places = [relative(file) for file in commands if writing.search(text_of(file) or "")]

    # What rich draws, and all that it does not.
    assert places == ["server/cli/terminal/console.py", "server/cli/terminal/output.py"]
