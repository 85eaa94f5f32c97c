"""Real servers under real executions: what they return arrives, is recorded under its name, and nothing is left running."""

import json
import os
import signal

from runner.llm.protocol import Request
from tests.support.models import Turn, call, say
from tests.support.reading import dispatch, shown
from tests.support.requirement import requirement
from tests.support.served_shell import free_port
from tests.support.upstream_specs import ended, servers_running
from tests.third_party.listening import listening
from tests.third_party.place import LEGACY, MODERN, Place, commit, installed, recorded, told


@requirement("S2-TN-1", "S2-CX-3", "S2-CX-10")
async def test_times_and_history_come_from_servers_of_the_new_protocol(place: Place) -> None:
    commit(place.repository, "Halve the connection pool")
    convert = call("time__convert_time", source_timezone="Etc/UTC", time="12:00", target_timezone="Asia/Tokyo")
    log = call("git__git_log", repo_path=str(place.repository), max_count=1)
    write = call("git__git_create_branch", repo_path=str(place.repository), branch_name="mine")

    async with place.service({"Historian": [convert + log + write, say("done")]}) as service:
        ended = await service.run("Historian")

        assert ended.status == "completed"
        offered = {tool.name for tool in service.model.requests[0].tools}
        assert {"time__get_current_time", "time__convert_time", "git__git_log", "git__git_diff_staged"} <= offered
        assert not {"git__git_commit", "git__git_create_branch", "git__git_reset"} & offered
        converted, history, refused = told(service.model.requests[1])
        assert json.loads(converted)["time_difference"] == "+9.0h"
        assert "Halve the connection pool" in history
        assert "there is no tool `git__git_create_branch`" in refused
        rows = recorded(service)
        expected = {"effect": "read_only", "status": "completed", "is_error": 0, "error_type": None}
        assert expected.items() <= rows["time.convert_time"].items()
        assert {**expected, "server": "git", "result": history}.items() <= rows["git.git_log"].items()
    assert place.protocols() == {"time": [MODERN], "git": [MODERN]}


@requirement("S2-CX-6")
async def test_a_file_server_reads_inside_its_root_and_refuses_outside(place: Place) -> None:
    (place.notes / "runbook.txt").write_text("restart the pool, größer", encoding="utf-8")
    secret = place.folder / "secret.txt"
    secret.write_text("CANARY", encoding="utf-8")
    inside = call("files__read_text_file", path=str(place.notes / "runbook.txt"))
    outside = call("files__read_text_file", path=str(place.notes / ".." / "secret.txt"))

    async with place.service({"Librarian": [inside + outside, say("done")]}) as service:
        await service.run("Librarian")

        text, refused = told(service.model.requests[1])
        assert text == "restart the pool, größer"
        assert "outside allowed directories" in refused
        assert "CANARY" not in refused
        errors = service.sql("select is_error, error_type, status from tool_calls order by position")
        assert [(row["is_error"], row["error_type"]) for row in errors] == [(0, None), (1, "tool_error")]
    assert place.protocols() == {"files": [LEGACY], "memory": [LEGACY]}


async def test_a_killed_server_is_started_again_and_still_knows_what_it_was_told(place: Place) -> None:
    pool = {"name": "pool", "entityType": "cause", "observations": ["halved at 14:05"]}

    async def kill_then_read(_: Request) -> Turn:
        victims = [process for process in servers_running() if "mcp-server-memory" in " ".join(process.cmdline())]
        assert len(victims) == 1
        victims[0].send_signal(signal.SIGKILL)
        assert await ended(victims)
        return call("memory__read_graph")

    script = [call("memory__create_entities", entities=[pool]), kill_then_read, call("memory__read_graph"), say("done")]
    async with place.service({"Librarian": script}) as service:
        await service.run("Librarian")

        created, cut_off, graph = (told(request)[0] for request in service.model.requests[1:])
        assert json.loads(created) == [pool]
        assert "pool" in cut_off or "upstream `memory` was ended by SIGKILL" in cut_off  # at most one call notices
        assert json.loads(graph) == {"entities": [pool], "relations": []}
        assert [recorded(service)[tool]["effect"] for tool in ("memory.create_entities", "memory.read_graph")] == [
            "at_most_once",
            "read_only",
        ]
    assert place.protocols() == {"files": [LEGACY], "memory": [LEGACY, LEGACY]}


SHAPES = (
    call("everything__echo", message="hi there"),
    call("everything__get-sum", a=2, b=40),
    call("everything__get-tiny-image"),
    call("everything__get-annotated-message", messageType="error", includeImage=True),
    call("everything__get-structured-content", location="Chicago"),
    call("everything__get-resource-links", count=2),
    call("everything__get-resource-reference", resourceType="Text", resourceId=1),
    call("everything__trigger-long-running-operation", duration=0.5, steps=2),
    call("everything__get-sum", a="two", b=40),
)


async def shapes(place: Place, *, over_http: bool) -> list[int]:
    """Ask for every shape of result and look at what arrives; which of them are errors."""
    turn = sum(SHAPES, Turn())
    async with place.service({"Tester": [turn, say("done")]}, over_http=over_http) as service:
        await service.run("Tester")

        answers = told(service.model.requests[1])
        echo, added, image, annotated, structured, links, resource, long, wrong = answers
        assert echo == "Echo: hi there"
        assert added == "The sum of 2 and 40 is 42."
        assert "[image image/png, " in image
        assert "Error: Operation failed" in annotated
        assert json.loads(structured).keys() == {"temperature", "conditions", "humidity"}
        assert links.count("[link to ") == 2
        assert "[resource demo://resource/" in resource
        assert long == "Long running operation completed. Duration: 0.5 seconds, Steps: 2."
        assert "Invalid arguments" in wrong
        rows = service.sql("select server, effect, is_error, result from tool_calls order by position")
        assert [row["result"] for row in rows] == answers
        assert {(row["server"], row["effect"]) for row in rows} == {("everything", "at_most_once")}
    assert place.protocols() == {"everything": [LEGACY]}
    return [row["is_error"] for row in rows]


@requirement("S2-CX-4")
async def test_every_shape_of_result_arrives_or_is_mentioned(place: Place) -> None:
    assert await shapes(place, over_http=False) == [0] * 8 + [1]


@requirement("S2-CX-4")
async def test_every_shape_of_result_arrives_over_http_with_sessions(place: Place) -> None:
    port = str(free_port())
    place.environ["EVERYTHING_URL"] = f"http://127.0.0.1:{port}/mcp"
    command = [*installed("node_modules/.bin/mcp-server-everything"), "streamableHttp"]
    async with listening(command, {"PATH": os.environ["PATH"], "PORT": port}, b"listening on port"):
        assert await shapes(place, over_http=True) == [0] * 8 + [1]


async def test_one_tree_uses_servers_of_both_protocols_at_once(place: Place) -> None:
    (place.notes / "runbook.txt").write_text("restart the pool", encoding="utf-8")
    commit(place.repository, "Halve the connection pool")
    scripts = {
        "Lead": [dispatch("Historian") + dispatch("Librarian"), say("waiting"), lambda request: say(shown(request))],
        "Historian": [call("git__git_show", repo_path=str(place.repository), revision="HEAD"), repeat],
        "Librarian": [call("files__read_text_file", path=str(place.notes / "runbook.txt")), repeat],
    }
    async with place.service(scripts) as service:
        ended = await service.run("Lead")

        assert ended.result is not None
        assert "Halve the connection pool" in ended.result.text
        assert "restart the pool" in ended.result.text
    assert place.protocols() == {"time": [MODERN], "git": [MODERN], "files": [LEGACY], "memory": [LEGACY]}


def repeat(request: Request) -> Turn:
    """Say what the tools said."""
    return say("\n".join(told(request)))
