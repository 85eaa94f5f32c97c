"""The tutorials, typed as they stand: their files are written, their commands run, and their output is the page's."""

import re
import shlex
import subprocess
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.support.messages_api import messages_api, reply, text, tool_use
from tests.support.requirement import requirement
from tests.support.shell import Shell
from tests.support.sources import ROOT

PAGES = ROOT / "docs" / "tutorial"
FILE = re.compile(r"\b(?P<how>as|to) `(?P<name>[\w.]+)`:$")
BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def pattern_of(expected: str) -> re.Pattern[str]:
    """What the page shows as a pattern: a line of `…` is any lines, `…` inside a line anything there."""
    lines = [
        r"(?:.*\n)*" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n"
        for line in expected.splitlines()
    ]
    return re.compile("".join(lines))


def commands_of(block: str) -> list[tuple[str, str]]:
    """The commands of a block, each with what it is shown to print."""
    return [
        (part.split("\n", 1)[0], part.split("\n", 1)[1]) for part in re.split(r"^\$ ", block, flags=re.MULTILINE) if part
    ]


def type_into(shell: Shell, command: str, expected: str) -> None:
    """Run one command of the page."""
    program, *words = shlex.split(command)
    if program == "outrider":
        done = shell.type(*words)
    else:
        done = subprocess.run([program, *words], cwd=shell.folder, capture_output=True, text=True, timeout=60, check=False)
    shown = done.stdout if done.returncode == 0 else done.stderr
    assert pattern_of(expected).fullmatch(shown), (
        f"$ {command}\n{shown}{done.stderr}\nis not what the page shows:\n{expected}"
    )


def type_page(page: str, shell: Shell) -> int:
    """Write the files of a page and run its commands; how many there were."""
    ran = 0
    for block in BLOCK.finditer(page):
        if block["kind"] in ("yaml", "python"):
            file = FILE.search(page[: block.start()].rstrip())
            assert file is not None, "say into which file a block goes"
            with (shell.folder / file["name"]).open("w" if file["how"] == "as" else "a", encoding="utf-8") as written:
                written.write(block["text"])
        for command, expected in commands_of(block["text"]) if block["kind"] == "console" else ():
            type_into(shell, command, expected)
            ran += 1
    return ran


@requirement("S2-VA-12")
@pytest.mark.timeout(120)
def test_the_first_tutorial_works_as_it_stands(tmp_path: Path) -> None:
    assert type_page((PAGES / "first-agent.md").read_text(encoding="utf-8"), Shell(tmp_path)) > 8


@pytest.mark.timeout(120)
async def test_the_tutorial_with_a_server_of_ones_own_works_as_it_stands(tmp_path: Path) -> None:
    page = (PAGES / "own-server.md").read_text(encoding="utf-8")
    said = re.findall(r"^(?:I noted|One note) .*$", page, re.MULTILINE)
    answers = [
        reply(tool_use("notes__add_note", {"text": "the pool of inventory has 10 connections"})),
        reply(text(said[0])),
        reply(tool_use("notes__find_notes", {"word": "inventory"})),
        reply(text(said[1])),
    ]

    async with messages_api(*answers) as api:
        shell = Shell(tmp_path, {"ANTHROPIC_API_KEY": "a-key", "ANTHROPIC_BASE_URL": api.url})
        assert await anyio.to_thread.run_sync(type_page, page, shell) == 6

    found = api.requests[-1].body["messages"][-1]["content"][0]["content"]
    assert "the pool of inventory has 10 connections" in str(found)


def test_output_that_differs_would_be_noticed() -> None:
    assert pattern_of("a…c\n…\nd\n").fullmatch("abc\nx\ny\nd\n")
    assert not pattern_of("a…c\n").fullmatch("abd\n")
