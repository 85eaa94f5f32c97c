"""`export`, `replay` and `diff` by the console script: a bundle of the demo is replayed elsewhere, and one byte matters."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from runner.replay.recording import digest
from tests.support.shell import Shell, make_shell


def test_the_same_tree_gives_the_same_bytes_that_only_its_owner_may_read(demo: tuple[Shell, str], bundle: Path) -> None:
    shell, identifier = demo
    assert shell.type("export", identifier, "--json", "again.json").returncode == 0
    out = shell.type("export", identifier, "--json", "-").stdout

    assert (shell.folder / "again.json").read_bytes() == bundle.read_bytes() == out.encode()
    assert bundle.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in shell.folder.iterdir() if each.name.startswith(".demo")] == []


def test_what_is_no_file_is_written_to_and_stays(demo: tuple[Shell, str], bundle: Path) -> None:
    shell, identifier = demo
    pipe, target, link = (shell.folder / name for name in ("pipe", "target.json", "link.json"))
    os.mkfifo(pipe)
    link.symlink_to(target)
    arrived = shell.folder / "arrived"
    with arrived.open("wb") as file, subprocess.Popen(["cat", str(pipe)], stdout=file) as reader:
        assert shell.type("export", identifier, "--json", "pipe").returncode == 0
        assert reader.wait(20) == 0
    assert shell.type("export", identifier, "--json", "link.json").returncode == 0

    assert pipe.is_fifo()
    assert arrived.read_bytes() == bundle.read_bytes()
    assert link.is_symlink()
    assert target.read_bytes() == bundle.read_bytes()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--json", "."), "error: cannot write `.`: Is a directory\n\nhint: name a file"),
        (
            ("--html", "absent/x.html"),
            "error: cannot write `absent/x.html`: No such file or directory\n\nhint: name",
        ),
        (("--json", "x", "--html", "x"), "error: `--json` and `--html` both write to `x`\n\nhint: name another file"),
        (
            ("--json", "-", "--html", "-"),
            "error: `--json` and `--html` both write to standard output\n\nhint: name",
        ),
    ],
)
def test_a_place_that_cannot_be_written_is_named(demo: tuple[Shell, str], options: tuple[str, ...], said: str) -> None:
    shell, identifier = demo
    done = shell.type("export", identifier, *options)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(said)


def test_a_bundle_is_replayed_equal_in_another_folder_without_a_key(bundle: Path, tmp_path: Path) -> None:
    elsewhere = make_shell(tmp_path)
    (tmp_path / "config.yaml").unlink()
    (tmp_path / "carried.json").write_bytes(bundle.read_bytes())
    told = elsewhere.json("replay", "carried.json")

    assert told["equal"] is True
    assert (told["executions"], told["first_difference"]) == (6, None)
    assert not elsewhere.database.exists()


def test_an_execution_is_replayed_by_its_id(demo: tuple[Shell, str]) -> None:
    shell, identifier = demo
    before = shell.rows("select count(*) as n from executions")
    done = shell.type("replay", identifier[-6:])

    assert (done.returncode, done.stdout) == (0, "equal: 6 executions, 19 replies, 27 tool calls; no token used\n")
    assert shell.rows("select count(*) as n from executions") == before


def _upstream_call(content: dict[str, Any]) -> dict[str, Any]:
    calls = (
        call for each in content["recording"]["executions"] for message in each["messages"] for call in message["calls"]
    )
    return next(call for call in calls if call["server"] == "logs" and call["result"])


def test_one_changed_byte_of_a_result_is_found_and_named(demo: tuple[Shell, str], bundle: Path) -> None:
    shell, _ = demo
    content = json.loads(bundle.read_text())
    call = _upstream_call(content)
    middle = len(call["result"]) // 2
    call["result"] = call["result"][:middle] + "#" + call["result"][middle + 1 :]
    (shell.folder / "changed.json").write_text(json.dumps(content))

    done = shell.type("replay", "changed.json")
    told = json.loads(shell.type("replay", "changed.json", "--json").stdout)

    assert done.returncode == 1
    assert f"turn 1, call `{call['tool']}` ({call['call_id']}): its result" in done.stdout
    assert told["first_difference"]["call_id"] == call["call_id"]
    assert "#" in told["first_difference"]["got"]
    assert "#" not in told["first_difference"]["expected"]


def test_one_byte_that_is_changed_everywhere_is_found_too(demo: tuple[Shell, str], bundle: Path) -> None:
    shell, _ = demo
    content = json.loads(bundle.read_text())
    first = json.dumps(_upstream_call(content)["result"], ensure_ascii=False)[1:-1]
    text = bundle.read_text()
    assert text.count(first) >= 2
    (shell.folder / "everywhere.json").write_text(text.replace(first, first.replace("2026", "2025", 1)))

    told = json.loads(shell.type("replay", "everywhere.json", "--json").stdout)
    assert told["first_difference"]["what"] == "its result"


def _first(content: dict[str, Any], part: str) -> tuple[dict[str, Any], str]:
    """An object of a part with a text that can be changed, and its key."""
    executions = content["executions"].values()
    messages = [each for page in content["transcripts"].values() for each in page["messages"]]
    calls = [call for message in messages for call in message["calls"]]
    events = [event["payload"] for page in content["timelines"].values() for event in page["events"]]
    dispatch = next(call for call in calls if call["tool"] == "dispatch_agent")
    found: dict[str, tuple[dict[str, Any], str]] = {
        "a task": (next(each for each in executions if each["task"]), "task"),
        "an output": (next(each["result"] for each in executions if each["result"]), "output"),
        "a message": (messages[0]["content"][0], "text"),
        "a reply": (next(each for each in messages if each["role"] == "assistant")["content"][0], "text"),
        "a result": (next(call for call in calls if call["server"] == "logs" and call["result"]), "result"),
        "a dispatch": (dispatch["arguments"], "task"),
        "an event's arguments": (next(each for each in events if each.get("arguments")), "arguments"),
        "an event's text": (next(each for each in events if each.get("text")), "text"),
        "a node": (content["tree"]["nodes"][1], "agent"),
        "the tree": (content["tree"], "id"),
        "a span": (next(iter(content["timelines"].values()))["spans"][0], "kind"),
    }
    return found[part]


SHOWN = [
    ("a task", "its `task` in `executions`"),
    ("an output", "the `output` of its result in `executions`"),
    ("a message", "a message to its model (`task`) in `transcripts`"),
    ("a reply", "a reply of its model in `transcripts`"),
    ("a result", "its result in `transcripts`"),
    ("a dispatch", "its `arguments` in `transcripts`"),
    ("an event's arguments", "its `arguments` in `timelines`"),
    ("an event's text", "a reply of its model in `timelines`"),
    ("a node", "its `agent` in `tree`"),
    ("the tree", "`tree` is not as it was exported"),
    ("a span", "`timelines` is not as it was exported"),
]


@pytest.mark.parametrize(("part", "what"), SHOWN, ids=[part for part, _ in SHOWN])
def test_one_changed_byte_outside_the_recording_is_found_and_named(
    demo: tuple[Shell, str], bundle: Path, part: str, what: str
) -> None:
    shell, _ = demo
    content = json.loads(bundle.read_text())
    holder, name = _first(content, part)
    middle = len(holder[name]) // 4
    holder[name] = holder[name][:middle] + "#" + holder[name][middle + 1 :]
    (shell.folder / "shown.json").write_text(json.dumps(content))

    done = shell.type("replay", "shown.json", "--json")
    told = json.loads(done.stdout)
    first = told["first_difference"]
    assert (done.returncode, told["equal"], told["differences"], first["what"]) == (1, False, 1, what)
    assert first["execution_id"] in content["executions"]
    if "exported" not in what:
        assert "#" in first["got"]
        assert "#" not in first["expected"]


def test_a_bundle_without_digests_is_read_and_a_changed_result_in_it_is_found(
    demo: tuple[Shell, str], bundle: Path
) -> None:
    shell, _ = demo
    content = json.loads(bundle.read_text())
    del content["digests"]
    (shell.folder / "earlier.json").write_text(json.dumps(content))
    holder, name = _first(content, "a result")
    holder[name] = holder[name].replace("2026", "2025", 1)
    (shell.folder / "earlier-changed.json").write_text(json.dumps(content))

    assert shell.type("replay", "earlier.json").stdout.startswith("equal: ")
    changed = shell.type("replay", "earlier-changed.json")
    assert (changed.returncode, changed.stdout.partition("\n")[0].rpartition(": ")[2]) == (1, "its result in `transcripts`")


RECORDED: list[tuple[str, str, Any]] = [
    ("messages", "a message to its model (`task`)", lambda each: each["messages"][0]["content"][0]),
    ("replies", "a reply of its model", lambda each: each["messages"][1]["content"][0]),
]


@pytest.mark.parametrize(("what", "of"), [each[1:] for each in RECORDED], ids=[each[0] for each in RECORDED])
def test_a_changed_text_of_the_recording_is_found_with_its_place(
    demo: tuple[Shell, str], bundle: Path, what: str, of: Any
) -> None:
    shell, _ = demo
    content = json.loads(bundle.read_text())
    block = of(next(each for each in content["recording"]["executions"] if each["agent"] == "LogAnalyzer"))
    block["text"] = block["text"][:20] + "#" + block["text"][21:]
    (shell.folder / "said.json").write_text(json.dumps(content))

    done = shell.type("replay", "said.json", "--json")
    first = json.loads(done.stdout)["first_difference"]
    assert (done.returncode, first["what"]) == (1, what)
    assert first["got"] == first["expected"][:20] + "#" + first["expected"][21:]


@pytest.mark.parametrize("part", ["result", "whole"])
def test_a_change_of_a_result_that_was_cut_is_found_with_its_place(
    demo: tuple[Shell, str], bundle: Path, part: str
) -> None:
    shell, _ = demo
    content = json.loads(bundle.read_text())
    del content["digests"]
    call = _upstream_call(content)
    call["whole"] = call["result"] + "and more"
    call["digest"] = digest([call["result"], call["whole"]])
    pages = content["transcripts"].values()
    calls = [each for page in pages for message in page["messages"] for each in message["calls"]]
    next(each for each in calls if each["id"] == call["id"])["result"] = call["whole"]
    call[part] = call[part].replace("2026", "20#6", 1)
    (shell.folder / "cut.json").write_text(json.dumps(content))

    first = json.loads(shell.type("replay", "cut.json", "--json").stdout)["first_difference"]
    assert (first["call_id"], first["what"]) == (call["call_id"], "its result")
    assert ("2026" in first["expected"], "20#6" in first["got"]) == (True, True)


INPUTS = [("tool", "logs.state"), ("error_type", "tool_error"), ("status", "failed"), ("effect", "write")]


@pytest.mark.parametrize(("name", "value"), INPUTS, ids=[name for name, _ in INPUTS])
def test_a_changed_field_of_a_recorded_call_is_found(demo: tuple[Shell, str], bundle: Path, name: str, value: str) -> None:
    shell, _ = demo
    content = json.loads(bundle.read_text())
    call = _upstream_call(content)
    before, call[name] = call[name], value
    (shell.folder / "call.json").write_text(json.dumps(content))

    done = shell.type("replay", "call.json", "--json")
    first = json.loads(done.stdout)["first_difference"]
    assert (done.returncode, first["call_id"], first["what"]) == (1, call["call_id"], f"its `{name}`")
    assert (first["expected"], first["got"]) == (before, value)


def test_changed_tokens_stop_reasons_and_deliveries_of_the_recording_are_found(
    demo: tuple[Shell, str], bundle: Path
) -> None:
    shell, _ = demo
    for name, value in (("input_tokens", 7), ("output_tokens", 8), ("stop_reason", "max_tokens"), ("pricing", "free")):
        content = json.loads(bundle.read_text())
        execution = next(each for each in content["recording"]["executions"] if each["agent"] == "LogAnalyzer")
        execution["messages"][1]["reply"][name] = value
        (shell.folder / "reply.json").write_text(json.dumps(content))
        told = json.loads(shell.type("replay", "reply.json", "--json").stdout)
        assert told["equal"] is False, name
        assert told["first_difference"]["execution_id"] == execution["id"], name


BROKEN = [
    (lambda content: content["recording"].update(version=2), "the recording has version 2, this Outrider reads 1"),
    (lambda content: content.update(version=2), "has version 2, this Outrider reads 1"),
    (lambda content: content.update(version="1"), 'its `version` is `"1"`, not `1`'),
    (lambda content: content.update(version=True), "its `version` is `true`, not `1`"),
    (lambda content: content.pop("version"), "its `version` is `null`, not `1`"),
    (lambda content: content["recording"]["executions"][1].pop("agent"), "`executions[1].agent`: field required"),
    (lambda content: content["recording"]["executions"][0].update(more=1), "`executions[0].more`: extra inputs"),
    (
        lambda content: content["recording"]["executions"][0]["messages"][0].update(role="system"),
        "`executions[0].messages[0].role`",
    ),
    (lambda content: content["recording"]["executions"][2].update(id="../../etc"), "`executions[2].id` is not an id"),
    (lambda content: content["recording"]["executions"].pop(1), "parent_execution_id` names no execution before it"),
    (lambda content: content["recording"].update(root="0" * 37), "parent_execution_id` names no execution"),
    (
        lambda content: content["recording"]["executions"][1]["messages"][1]["content"][0].pop("text"),
        "`executions[1].messages[1].content[0]` is not a block of a message",
    ),
    (
        lambda content: content["recording"]["executions"][1]["result"].update(errors="x"),
        "`executions[1].result.errors` is not a list of errors",
    ),
    (
        lambda content: next(iter(content["recording"]["configurations"].values()))["config"].update(models=5),
        "its configuration cannot be restored",
    ),
    (lambda content: content.pop("recording"), "has no `recording`"),
    (lambda content: content.update(format="zip"), "its `format` is not `outrider-bundle`"),
]


@pytest.mark.parametrize(("broken", "said"), BROKEN, ids=[said[:30] for _, said in BROKEN])
def test_a_broken_bundle_is_refused_with_its_field(demo: tuple[Shell, str], bundle: Path, broken: Any, said: str) -> None:
    shell, _ = demo
    content = json.loads(bundle.read_text())
    broken(content)
    (shell.folder / "broken.json").write_text(json.dumps(content))

    done = shell.type("replay", "broken.json")
    assert done.returncode == 2, done.stdout
    assert said in done.stderr


def test_a_file_name_that_no_file_can_have_is_passed_over(demo: tuple[Shell, str], bundle: Path) -> None:
    shell, _ = demo
    content = json.loads(bundle.read_text())
    names = ("a\0b", "x" * 5_000, "../../outside")
    content["recording"]["executions"][0]["result"]["artifacts"] = [{"path": name} for name in names]
    (shell.folder / "names.json").write_text(json.dumps(content))
    done = shell.type("replay", "names.json")

    assert (done.returncode, done.stdout.partition(":")[0]) == (1, "different")
    assert "internal" not in done.stderr


def test_no_program_that_a_bundle_names_is_started(demo: tuple[Shell, str], bundle: Path) -> None:
    shell, _ = demo
    content = json.loads(bundle.read_text())
    trap = shell.folder / "started"
    for body in content["recording"]["configurations"].values():
        for server in body["config"]["mcp_servers"].values():
            server["command"] = ["touch", str(trap)]
    (shell.folder / "trap.json").write_text(json.dumps(content))

    assert shell.type("replay", "trap.json").returncode == 0
    assert not trap.exists()


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, -signal.SIGHUP)])
def test_a_replay_that_is_stopped_leaves_nothing_behind(
    demo: tuple[Shell, str], bundle: Path, tmp_path: Path, stop: signal.Signals, code: int
) -> None:
    shell, _ = demo
    with shell.start("replay", str(bundle), TMPDIR=str(tmp_path)) as running:
        until = time.monotonic() + 20
        while not list(tmp_path.glob("outrider-replay-*/replay.db")):
            assert running.poll() is None
            assert time.monotonic() < until
        running.send_signal(stop)
        answer, told = running.communicate(timeout=20)

    assert (running.returncode, answer, told) == (code, "", "")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_sent_where_a_bundle_names_an_address(demo: tuple[Shell, str], bundle: Path) -> None:
    shell, _ = demo
    content = json.loads(bundle.read_text())
    with socket.create_server(("127.0.0.1", 0)) as receiver:
        receiver.setblocking(False)
        endpoint = f"http://127.0.0.1:{receiver.getsockname()[1]}"
        for body in content["recording"]["configurations"].values():
            body["config"]["telemetry"] = {"enabled": True, "endpoint": endpoint, "content": True}
        (shell.folder / "sends.json").write_text(json.dumps(content))

        assert shell.type("replay", "sends.json").returncode == 0
        with pytest.raises(BlockingIOError):
            receiver.accept()


def test_the_page_names_no_address_and_no_text_ends_its_data(demo: tuple[Shell, str]) -> None:
    shell, identifier = demo
    assert shell.type("export", identifier, "--html", "demo.html").returncode == 0
    page = (shell.folder / "demo.html").read_text()
    data = page.partition('<script type="application/json" id="bundle">')[2].partition("</script>")[0]

    assert "<" not in data
    assert json.loads(data)["id"] == identifier
    assert "recording" not in json.loads(data)
    assert re.search(r'(?:src|href)="(?!data:)', page.replace(data, "")) is None
    assert "default-src 'none'; script-src 'sha256-" in page


def test_two_trees_are_compared_and_differ_by_their_exit(demo: tuple[Shell, str]) -> None:
    shell, identifier = demo
    ids = [row["id"] for row in shell.rows("select id from executions order by id")]
    same, other = shell.type("diff", identifier, identifier), shell.type("diff", ids[2], ids[3])

    assert (same.returncode, same.stdout.splitlines()[0].split(":")[0]) == (0, "equal")
    assert (other.returncode, other.stdout.splitlines()[0].split(":")[0]) == (1, "different")
    assert json.loads(shell.type("diff", ids[2], ids[3], "--json").stdout)["equal"] is False


def test_a_part_of_a_tree_is_no_bundle_and_an_unknown_file_is_not_an_id(demo: tuple[Shell, str]) -> None:
    shell, identifier = demo
    part = shell.rows("select id from executions where parent_execution_id is not null")[0]["id"]
    inside, absent = shell.type("export", part, "--json", "part.json"), shell.type("replay", "absent.json")

    assert (inside.returncode, absent.returncode) == (2, 4)
    assert f"outrider export {identifier}" in inside.stderr
