"""Writes every event of a floor's agents to one SQLite file: the least cost of a service that persists events.

Owns: the file and the thread that writes it. Must not know: agents. Invariant: with `durable`, events added before
`committed()` are on disk when it returns; without it, the queue may be lost with the process.
"""

from __future__ import annotations

import json
import queue
import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

BATCH = 500
"""The most queue items in one commit."""

Row = tuple[float, str, str, Any]


class EventLog:
    """A queue in front of one writer thread; the event loop pays only for a put."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        self._durable = durable
        self._queue: queue.SimpleQueue[Row | anyio.Event | None] = queue.SimpleQueue()
        self._token = anyio.lowlevel.current_token()
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = " + ("FULL" if durable else "NORMAL"))
        self._connection.execute("CREATE TABLE event (id INTEGER PRIMARY KEY, at REAL, agent TEXT, kind TEXT, body TEXT)")
        self._thread = threading.Thread(target=self._work, name="event-log", daemon=True)
        self._thread.start()

    def add(self, agent: str, kind: str, body: Any) -> None:
        """Queue one event."""
        self._queue.put((time.time(), agent, kind, body))

    async def committed(self) -> None:
        """With `durable`, wait until every event so far is committed."""
        if self._durable:
            done = anyio.Event()
            self._queue.put(done)
            await done.wait()

    async def close(self) -> None:
        """Write the queued events and end the thread."""
        self._queue.put(None)
        await anyio.to_thread.run_sync(self._thread.join)
        self._connection.close()

    def _work(self) -> None:
        open_ = True
        while open_:
            batch = [self._queue.get()]
            while len(batch) < BATCH and not self._queue.empty():
                batch.append(self._queue.get())

            open_ = None not in batch
            self._commit([item for item in batch if isinstance(item, tuple)])
            if waiting := [item for item in batch if isinstance(item, anyio.Event)]:
                anyio.from_thread.run_sync(_wake, waiting, token=self._token)

    def _commit(self, rows: Sequence[Row]) -> None:
        self._connection.execute("BEGIN")
        self._connection.executemany(
            "INSERT INTO event (at, agent, kind, body) VALUES (?, ?, ?, ?)",
            [(at, agent, kind, body if isinstance(body, str) else json.dumps(body)) for at, agent, kind, body in rows],
        )
        self._connection.execute("COMMIT")


def _wake(waiting: Sequence[anyio.Event]) -> None:
    for done in waiting:
        done.set()
