"""The modules that a command imports, in a fresh process.

Owns: the commands, and the moments until which their imports count. Must not know: any limit. Invariant: what another
thread imports meanwhile is not counted: it waits until the moment has come.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.costs.measure import Measured
from tests.support.shell import SECONDS, Shell, make_shell
from tests.support.sources import ROOT
from tests.support.wire import introduction

CONFIG = """
models: {rehearsed: {model: none, rehearsal: script.yaml}}
agents: {Quick: {description: answers at once}}
"""

WATCHED = r'''
import atexit, os, sys, threading

told, moment, alone = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)
begun = set(sys.modules)
come = threading.Event()

def note(*_):
    if not come.is_set():
        sys.setprofile(None)
        open(told, "w").write("\n".join(sorted(set(sys.modules) - begun)))
        come.set()

def look(frame, event, _):
    if event == "call" and moment == f"{os.path.basename(frame.f_code.co_filename)} {frame.f_code.co_name}":
        note()

class Later:
    """Lets other threads import only after the moment."""

    @staticmethod
    def find_spec(*_):
        if threading.current_thread().name.startswith("AnyIO worker"):
            come.wait(30)

atexit.register(note)
if alone:
    sys.meta_path.insert(0, Later)
if moment:
    sys.setprofile(look)
from outrider.__main__ import main
sys.exit(main())
'''
"""Runs a command, and writes down what it has imported when a function is called for the first time, or at the end."""


@dataclass(frozen=True)
class Command:
    """A command line, what it reads, and the moment until which its imports count."""

    words: Sequence[str]
    moment: str = ""
    """A file and a function whose first call ends the count; by default the command's end does."""
    stdin: str = ""
    alone: bool = False
    """Whether imports in worker threads wait until then."""


GREETING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": introduction()}) + "\n"

COMMANDS: Mapping[str, Command] = {
    "run": Command(["run", "Quick", "look"], "model.py complete"),
    "--help": Command(["--help"]),
    "ps": Command(["ps"]),
    "sql": Command(["sql", "select 1"]),
    "agents": Command(["agents"]),
    "serve": Command(["serve"], "stdio.py write", GREETING, alone=True),
}
"""`serve` until `initialize` is answered, `run` until the first request to a model, the others to their end."""


def imported(name: str, shell: Shell, *path: Path) -> set[str]:
    """The modules that a command imports, with folders before all others on the path."""
    command = COMMANDS[name]
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "modules")
        ended = subprocess.run(
            [sys.executable, "-P", "-c", WATCHED, str(told), command.moment, "alone" * command.alone, *command.words],
            cwd=shell.folder,
            env=shell.surroundings(PYTHONPATH=os.pathsep.join(map(str, (*path, ROOT)))),
            input=command.stdin,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return set(told.read_text().split())


def ready(folder: Path) -> Shell:
    """A folder with a configuration; the first command to be counted, `run`, makes its database."""
    return make_shell(folder, CONFIG)


def figures(found: Mapping[str, set[str]]) -> Measured:
    """How many modules commands import."""
    return Measured({f"outrider {name}: modules": len(modules) for name, modules in found.items()})
