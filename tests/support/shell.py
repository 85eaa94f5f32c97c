"""The console script in real processes: a folder with a rehearsed configuration, and commands run in it.

Owns: starting `outrider`, its environment, gates that block a tool call. Must not know: the subject of a test.
Invariant: no setting of the developer's environment (keys, databases, colours) reaches a command.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.support.forked import KEPT, fork_server, read_at_start

SCRIPT = Path(sys.executable).with_name("outrider")
GATE_SERVER = Path(__file__).with_name("gate_server.py")
SECONDS, GATE_SECONDS = 40, 20
"""Timeouts for one command, and for a call to reach a gate, on a busy machine."""

CONFIG = f"""\
defaults: {{limits: {{timeout: 60s}}}}
models:
  rehearsed: {{model: none, rehearsal: script.yaml}}
mcp_servers:
  gate: {{command: ['{sys.executable}', '-I', '-S', '{GATE_SERVER}', '${{GATE:-none}}'], timeout: 50s}}
  absent: {{command: ['no-such-program'], required: false}}
agents:
  Lead: {{description: sends somebody, sub_agents: [Waiter], max_concurrent_agents: 1, capabilities: [lead, sum up]}}
  Waiter: {{description: waits at the gate, mcp_servers: [gate]}}
  Quick: {{description: answers at once}}
  Lonely: {{description: misses its server, mcp_servers: [absent]}}
  Broken: {{description: fails}}
agent_chains:
  look: {{alert_types: [DiskFull], stages: [{{name: only, agents: [Quick]}}]}}
"""

REHEARSAL = """\
agents:
  Lead:
    - {when: start, if: "input and input.both", call: [{tool: dispatch_agent, with: {name: Waiter, task: first}},
                                             {tool: dispatch_agent, with: {name: Waiter, task: second}}]}
    - {when: start, call: [{tool: dispatch_agent, with: {name: Waiter, task: wait}}]}
    - {when: delivered, say: "it is done"}
    - {when: any, say: "I wait"}
  Waiter:
    - {when: start, call: [{tool: gate.wait}]}
    - {when: any, say: "I waited"}
  Quick: [{when: any, say: "# Finding\\n\\nat once"}]
  Lonely: [{when: any, say: "without it"}]
  Broken: [{when: conclude, say: "nothing"}]
"""


@dataclass(frozen=True)
class Shell:
    """A folder in which commands are run."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def database(self) -> Path:
        """The default database of every command here."""
        return self.folder / ".outrider" / "outrider.db"

    @property
    def places(self) -> str:
        """The paths that a not-found error lists."""
        return f"\n  configuration: {self.folder / 'config.yaml'}\n  database: {self.database}"

    def surroundings(self, **more: str) -> dict[str, str]:
        """The environment of a command."""
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        kept["PATH"] = f"{SCRIPT.parent}{os.pathsep}{kept['PATH']}"  # so that messages name the command without its path
        return {**kept, "HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder / "data"), **self.environ, **more}

    def type(self, *words: str, stdin: str = "", fresh: bool = False, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end: forked, or in a fresh process if asked or if a variable is read at its start."""
        if not fresh and not any(map(read_at_start, {**self.environ, **environ})):
            return fork_server().run([str(SCRIPT), *words], self.folder, self.surroundings(**environ), stdin, SECONDS)
        return subprocess.run(
            [SCRIPT, *words],
            cwd=self.folder,
            env=self.surroundings(**environ),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def json(self, *words: str) -> Any:
        """Run a command and parse its JSON."""
        done = self.type(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @contextmanager
    def start(self, *words: str, **environ: str) -> Iterator[subprocess.Popen[str]]:
        """Start a command; it is killed on exit if it still runs."""
        process = subprocess.Popen(
            [SCRIPT, *words],
            cwd=self.folder,
            env=self.surroundings(**environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def gate(self, name: str) -> Path:
        """A closed gate."""
        path = self.folder / name
        os.mkfifo(path)
        return path

    def rows(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        """Query the default database over a separate connection."""
        connection = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(query, parameters)]
        finally:
            connection.close()


@contextmanager
def held(gate: Path) -> Iterator[IO[str]]:
    """Enter when a call waits at the gate; the exit opens the gate."""
    gave_up: list[int] = []
    # Opening for writing blocks until there is a reader. After a timeout the test opens one, and fails instead of hanging.
    patience = threading.Timer(GATE_SECONDS, lambda: gave_up.append(os.open(gate, os.O_RDONLY | os.O_NONBLOCK)))
    patience.start()
    with gate.open("w", encoding="utf-8") as writer:
        patience.cancel()
        assert not gave_up, "no call came to the gate"
        yield writer


def make_shell(folder: Path, config: str = CONFIG, environ: Mapping[str, str] | None = None) -> Shell:
    """A shell in a folder with a configuration and its rehearsal."""
    folder.joinpath("config.yaml").write_text(config, encoding="utf-8")
    folder.joinpath("script.yaml").write_text(REHEARSAL, encoding="utf-8")
    return Shell(folder, dict(environ or {}))
