"""Attempts to leave a workspace, through the tools a model has: none reads, lists, finds or changes anything outside."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pytest

from registry import WorkspaceSpec, restore
from runner.workspace.sandbox import PathRefused
from runner.workspace.workspace import FileSearch, Workspace
from tests.support.models import Turn, call, say
from tests.support.service import Bench, bench

SECRET = "the secret of the house"
CONFIG = """
workspaces: {files: {path: inside, description: to work in}, shelf: {path: inside, access: read_only}}
agents: {Intruder: {workspaces: [files, shelf]}}
"""

ABSOLUTE = [
    "/etc/passwd",
    "//etc/passwd",
    "/",
    "~",
    "~/x",
    "~root/x",
    "C:/x",
    "c:x",
    "\\\\server\\share",
]
UPWARDS = [
    *("..", "../", "../outside", "../outside/secret.txt", "./../outside/secret.txt", "notes/../../outside/secret.txt"),
    *("notes/./../../outside/secret.txt", "notes//..//..//outside/secret.txt", "missing/../../outside/secret.txt"),
    *("notes/..", "a.txt/../../outside/secret.txt", "../inside/../outside/secret.txt", "..//..//..//etc/passwd"),
    *(
        "..\\outside\\secret.txt",
        "notes\\..\\..\\outside\\secret.txt",
        "..\\/outside/secret.txt",
        "../" * 40 + "etc/passwd",
    ),
]
UNSEEN = [
    *("a.txt\0", "a.txt\0.md", "\0", "../outside/secret.txt\0.md", "notes/\n../x", "a\rb", "a\tb", "a\x1b[2Jb", "a\x7fb"),
    *("a\u200bb", "a\u202etxt.b", "\ufeffa.txt", "a\u2028b", "a\U000e0041b", "a\ue000b"),
]
LOOK_ALIKES = [
    *("．．/outside/secret.txt", "․․/outside/secret.txt", "‥/outside/secret.txt", "…/outside", "..／outside／secret.txt"),
    *("notes／..／..／outside", "．env", "﹒./x", "..\u2024/x", "a＼b", "﹨x"),
]
HIDDEN = [
    ".env",
    ".git/hooks/pre-commit",
    "notes/.secret",
    ".",
    "./.env",
    "...",
    ".../x",
    ".. ",
    "..;/x",
    ". ./x",
    "..%2foutside",
    "..%c0%af..%c0%afetc",
]
LONG = ["n" * 256, "é" * 128, "notes/" + "n" * 300, "d/" * 65 + "x", "n/" * 2_100 + "x", "x" * 4_090]
LINKS = [
    *("link.txt", "link_absolute.txt", "link_chain.txt", "link_inside.txt", "link_loop", "link_self", "link_up/secret.txt"),
    *("link_folder/secret.txt", "link_folder/new.txt", "link_folder/deep/new.txt", "link_folder/../link_folder/secret.txt"),
    *("link_root/etc/passwd", "notes/link/secret.txt", "link_inside_folder/b.txt", "link_proc/self/environ", "link_zero"),
    *("link_dangling", "link_config", "link_folder", "link_up"),
]
NO_FILES = ["pipe", "socket", "notes/pipe", "pipe/x", "socket/x", "a.txt/x", "a.txt/deep/x"]
ENCODED = ["%2e%2e/outside/secret.txt", "%2e%2e%2foutside", "%2Fetc%2Fpasswd", "file:///etc/passwd", "&#46;&#46;/x"]
LITERAL = ["$HOME/x", "${HOME}/x", "`id`", "$(id)", "{{ 7*7 }}", "-rf", "*", "a.txt;id", "|id", "con", "nul", "aux.txt"]

FORBIDDEN = [*ABSOLUTE, *UPWARDS, *UNSEEN, *LOOK_ALIKES, *HIDDEN, *LONG, *LINKS, *NO_FILES]
"""Paths of which none may be read or written."""
HARMLESS = [*ENCODED, *LITERAL]
"""Paths that are names like any other: nothing in them means anything."""


@dataclass(frozen=True)
class World:
    """A workspace, and what lies around it."""

    root: Path

    @property
    def inside(self) -> Path:
        return self.root / "inside"

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    def seen(self) -> dict[str, Any]:
        """Everything outside, and the links inside, as they are."""
        found = {str(each): each.read_bytes() if each.is_file() else None for each in sorted(self.outside.rglob("*"))}
        links = {str(each): str(each.readlink()) for each in sorted(self.inside.rglob("*")) if each.is_symlink()}
        return {**found, **links, "config": (self.root / "config.yaml").read_bytes()}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A folder with every trap that a disk can hold, beside one that is nobody's business."""
    made = World(tmp_path)
    for folder in (made.outside / "deep", made.inside / "notes", made.inside / ".git" / "hooks"):
        folder.mkdir(parents=True)
    (tmp_path / "config.yaml").write_text(CONFIG)
    (made.outside / "secret.txt").write_text(SECRET)
    for name in ("a.txt", "notes/b.txt"):
        (made.inside / name).write_text("harmless")
    for name in (".env", "notes/.secret", ".git/hooks/pre-commit"):
        (made.inside / name).write_text(SECRET)
    links = {
        "link.txt": "../outside/secret.txt", "link_absolute.txt": str(made.outside / "secret.txt"),
        "link_chain.txt": "link.txt", "link_inside.txt": "a.txt", "link_self": "link_self", "link_loop": "link_loop_back",
        "link_loop_back": "link_loop", "link_up": "..", "link_folder": "../outside", "link_root": "/",
        "notes/link": "../../outside", "link_inside_folder": "notes", "link_proc": "/proc", "link_zero": "/dev/zero",
        "link_dangling": "../outside/new.txt", "link_config": "../config.yaml",
    }  # fmt: skip
    for name, target in links.items():
        (made.inside / name).symlink_to(target)
    for name in ("pipe", "notes/pipe"):
        os.mkfifo(made.inside / name)
    listener = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(made.inside)  # the path of a socket must be short
    try:
        listener.bind("socket")
    finally:
        os.chdir(here)
    yield made
    listener.close()


def calls_with(path: str) -> list[Turn]:
    """Every call that takes a path."""
    return [
        call("read_file", workspace="files", path=path),
        call("write_file", workspace="files", path=path, content="pwned"),
        call("edit_file", workspace="files", path=path, old_text="e", new_text="pwned", all=True),
        call("search_files", workspace="files", path=path, query="e"),
        call("list_files", workspace="files", path=path, recursive=True),
    ]


async def outcomes(service: Bench, turns: list[Turn]) -> list[dict[str, Any]]:
    """What became of calls, made all at once."""
    service.model.scripts["Intruder"] = [reduce(lambda one, other: one + other, turns), say("done")]
    ended = await service.run("Intruder")
    assert ended.status == "completed", ended.error
    query = "select tool, is_error, error_type, result from tool_calls where execution_id = ? order by position"
    rows = service.sql(query, ended.id)
    assert len(rows) == len(turns)
    return rows


async def test_no_path_leads_out_of_a_workspace(world: World) -> None:
    before = world.seen()
    async with bench(world.root, CONFIG, {}) as service:
        reached = [
            (row["tool"], path)
            for start in range(0, len(FORBIDDEN), 20)
            for path, row in zip(
                [path for path in FORBIDDEN[start : start + 20] for _ in range(5)],
                await outcomes(service, [turn for path in FORBIDDEN[start : start + 20] for turn in calls_with(path)]),
                strict=True,
            )
            if not row["is_error"]
        ]

        # A dot is the workspace itself: it can be looked at.
        assert reached == [("search_files", "."), ("list_files", ".")]
        assert len(FORBIDDEN) * 5 > 400
        assert service.sql("select count(*) as n from tool_calls where result like ?", f"%{SECRET}%") == [{"n": 0}]
        unexplained = service.sql(
            "select tool, arguments from tool_calls where is_error and error_type in ('internal', 'tool_error')"
        )
        assert unexplained == []
    assert world.seen() == before
    assert (world.inside / "a.txt").read_text() == "harmless"


async def test_a_name_that_means_something_elsewhere_is_a_name_like_any_other(world: World) -> None:
    before = world.seen()
    async with bench(world.root, CONFIG, {}) as service:
        turns = [call("write_file", workspace="files", path=path, content=f"text of {path}") for path in HARMLESS]
        rows = await outcomes(service, turns)

        assert not any(row["is_error"] for row in rows)
        for path in HARMLESS:
            assert (world.inside / path).read_text() == f"text of {path}"
    assert world.seen() == before


async def test_what_a_list_or_a_search_shows_lies_in_the_workspace_whatever_is_asked_for(world: World) -> None:
    patterns = [
        "*",
        "**",
        "**/*",
        "*/*",
        "../*",
        "/*",
        ".*",
        "link*/*",
        "[!x]*",
        "[",
        "*" * 200,
        "{a,b}",
        "\0",
        "[a-\uffff]*",
        "?" * 199,
    ]
    queries = [SECRET, "root:", ".", "", "x" * 500]
    async with bench(world.root, CONFIG, {}) as service:
        lists = [call("list_files", workspace="files", recursive=True, pattern=pattern) for pattern in patterns]
        searches = [
            call("search_files", workspace="files", query=query, pattern=pattern, regex=regex)
            for query in queries
            for pattern in ("", "*", "link*", ".*")
            for regex in (False, True)
        ]
        rows = await outcomes(service, [*lists, *searches])

        told = "\n".join(row["result"] for row in rows)
        assert SECRET not in told
        assert "root:" not in told
        assert all(word not in told for word in ("link", "outside", ".env", "pipe", "socket", "secret"))
        assert '"path":"notes/b.txt"' in told


BOMBS = [
    *("(a|aa)+$", "(?:(?:a{1000}){1000}){1000}", "(?:a{60000}){60000}"),
    *("(", "[", "a{99999999999}", "(?P<n>a)(?P<n>b)", "(?<=a*)b", "\\", "*a", "(?z)", "(" * 250 + ")" * 250, "\\8"),
]


async def test_a_regular_expression_cannot_hold_up_the_service(world: World) -> None:
    (world.inside / "long.txt").write_text("a" * 60 + "b")
    async with bench(world.root, CONFIG, {}) as service:
        rows = await outcomes(service, [call("search_files", workspace="files", query=bomb, regex=True) for bomb in BOMBS])

        assert {row["error_type"] for row in rows} <= {None, "bad_pattern"}
        refused = {bomb: row["result"] for bomb, row in zip(BOMBS, rows, strict=True) if row["is_error"]}
        assert "takes longer than" in refused["(a|aa)+$"]
        assert "not valid" in refused["("]


async def test_a_workspace_that_is_read_only_is_not_written_to(world: World) -> None:
    async with bench(world.root, CONFIG, {}) as service:
        turns = [
            call("write_file", workspace="shelf", path="new.txt", content="pwned"),
            call("edit_file", workspace="shelf", path="a.txt", old_text="harmless", new_text="pwned"),
            call("write_file", workspace="elsewhere", path="new.txt", content="pwned"),
            call("write_file", workspace="../outside", path="new.txt", content="pwned"),
            call("write_file", workspace="", path="new.txt", content="pwned"),
        ]
        rows = await outcomes(service, turns)

        kinds = [row["error_type"] for row in rows]
        assert kinds == ["read_only", "read_only", "unknown_workspace", "unknown_workspace", "unknown_workspace"]
    assert not (world.inside / "new.txt").exists()
    assert (world.inside / "a.txt").read_text() == "harmless"


async def test_no_agent_rewrites_the_configuration_that_binds_it(tmp_path: Path) -> None:
    config = "agents: {Intruder: {workspaces: [{name: files, path: .}]}}\n"
    (tmp_path / "config.yaml").write_text(config)
    os.link(tmp_path / "config.yaml", tmp_path / "other.txt")
    async with bench(tmp_path, config, {}) as service:
        paths = ("config.yaml", "./config.yaml", "other.txt")
        turns = [call("write_file", workspace="files", path=path, content="agents: {}") for path in paths]
        edit = call("edit_file", workspace="files", path="config.yaml", old_text="Intruder", new_text="King")

        assert [row["error_type"] for row in await outcomes(service, [*turns, edit])] == ["forbidden"] * 4
    assert (tmp_path / "config.yaml").read_text() == config


async def test_neither_a_write_protected_file_nor_the_memory_is_overrun(tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text("mine")
    (tmp_path / "mine.md").chmod(0o444)
    (tmp_path / "long.md").write_text("a" * 1_900_000)
    async with bench(tmp_path, "agents: {Intruder: {workspaces: [{name: files, path: .}]}}\n", {}) as service:
        turns = [
            call("write_file", workspace="files", path="mine.md", content="yours"),
            call("edit_file", workspace="files", path="mine.md", old_text="mine", new_text="yours"),
            call(
                "edit_file", workspace="files", path="long.md", old_text="a", new_text="b" * 1_900_000, all=True
            ),  # 3.6 TB
        ]
        rows = await outcomes(service, turns)
        assert [row["error_type"] for row in rows] == ["forbidden", "forbidden", "too_large"]
    assert (tmp_path / "mine.md").read_text() == "mine"
    assert (tmp_path / "long.md").stat().st_size == 1_900_000


async def test_no_agent_rewrites_its_own_file_its_texts_or_the_rows_about_it(tmp_path: Path) -> None:
    texts = {
        "agents/Intruder.yaml": "workspaces: [{name: files, path: ..}]\n",
        "agents/worker.yaml": "strategy: iterate\niterate: {objective: {url: objective.md}}\n",
        "agents/objective.md": "Reach it.{% include 'rules.md' %}",
        "agents/rules.md": "Obey.",
    }
    (tmp_path / "agents").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    async with bench(tmp_path, "agents: [agents/Intruder.yaml, agents/worker.yaml]\n", {}) as service:
        paths = (*texts, "outrider.db", "outrider.db-wal")
        turns = [call("write_file", workspace="files", path=path, content="mine") for path in paths]
        rows = await outcomes(
            service, [*turns, call("write_file", workspace="files", path="agents/new.md", content="mine")]
        )
        assert [row["error_type"] for row in rows] == ["forbidden"] * 6 + [None]
        restored = restore(service.dispatcher.services.settings.snapshot, {})
        assert restored.parts == service.dispatcher.services.settings.parts
    assert {name: (tmp_path / name).read_text() for name in texts} == texts


OWN = (
    "outrider.db",
    "outrider.db-wal",
    "outrider.db-shm",
    "outrider.db-lock",
    "OUTRIDER.DB-LOCK",
    "linked.txt",
    "sign.txt",
)
NEW = (
    "outrider.db-journal",
    "Outrider.db-Journal",
    "outrider.db-owners/new",
    "outrider.db-owners/deep/new",
    "other.db-journal",
)
OTHERS = ("other.db", "other.db-wal", "other.db-lock", "other.db-owners/1-a")


def numbers(folder: Path) -> dict[Path, int]:
    """Which files stand under which names."""
    return {path: path.stat().st_ino for path in folder.rglob("*")}


async def test_no_agent_sees_or_changes_the_files_that_outrider_itself_works_with(tmp_path: Path) -> None:
    (tmp_path / "other.db-owners").mkdir()
    for name in OTHERS:
        (tmp_path / name).write_text(SECRET)
    (tmp_path / "notes.md").write_text("mine")
    async with bench(tmp_path, "agents: {Intruder: {workspaces: [{name: files, path: .}]}}\n", {}) as service:
        [owner] = (tmp_path / "outrider.db-owners").iterdir()
        os.link(tmp_path / "outrider.db-lock", tmp_path / "linked.txt")
        os.link(owner, tmp_path / "sign.txt")
        before = numbers(tmp_path)
        there = [*(each for each in OWN if (tmp_path / each).exists()), f"outrider.db-owners/{owner.name}", *OTHERS]
        attacks: list[Turn] = [call("read_file", workspace="files", path=path) for path in there]
        attacks += [call("search_files", workspace="files", path=path, query="s") for path in there]
        attacks += [call("write_file", workspace="files", path=path, content="mine") for path in (*there, *NEW)]
        attacks += [call("edit_file", workspace="files", path=path, old_text="s", new_text="t") for path in there]
        attacks += [call("list_files", workspace="files", path=path) for path in ("outrider.db-owners", "other.db-owners")]
        rows = await outcomes(service, attacks)
        assert [row for row in rows if row["error_type"] != "forbidden"] == []
        looks = await outcomes(
            service,
            [
                call("list_files", workspace="files", recursive=True),
                call("search_files", workspace="files", query="e", regex=False),
                call("search_files", workspace="files", query=SECRET),
            ],
        )
        seen = " ".join(row["result"] for row in looks[-3:])
        assert "notes.md" in seen
        for hidden in (".db", "linked", "sign", SECRET, "owners"):
            assert hidden not in seen.replace(f'"{SECRET}"', ""), hidden
        assert numbers(tmp_path) == before
        assert not any((tmp_path / name).exists() for name in NEW)


def test_outriders_own_folder_is_no_workspace_under_any_name(tmp_path: Path) -> None:
    (tmp_path / ".outrider" / "deep").mkdir(parents=True)
    (tmp_path / ".outrider" / "deep" / "a.txt").write_text(SECRET)
    (tmp_path / "link").symlink_to(tmp_path / ".outrider")
    for root in (".outrider", ".outrider/deep", "link", "link/deep"):
        workspace = Workspace(WorkspaceSpec("files", tmp_path / root))
        attempts: list[Callable[[], object]] = [
            partial(workspace.listing, "", "", recursive=True),
            partial(workspace.read, "a.txt"),
            partial(workspace.write, "b.txt", "x"),
            partial(workspace.search, FileSearch(SECRET, "deep")),
        ]
        for attempt in attempts:
            with pytest.raises(PathRefused, match="belongs to Outrider"):
                attempt()


def test_half_a_character_names_no_file(world: World) -> None:
    """No model can send one as JSON; a program that embeds the service might."""
    workspace = Workspace(WorkspaceSpec("files", world.inside))
    for path in ("a\ud800b", "a\udcffb", "\udc2e\udc2e/outside"):
        with pytest.raises(PathRefused):
            workspace.read(path)
        with pytest.raises(PathRefused):
            workspace.write(path, "x")
    with pytest.raises(PathRefused):
        workspace.write("half.txt", "\ud800")


def test_another_name_of_a_file_elsewhere_is_replaced_here_and_stays_as_it_was_there(world: World) -> None:
    os.link(world.outside / "secret.txt", world.inside / "same.txt")
    workspace = Workspace(WorkspaceSpec("files", world.inside))

    workspace.write("same.txt", "mine")
    workspace.edit("same.txt", "mine", "still mine", everywhere=False)

    assert (world.inside / "same.txt").read_text() == "still mine"
    assert (world.outside / "secret.txt").read_text() == SECRET


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_a_folder_that_is_swapped_for_a_link_meanwhile_leads_nowhere(world: World) -> None:
    """Somebody else swaps a folder for a link and back, as fast as the disk allows, while files in it are worked on."""
    (world.outside / "f.txt").write_text(SECRET)
    before = {each.name: each.read_text() for each in world.outside.iterdir() if each.is_file()}
    workspace, over = Workspace(WorkspaceSpec("files", world.inside)), threading.Event()

    def swap() -> None:
        folder = world.inside / "swap"
        while not over.is_set():
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(FileExistsError):  # made by a write meanwhile
                folder.symlink_to("../outside")
                folder.unlink()
            folder.mkdir(exist_ok=True)

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = {"done": 0, "refused": 0}
    try:
        for _ in range(200):
            for operation in (
                lambda: workspace.write("swap/f.txt", "mine"),
                lambda: workspace.read("swap/f.txt"),
                lambda: workspace.listing("swap", "", recursive=True).entries,
                lambda: workspace.search(FileSearch(SECRET)).found,
                lambda: workspace.edit("swap/f.txt", "mine", "mine", everywhere=True),
            ):
                try:
                    assert SECRET not in str(operation())
                    seen["done"] += 1
                except PathRefused:
                    seen["refused"] += 1
    finally:
        over.set()
        swapper.join()

    assert {each.name: each.read_text() for each in world.outside.iterdir() if each.is_file()} == before
    assert all(seen.values()), seen
