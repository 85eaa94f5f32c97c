"""The one writer of a process: a thread that commits the writes of many executions together.

Owns the queue, its order and the retries: while the database cannot be written (full, failing, locked, read-only), queued
writes stay in order and are retried until they succeed or the writer is closed. Its invariants:

* A write is all or nothing: if one of its guards does not hold, nothing of it is applied.
* Writes take effect in the order in which they were queued. Plain inserts of a batch are sent as one statement per table,
  but a statement that reads other rows first flushes the inserts queued before it.
* A write is visible (its caller wakes, its events are published) only after the commit that holds it.
* Cancelling a caller never undoes its write. An outage fails only the writes that are not patient.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

from db.errors import StoreError, WriterClosed, WriteRefused
from db.latch import Latch
from db.store.committer import Committer
from db.store.outage import Trouble
from db.store.unit import Event, Ticket, Write

log = logging.getLogger("outrider.writer")

BATCH = 32
"""Awaited writes per commit while the disk is fast: enough to share the fsync, few enough that the first callers continue
while the rest is written. Writes that no caller waits for go with them."""
LARGE_BATCH = 256
"""Writes per commit at most."""
SLOW_SECONDS = 0.02
"""After a commit that took so long, all queued writes share the next one."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between tries during an outage."""
CLOSING_SECONDS = 2.0
"""How long closing waits for the end of an outage; the next process resumes from the rows that were written."""
LEAVING_SECONDS = 10.0
"""How long closing waits for a disk that does not answer at all."""
FRESH_SECONDS = 1.0
"""For so long a commit proves that the database can be written."""
LOOK_SECONDS = 1.0
"""Between checks of an idle writer on its files: it may be the only one that can checkpoint a deleted log."""
CHECK_SECONDS = 4.0
"""How long a check waits for the disk."""


@dataclass(slots=True)
class _Look:
    """A request served between two commits: SQLite's data version, or a test write."""

    writes: bool = False
    done: Latch = field(default_factory=Latch)
    version: int | None = None


class Writer:
    """Group commit for one database. Use as an async context manager."""

    def __init__(self, path: Path, publish: Callable[[Sequence[Event]], None]) -> None:
        self._path = path
        self._publish = publish
        """Called in the event loop with the committed events, in order, before the callers wake."""
        self._committer = Committer(path)
        self._queue: queue.SimpleQueue[Ticket | _Look | None] = queue.SimpleQueue()
        self._closed = False
        self._give_up_at = float("inf")
        self.trouble: Trouble | None = None
        """Why the database cannot be written at the moment; None while it can."""
        self._written_at = time.monotonic()
        # The attributes below belong to the thread.
        self._waiting: list[Ticket] = []
        """In queue order; the head is tried next."""
        self._checks: list[_Look] = []
        self._batch = BATCH
        self._singly = 0
        """The number of writes at the head that are tried one by one, because one of them has a bad row."""
        self._pause = FIRST_PAUSE
        self._ending = False

    async def __aenter__(self) -> Writer:
        self._token = anyio.lowlevel.current_token()
        await anyio.to_thread.run_sync(self._committer.open)
        self._thread = threading.Thread(target=self._work, name="outrider-writer", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        self.hurry(CLOSING_SECONDS)
        self._queue.put(None)
        with anyio.CancelScope(shield=True):  # bounded: queued writes are committed first, if possible
            await anyio.to_thread.run_sync(self._thread.join, LEAVING_SECONDS)
        if self._thread.is_alive():
            log.error("%s: the disk does not answer; closing without it", self._path)

    async def apply(self, write: Write, *, shielded: bool = False, patient: bool = True) -> Ticket:
        """Commit `write`; returns when it is durable. `held` tells whether its guards held.

        Cancelling the caller does not cancel its write; with `shielded` the caller waits for it all the same. During an
        outage a write that is not `patient` raises DatabaseUnavailable, and nothing of it is applied.
        """
        ticket = self.post(write, patient=patient, awaited=True)
        try:
            await ticket.done.wait()
        except anyio.get_cancelled_exc_class():
            if not shielded or anyio.current_effective_deadline() > -math.inf:  # the second: the whole task is stopped
                raise
            # A shield costs more than the wait, so it is made only now. The next await is cancelled again.
            with anyio.CancelScope(shield=True):  # bounded by the end of an outage or the closing of the writer
                await ticket.done.wait()
        if ticket.error is not None:
            raise ticket.error
        return ticket

    def post(self, write: Write, *, patient: bool = True, awaited: bool = False) -> Ticket:
        """Queue `write` without waiting; later writes still come after it."""
        if self._closed:
            raise WriterClosed
        if self.trouble is not None and not patient:
            raise self.trouble.error
        ticket = Ticket(write, patient, awaited)
        self._queue.put(ticket)
        return ticket

    async def flush(self) -> None:
        """Return when every queued write is durable or has failed."""
        await self.apply(Write(()))

    def hurry(self, seconds: float) -> None:
        """After that time stop waiting for the end of an outage: unwritten writes fail as if the writer were closed."""
        self._give_up_at = min(self._give_up_at, time.monotonic() + seconds)

    @property
    def openings(self) -> int:
        """How often the connection was opened: readers reconnect to the same files."""
        return self._committer.openings

    async def version(self) -> int | None:
        """A number that changes whenever another process commits, never by this one; None when it is unknown."""
        look = _Look()
        await self._asked(look)
        return look.version

    async def check(self) -> Trouble | None:
        """Why the database cannot be written, or None; makes a test write unless a commit is recent."""
        if self.trouble is None and time.monotonic() - self._written_at > FRESH_SECONDS:
            with anyio.move_on_after(CHECK_SECONDS) as patience:
                await self._asked(_Look(writes=True))
            if patience.cancelled_caught and self.trouble is None:
                return Trouble(f"the disk of `{self._path}` does not answer", "look at the system log")
        return self.trouble

    async def _asked(self, look: _Look) -> None:
        if self._closed:
            raise WriterClosed
        self._queue.put(look)
        await look.done.wait()

    # The methods below run in the thread.

    def _work(self) -> None:
        while self._gather():
            batch = self._waiting[: 1 if self._singly else self._share()]
            began = time.monotonic()
            try:
                events = self._committer.commit(batch)
            except WriteRefused as error:
                self._refuse(batch, error)
            except StoreError as error:
                self._stumble(error)
            else:
                self._batch = LARGE_BATCH if time.monotonic() - began > SLOW_SECONDS else BATCH
                self._recover()
                self._settle(batch, events)
            self._answer(self._checks)
            self._checks = []
        self._committer.close()

    def _share(self) -> int:
        """How many of the waiting writes go into the next commit."""
        size = awaited = 0
        for ticket in self._waiting[:LARGE_BATCH]:
            size += 1
            awaited += ticket.awaited
            if awaited == self._batch:
                break
        return size

    def _gather(self) -> bool:
        """Take the queued writes, waiting while there are none or between two tries. False at the end."""
        until = time.monotonic() + self._pause if self.trouble is not None else None
        while True:
            try:
                self._take(self._queue.get(timeout=self._longest_wait(until)))
            except queue.Empty:
                if until is not None or self._waiting or self._checks or self._ending:
                    break
                if self._committer.displaced:
                    self._checks.append(_Look(writes=True))
                    break
            if until is None and len(self._waiting) >= LARGE_BATCH:
                break
        return not self._ending or bool(self._waiting)

    def _longest_wait(self, until: float | None) -> float:
        """Seconds to wait for the next write."""
        now = time.monotonic()
        if until is not None and (self._waiting or not self._ending):
            return max(0.0, min(until, self._give_up_at if self._give_up_at > now else until) - now)
        return 0.0 if self._waiting or self._checks or self._ending else LOOK_SECONDS

    def _take(self, handed_in: Ticket | _Look | None) -> None:
        if handed_in is None:
            self._ending = True
        elif isinstance(handed_in, Ticket):
            if self.trouble is None or not self._leaves([handed_in], self.trouble):
                self._waiting.append(handed_in)
        elif handed_in.writes or self._committer.displaced:
            self._checks.append(handed_in)
        else:
            handed_in.version = self._committer.version()
            self._answer([handed_in])

    def _stumble(self, error: StoreError) -> None:
        """Nothing of the batch was applied: report the outage and keep the patient writes."""
        if self.trouble is None:
            log.error("%s; %d writes wait", error, len(self._waiting))
            self.trouble, self._pause = Trouble(str(error), error.hint), FIRST_PAUSE
        else:
            self.trouble = Trouble(str(error), error.hint, self.trouble.since)
            self._pause = min(self._pause * 2, LONGEST_PAUSE)
        if self._leaves(self._waiting, self.trouble):
            self._waiting = [each for each in self._waiting if each.error is None]

    def _leaves(self, tickets: Sequence[Ticket], trouble: Trouble) -> bool:
        """Fail the writes that are not patient; once it is time to close, all. Returns whether any failed."""
        over = time.monotonic() >= self._give_up_at
        leaving = [each for each in tickets if over or not each.patient]
        for ticket in leaving:
            ticket.fail(WriterClosed() if ticket.patient else trouble.error)
        self._answer(leaving)
        return bool(leaving)

    def _recover(self) -> None:
        self._written_at = time.monotonic()
        if self.trouble is not None:
            log.warning("%s can be written again, after %.1f s", self._path, self.trouble.seconds)
            self.trouble = None

    def _refuse(self, batch: list[Ticket], error: WriteRefused) -> None:
        """Retry the batch one by one: a bad row must fail only its own write."""
        if len(batch) > 1:
            self._singly = len(batch)
            return
        log.error("a write failed: %s", error)
        batch[0].fail(error)
        self._settle(batch, [])

    def _settle(self, batch: list[Ticket], events: list[Event]) -> None:
        del self._waiting[: len(batch)]
        self._singly = max(0, self._singly - 1)
        if batch:
            self._in_loop(self._wake, batch, events)

    def _answer(self, waiting: Sequence[Ticket | _Look]) -> None:
        if waiting:
            self._in_loop(self._wake, waiting, ())

    def _in_loop(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            anyio.from_thread.run_sync(function, *arguments, token=self._token)
        except RuntimeError:
            log.debug("the event loop ended before the writer")

    def _wake(self, waiting: Sequence[Ticket | _Look], events: Sequence[Event]) -> None:
        try:
            if events:
                self._publish(events)
        except Exception:
            log.exception("%d events were committed but not published", len(events))
        for each in waiting:
            each.done.set()


INTERVAL = 0.2
"""Seconds between polls: quick enough for a person who cancels, and cheap."""


async def changes(writer: Writer, seen: int | None = None, interval: float = INTERVAL) -> AsyncGenerator[None]:
    """Yield whenever another process has changed the database since the last poll; the first poll compares with `seen`."""
    while True:
        version = await writer.version()
        if version is not None and version != seen:
            seen = version
            yield
        await anyio.sleep(interval)
