"""Install the locked dependencies and Outrider itself into the environment of this interpreter, and say how far that is.

Owns: what is told meanwhile, which is one line a phase; on a terminal the line counts. `make setup` calls it.
Must not know: what is installed. Invariant: when something fails, what pip said is shown whole.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

LOCK = "requirements.lock"
PIP = (sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off", "--no-deps")
PINNED = re.compile(r"^[\w.-]+==")
SEEN = re.compile(r"^(?:Collecting|Processing|Ignoring|Requirement already satisfied:) (?:\S*/)?(?P<name>[\w.]+)")
INSTALLING = re.compile(r"^Installing collected packages:(?P<names>.*)")


class Phase:
    """A line that says what is done, how far it is, and in the end how long it took."""

    def __init__(self, title: str, out: TextIO = sys.stderr) -> None:
        self._title, self._out, self._began = title, out, time.monotonic()
        if out.isatty():
            self.tell("")
        else:
            out.write(f"{title} …\n")
            out.flush()

    def tell(self, how_far: str) -> None:
        """Say how far it is; only a terminal is told, in the same line."""
        if self._out.isatty():
            self._out.write(f"\r\x1b[K{self._title} … {how_far}")
            self._out.flush()

    def end(self, result: str) -> None:
        """Say that it is done."""
        begin = "\r\x1b[K" if self._out.isatty() else ""
        self._out.write(f"{begin}{self._title}: {result}, {time.monotonic() - self._began:.0f} s\n")
        self._out.flush()


def counted(lines: Iterable[str], wanted: int, tell: Callable[[str], None]) -> list[str]:
    """Follow what pip says, and tell how many packages it has come to; all that it said."""
    said, seen = [], 0
    for line in lines:
        said.append(line)
        if found := SEEN.match(line):
            seen += 1
            tell(f"{seen} of {wanted} ({found['name']})")
        elif found := INSTALLING.match(line):
            tell(f"putting {len(found['names'].split(','))} in place")
    return said


def run(command: Sequence[str], wanted: int, phase: Phase) -> None:
    """Run pip to its end; a failure shows what it said, and ends this."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        said = counted(process.stdout, wanted, phase.tell)
    if process.returncode != 0:
        phase.end("failed")
        sys.stderr.writelines(said)
        sys.exit(process.returncode)


def main(packages: Sequence[str]) -> None:
    """Every phase, one after the other."""
    with open(LOCK, encoding="utf-8") as lock:  # noqa: PTH123 - a name in the current folder
        wanted = sum(1 for line in lock if PINNED.match(line))
    phase = Phase("dependencies")
    # The lock is complete: a resolver could only find a newer release, and refuse it for want of a hash.
    run([*PIP, "--require-hashes", "-r", LOCK], wanted, phase)
    phase.end(f"{wanted} locked packages")
    phase = Phase("outrider")
    run([*PIP, "--no-build-isolation", "-e", "."], 1, phase)
    phase.end("installed as it stands here")
    phase = Phase("bytecode")
    compiled = [sys.executable, "-m", "compileall", "-qq", "-j", "0", sysconfig.get_path("purelib"), *packages]
    subprocess.run(compiled, check=False)  # templates inside some wheels are not valid Python
    phase.end("compiled")


if __name__ == "__main__":
    main(sys.argv[1:])
