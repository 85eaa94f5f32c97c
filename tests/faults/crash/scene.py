"""The scene of a trial: a configuration, a database, a model server, a field, and clients of `outrider serve`.

Owns: what stays when a process is killed, and a client's side of a dispatch and its result. Must not know: when to kill.
Invariant: everything that is asked of a process and everything it answers is in the ledger.
"""

from __future__ import annotations

import io
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import psutil
from anyio.abc import Process

from db.store.engine import sqlite_library
from tests.faults.crash.brigade import CAMPAIGN, CONFIG, Brigade
from tests.faults.crash.expedition import COURIER, USER
from tests.faults.crash.ledger import Ledger
from tests.faults.crash.victim import victim
from tests.support.forked import KEPT
from tests.support.messages_api import MessagesApi, messages_api
from tests.support.wire import LEGACY, StdioWire

GONE = (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError)
"""What a client hears from a process that was killed."""


@dataclass(frozen=True)
class Scene:
    """Where trials take place."""

    folder: Path
    ledger: Ledger
    api: MessagesApi

    @property
    def database(self) -> Path:
        """The file that survives."""
        return self.folder / "outrider.db"

    @property
    def fifo(self) -> Path:
        """Where tools tell of their runs; no other trial has it, so it also names the processes of this one."""
        return self.folder / "field"

    @property
    def environ(self) -> dict[str, str]:
        """The surroundings of every process."""
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        return {
            **kept,
            "HOME": str(self.folder),
            "FIELD": str(self.fifo),
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": self.api.url,
            "OUTRIDER_DATABASE_URL": f"sqlite:///{self.database}",
        }

    @asynccontextmanager
    async def client(self, *, fresh: bool = False, under: Sequence[str] = ()) -> AsyncIterator[Client]:
        """A client and the `outrider serve` it started."""
        async with victim(["serve"], self.folder, self.environ, fresh=fresh, under=under) as process:
            yield Client(self.ledger, process)

    def rows(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        """Rows of the database as it is now; none before there is one."""
        return rows_of(self.database, query, *parameters)

    def processes(self) -> list[psutil.Process]:
        """What lives of this trial beside what the trial itself holds: tool servers and their children."""
        everybody = psutil.process_iter(["cmdline"])
        return [process for process in everybody if str(self.fifo) in (process.info["cmdline"] or ())]


def rows_of(database: Path, query: str, *parameters: object) -> list[dict[str, Any]]:
    """Rows of a database, over a connection that can only read."""
    library = sqlite_library()
    if not database.exists() or database.stat().st_size == 0:
        return []
    with closing(library.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        connection.row_factory = library.Row
        return [dict(row) for row in connection.execute(query, parameters)]


class Client:
    """A client before the standard streams of its server."""

    def __init__(self, ledger: Ledger, process: Process) -> None:
        self.process = process
        self._ledger = ledger
        self._wire = StdioWire(process, LEGACY, self._allow)

    def _allow(self, question: dict[str, Any]) -> dict[str, Any]:
        """Our person trusts the brigade."""
        self._ledger.add("question", "ok", text=question["message"])
        return {"action": "accept", "content": {"confirm": True}}

    async def greet(self) -> None:
        """Begin, and wait until the service behind the first answers is there."""
        await self._wire.greet()
        await self._call("list_executions", limit=1)

    async def dispatch(self, agent: str, label: str) -> str:
        """Dispatch an agent or a chain, or say what a user says, under a key of its own, so that asking again is safe."""
        await self.greet()
        self._ledger.add("dispatch", "invoke", label)
        if agent == COURIER:
            found = await self._call("send_user_message", user=USER, text=label, wait_seconds=0, idempotency_key=label)
        else:
            tool, name = ("run_chain", "chain") if agent == CAMPAIGN else ("dispatch_agent", "name")
            found = await self._call(tool, **{name: agent}, task=label, idempotency_key=label)
        self._ledger.add("dispatch", "ok", label, id=found["execution_id"])
        return str(found["execution_id"])

    async def result(self, label: str, execution: str) -> dict[str, Any]:
        """Wait for its end."""
        while True:
            found = await self._call("get_result", execution_id=execution, wait_seconds=50)
            if found["status"] not in ("pending", "running"):
                text = (found["result"] or {}).get("output")
                self._ledger.add("result", "ok", label, id=execution, status=found["status"], text=text)
                return found

    async def cancel(self, label: str, execution: str) -> None:
        """Cancel it."""
        self._ledger.add("cancel", "invoke", label, id=execution)
        await self._call("cancel_agent", execution_id=execution)
        self._ledger.add("cancel", "ok", label, id=execution)

    async def say(self, label: str, execution: str, words: str) -> None:
        """Say something to it."""
        self._ledger.add("message", "invoke", label, text=words)
        told = await self._call("send_message", execution_id=execution, text=words)
        self._ledger.add("message", "ok", label, text=words, id=told["execution_id"])

    async def leave(self) -> int:
        """Say goodbye; the exit code of the server."""
        return await self._wire.close()

    async def _call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = await self._wire.call(tool, arguments)
        found: dict[str, Any] = answer["result"]["structuredContent"]
        return found


async def _listen(fifo: int, ledger: Ledger) -> None:
    """Write down what tools tell of their runs."""
    rest = b""
    while True:
        await anyio.wait_readable(fifo)
        *lines, rest = (rest + os.read(fifo, 65536)).split(b"\n")
        for line in lines:
            tool, label = line.decode().split()
            ledger.add("tool", "invoke", label, tool=tool)


@asynccontextmanager
async def scene(folder: Path, config: str = CONFIG) -> AsyncIterator[Scene]:
    """A fresh scene in an empty folder."""
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    ledger = Ledger()
    os.mkfifo(folder / "field")
    with io.FileIO(os.open(folder / "field", os.O_RDWR | os.O_NONBLOCK), "r+") as fifo:
        async with messages_api(Brigade(ledger).answer) as api, anyio.create_task_group() as group:
            group.start_soon(_listen, fifo.fileno(), ledger, name="listen to the field")
            yield Scene(folder, ledger, api)
            group.cancel_scope.cancel()


async def at_rest(scene: Scene, seconds: float = 5.0) -> int:
    """How many processes of a trial are left after they had some time to go."""
    left: Sequence[psutil.Process] = scene.processes()
    with anyio.move_on_after(seconds):
        while left := [process for process in left if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]:
            await anyio.lowlevel.checkpoint()
    return len(left)
