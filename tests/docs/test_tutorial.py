"""The tutorial, typed as it stands: its files are written, its commands run, and their output is the page's."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.requirement import requirement
from tests.support.shell import Shell
from tests.support.sources import ROOT

PAGE = ROOT / "docs" / "tutorial" / "first-agent.md"
FILE = re.compile(r"\b(?P<how>as|to) `(?P<name>[\w.]+)`:$")
BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def pattern_of(expected: str) -> re.Pattern[str]:
    """What the page shows as a pattern: a line of `…` is any lines, `…` inside a line anything there."""
    lines = [
        r"(?:.*\n)*" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n"
        for line in expected.splitlines()
    ]
    return re.compile("".join(lines))


def commands_of(text: str) -> list[tuple[str, str]]:
    """The commands of a block, each with what it is shown to print."""
    return [
        (part.split("\n", 1)[0], part.split("\n", 1)[1]) for part in re.split(r"^\$ ", text, flags=re.MULTILINE) if part
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


@requirement("S2-VA-12")
@pytest.mark.timeout(120)
def test_the_tutorial_works_as_it_stands(tmp_path: Path) -> None:
    shell, page = Shell(tmp_path), PAGE.read_text(encoding="utf-8")
    ran = 0
    for block in BLOCK.finditer(page):
        if block["kind"] == "yaml":
            file = FILE.search(page[: block.start()].rstrip())
            assert file is not None, "say into which file a block goes"
            with (tmp_path / file["name"]).open("w" if file["how"] == "as" else "a", encoding="utf-8") as written:
                written.write(block["text"])
        for command, expected in commands_of(block["text"]) if block["kind"] == "console" else ():
            type_into(shell, command, expected)
            ran += 1
    assert ran > 8


def test_output_that_differs_would_be_noticed() -> None:
    assert pattern_of("a…c\n…\nd\n").fullmatch("abc\nx\ny\nd\n")
    assert not pattern_of("a…c\n").fullmatch("abd\n")
