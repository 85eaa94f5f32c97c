"""Workspaces: folders that agents share, and the tools over their files."""

from __future__ import annotations

import fcntl
import os
from contextlib import closing
from functools import reduce
from pathlib import Path

import anyio
import pytest

from db.store.engine import sqlite_library
from runner.llm.protocol import Request
from runner.service.order import Order
from runner.workspace import sandbox
from tests.runner.prompt.filed import CONFIG, SECTION, edit, files, look, made, write
from tests.runner.resume.resuming import after_a_stop
from tests.runner.strategies.iterate.iterated import config as iterating
from tests.runner.strategies.iterate.iterated import done, finished, task
from tests.support.models import Turn, gate, hang, say, shared
from tests.support.reading import answer, results, text_of
from tests.support.requirement import requirement
from tests.support.service import Bench, bench


@pytest.fixture(autouse=True)
def source(tmp_path: Path) -> Path:
    """A folder with code."""
    folder = tmp_path / "src"
    (folder / "deep").mkdir(parents=True)
    (folder / "main.py").write_text("import os\nprint('Hello')\n", encoding="utf-8")
    (folder / "deep" / "notes.md").write_bytes("# Notes\r\nhello again\r\nünïcode hello\r\n".encode())
    (folder / "image.png").write_bytes(b"\x89PNG\0\xff")
    return folder


async def shown(service: Bench, agent: str, *turns: Turn) -> Request:
    """Make calls all at once; the request that shows their results."""
    service.model.scripts[agent] = [reduce(lambda one, other: one + other, turns), say("done")]
    ended = await service.run(agent)
    assert ended.status == "completed"
    return service.model.of(ended.id)[1]


def refusals(request: Request) -> list[str]:
    """What the results say that are errors."""
    return [text_of(block) for block in results(request) if block.get("is_error")]


async def test_what_one_agent_writes_into_a_workspace_the_next_one_reads(tmp_path: Path) -> None:
    scripts = {
        "Writer": [write("facts/tea.json", '{"kind": "green"}', "cache") + write("index.md", "# Tea"), say("cached")],
        "Reader": [look("read", "cache", path="facts/tea.json") + look("list", "cache", recursive=True), say("read it")],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        ended = await service.run("line")

        assert ended.status == "completed"
        seen = service.model.of("Reader")[1]
        assert answer(seen)["text"] == '{"kind": "green"}'
        assert [each["path"] for each in answer(seen, 1)["entries"]] == ["facts", "facts/tea.json"]
        assert (tmp_path / ".cache" / "facts" / "tea.json").read_text() == '{"kind": "green"}'
        assert (tmp_path / "docs" / "index.md").read_text() == "# Tea"
        assert made(ended) == files("cache/facts/tea.json", "docs/index.md")


@requirement("S3-OP-9", "S3-BP-5")
async def test_the_three_components_of_an_iteration_share_its_workspaces(tmp_path: Path) -> None:
    config = iterating(
        "objective: Describe the code, completer: Editor",
        "workspaces: [source, cache],",
        "  Editor: {workspaces: [docs, {name: source, path: elsewhere, description: Its own.}]}\n" + SECTION,
    )
    scripts = {
        "TaskPlanner": shared(
            look("list"), task("read main.py"), task("sum up"), look("read", "cache", path="notes/main.md"), finished()
        ),
        "TaskWorker": shared(
            look("read", path="main.py") + write("notes/main.md", "it says hello", "cache"), done("read"),
            look("read", "cache", path="notes/main.md"), done("summed up"),
        ),
        "Editor": [look("read", "cache", path="notes/main.md") + write("index.md", "Hello."), say("written")],
    }  # fmt: skip
    async with bench(tmp_path, config, scripts) as service:
        ended = await service.run("Reporter", "")

        assert ended.status == "completed"
        planner, worker, editor = (service.model.of(agent) for agent in ("TaskPlanner", "TaskWorker", "Editor"))
        assert [answer(request)["text"] for request in (planner[4], worker[3], editor[1])] == ["it says hello"] * 3
        for request in (planner[0], worker[0], editor[0]):
            assert '<workspace name="cache" access="read_write">Results, ' in request.system
        assert '<workspace name="source" access="read_only">The code.</workspace>' in worker[0].system
        assert '<workspace name="source" access="read_write">Its own.</workspace>' in editor[0].system
        assert made(ended) == files("cache/notes/main.md", "docs/index.md")


async def test_an_agent_is_told_its_workspaces_and_has_the_tools_that_go_with_them(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"*": [say("done")]}) as service:
        for agent in ("Writer", "Reader", "Own", "Bare", "Merger"):
            await service.run(agent)

        asked = {agent: service.model.of(agent)[0] for agent in ("Writer", "Reader", "Own", "Bare", "Merger")}
        reading, writing = {"list_files", "read_file", "search_files"}, {"write_file", "edit_file"}
        both = reading | writing
        tools = {agent: {tool.name for tool in request.tools} & both for agent, request in asked.items()}
        assert tools == {"Writer": both, "Reader": reading, "Own": both, "Bare": set(), "Merger": set()}
        assert (
            "<workspaces>\n"
            '<workspace name="docs" access="read_write">What is published.</workspace>\n'
            '<workspace name="cache" access="read_write">Results, <~workspace> for those that follow.</workspace>\n'
            '<workspace name="source" access="read_only">The code.</workspace>\n'
            "</workspaces>"
        ) in asked["Writer"].system
        assert '<workspace name="cache" access="read_only">To look at.</workspace>' in asked["Reader"].system
        assert "workspace" not in asked["Bare"].system + asked["Merger"].system
        effects = {tool.name: tool.effect for tool in asked["Writer"].tools if tool.name in both}
        assert effects == {**dict.fromkeys(reading, "read_only"), "write_file": "idempotent", "edit_file": "at_most_once"}


async def test_files_are_listed_searched_and_read_in_parts(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {}) as service:
        listed = await shown(
            service, "Writer", look("list"), look("list", recursive=True, limit=2),
            look("list", recursive=True, pattern="*.md"), look("list", path="deep", offset=1),
            look("list", "docs"), look("list", path="missing"),
        )  # fmt: skip
        top = [{"path": "deep", "type": "folder"}, {"path": "image.png", "type": "file", "size": 6}]
        assert answer(listed)["entries"] == [*top, {"path": "main.py", "type": "file", "size": 25}]
        assert answer(listed, 1) == {"entries": top, "total": 4, "next_offset": 2}
        assert [each["path"] for each in answer(listed, 2)["entries"]] == ["deep/notes.md"]
        assert answer(listed, 3) == {"entries": [], "total": 1, "next_offset": None}
        assert answer(listed, 4)["entries"] == []  # nobody has written there
        assert refusals(listed) == ["error: no such file or folder\nhint: call `list_files`"]

        found = await shown(
            service, "Writer", look("search", query="hello"), look("search", query="HELLO", ignore_case=True, limit=2),
            look("search", query="^h.llo", regex=True, path="deep"), look("search", query="o", pattern="*.py", path="deep"),
            look("search", query="print", path="main.py"), look("search", query="x", path="image.png"),
        )  # fmt: skip
        lines = [("deep/notes.md", 2), ("deep/notes.md", 3)]
        assert [(each["path"], each["line"]) for each in answer(found)["matches"]] == lines
        assert answer(found)["unread_files"] == 1
        assert answer(found, 1)["next_offset"] == 2
        (only,) = answer(found, 2)["matches"]
        assert only == {"path": "deep/notes.md", "line": 2, "offset": 9, "text": "hello again"}
        assert answer(found, 3)["matches"] == []
        assert [each["text"] for each in answer(found, 4)["matches"]] == ["print('Hello')"]
        assert refusals(found) == ["error: it is not UTF-8 text\nhint: use these tools for text only"]

        read = await shown(service, "Writer", look("read", path="deep/notes.md", offset=only["offset"], limit=5))
        assert answer(read) == {"text": "hello", "offset": 9, "total": 37, "next_offset": 14}


async def test_a_long_line_is_shown_around_its_match(tmp_path: Path, source: Path) -> None:
    (source / "data.json").write_text("x" * 5_000 + "needle" + "y" * 5_000, encoding="utf-8")
    async with bench(tmp_path, CONFIG, {}) as service:
        found = await shown(service, "Writer", look("search", query="needle"))
        (match,) = answer(found)["matches"]
        assert "needle" in match["text"]
        assert len(match["text"]) == 300
        read = await shown(service, "Writer", look("read", path="data.json", offset=match["offset"], limit=300))
        assert answer(read)["text"] == match["text"]


async def test_a_text_is_replaced_where_it_is_once_or_everywhere_if_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    file = tmp_path / "docs" / "a.md"
    file.write_bytes(b"one\r\ntwo\r\none\r\n")
    file.chmod(0o640)
    async with bench(tmp_path, CONFIG, {}) as service:
        request = await shown(
            service, "Writer", edit("a.md", "three", "3"), edit("a.md", "one", "1"), edit("missing.md", "a", "b"),
            edit("main.py", "os", "sys", "source"),
        )  # fmt: skip
        said = [each.partition("\n")[0] for each in refusals(request)]
        assert said == [
            "error: the old text is not in the file",
            "error: the old text is in the file 2 times",
            "error: no such file or folder",
            "error: the workspace `source` is read-only",
        ]
        assert file.read_bytes() == b"one\r\ntwo\r\none\r\n"

        await shown(service, "Writer", edit("a.md", "two\none", "2\nlast"))
        request = await shown(service, "Writer", edit("a.md", "\n", "!\n", all=True))
        assert answer(request) == {"written": "docs/a.md", "replaced": 3}
        assert file.read_bytes() == b"one!\r\n2!\r\nlast!\r\n"
        assert file.stat().st_mode & 0o777 == 0o640
        assert [each.name for each in file.parent.iterdir()] == ["a.md"]


async def test_edits_of_one_file_at_the_same_time_are_all_in_it(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    words = [f"word{number:02}" for number in range(30)]
    (tmp_path / "docs" / "a.md").write_text(" ".join(words), encoding="utf-8")
    async with bench(tmp_path, CONFIG, {}) as service:
        await shown(service, "Writer", *(edit("a.md", word, word.upper()) for word in words))

    assert (tmp_path / "docs" / "a.md").read_text() == " ".join(words).upper()


async def test_no_execution_waits_for_ever_for_a_process_that_changes_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "WAIT_SECONDS", 0.05)
    (tmp_path / "docs").mkdir()
    descriptor = os.open(tmp_path / "docs", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        async with bench(tmp_path, CONFIG, {}) as service:
            [refusal] = refusals(await shown(service, "Writer", write("a.md")))
    finally:
        os.close(descriptor)
    assert "another process is changing files in this folder" in refusal
    assert not (tmp_path / "docs" / "a.md").exists()


async def test_what_is_too_long_or_no_text_is_neither_written_nor_read(tmp_path: Path, source: Path) -> None:
    (source / "long.txt").write_bytes(b"x" * 2_000_001)
    async with bench(tmp_path, CONFIG, {}) as service:
        request = await shown(
            service, "Writer", look("read", path="long.txt"), look("read", path="image.png"), look("read", path="deep"),
            write("a.md", "x\0y"), write("b.md", "ü" * 1_000_001), look("read", path=""),
        )  # fmt: skip
        kinds = service.sql("select error_type from tool_calls order by position")
        assert [row["error_type"] for row in kinds] == [
            "too_large", "no_text", "not_a_file", "no_text", "too_large", "not_a_file",
        ]  # fmt: skip
        assert len(refusals(request)) == 6
    assert not (tmp_path / "docs" / "a.md").exists()


async def test_secrets_of_the_service_are_masked_in_what_files_say(tmp_path: Path, source: Path) -> None:
    (source / "leak.txt").write_text("token = opensesame-1234\n", encoding="utf-8")
    config = CONFIG + 'mcp_servers: {vault: {command: ["true"], env: {TOKEN: "${VAULT}"}}}\n'
    async with bench(tmp_path, config, {}, environ={"VAULT": "opensesame-1234"}) as service:
        request = await shown(service, "Reader", look("read", path="leak.txt"), look("search", query="token"))
        texts = [text_of(block) for block in results(request)]
        assert all("token = " in text and "opensesame" not in text for text in texts)


# -- artifacts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
async def test_a_call_that_a_crash_cut_is_written_again_but_never_edited_again(tmp_path: Path, tool: str) -> None:
    (tmp_path / "docs").mkdir()
    file = tmp_path / "docs" / "a.md"
    file.write_text("x", encoding="utf-8")
    turn = write("a.md", "xx") if tool == "write_file" else edit("a.md", "x", "xx")
    async with bench(tmp_path, CONFIG, {"Writer": [turn, hang()]}) as service:
        started = await service.dispatcher.start(Order("Writer", "write"))
        with anyio.fail_after(10):
            await service.model.started("Writer", 2)
    library = sqlite_library()
    with closing(library.connect(tmp_path / "outrider.db")) as connection:  # as if its result had not come to be stored
        connection.execute("update tool_calls set status = 'started', finished_at = null, result = null")
        connection.commit()

    async with after_a_stop(tmp_path, {"Writer": [say("done")]}, config=CONFIG) as service:
        ended = await service.ended(started.id)

        assert file.read_text() == "xx"
        (block,) = results(service.model.requests[0])
        assert bool(block.get("is_error")) == (tool == "edit_file")
        assert ("unknown" in text_of(block)) == (tool == "edit_file")
        assert made(ended) == (files("docs/a.md") if tool == "write_file" else [])


async def test_a_write_that_has_begun_is_over_before_its_execution_is(tmp_path: Path) -> None:
    """The folder is held by somebody else while the agent is told to stop."""
    (tmp_path / "docs").mkdir()
    holder = os.open(tmp_path / "docs", os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    begun = anyio.Event()
    async with bench(tmp_path, CONFIG, {"Writer": [gate(begun, write("a.md")), hang()]}) as service:
        started = await service.dispatcher.start(Order("Writer", "write"))
        begun.set()
        await service.until(lambda: service.sql("select 1 from tool_calls where status = 'started'"))
        await service.dispatcher.cancel(started.id, "tester", "enough")
        os.close(holder)
        ended = await service.ended(started.id)

        assert ended.status == "cancelled"
        assert made(ended) == (files("docs/a.md") if (tmp_path / "docs" / "a.md").exists() else [])
