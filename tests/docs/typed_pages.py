"""A page with commands, typed as it stands: its files are written, its commands run, and their output is compared.

Owns how a page names its files, commands and output. Must not know: which page. Invariant: a command that prints something
else than the page shows fails, with both texts.
"""

import re
import shlex
import subprocess

from tests.support.shell import Shell

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
