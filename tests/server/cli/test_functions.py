"""Agents that are functions, from a shell: without a key, with typed input, and never keeping a process from ending."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.shell import make_shell

CONFIG = """
agents:
  Add: {function: 'figures:add', description: adds}
  Stuck: {function: 'figures:stuck', timeout: 300ms}
"""

FIGURES = """
import threading

def add(a: int, b: int = 1) -> dict[str, int]:
    return {"sum": a + b}

def stuck() -> None:
    threading.Event().wait()
"""


def test_a_function_beside_the_configuration_runs_from_a_shell(tmp_path: Path) -> None:
    (tmp_path / "figures.py").write_text(FIGURES)
    shell = make_shell(tmp_path, CONFIG)

    done = shell.type("run", "Add", "--input", "a=40", "--input", "b=2")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"sum": 42})

    assert shell.type("agents").stdout.startswith("Add (function, figures:add)\n")
    stuck = shell.type("run", "Stuck", "wait", fresh=True)
    assert stuck.returncode == 1, "it ended, and nobody waited for its thread"
    assert "it timed out" in stuck.stderr

    (tmp_path / "config.yaml").write_text(CONFIG.replace("figures:add", "figures:ad"))
    refused = shell.type("config", "check")
    assert refused.returncode == 2
    assert "config.yaml:3:" in refused.stderr
    assert "`figures` has no `ad`" in refused.stderr
    assert "hint: " in refused.stderr
