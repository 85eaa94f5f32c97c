"""The one writer of a process: a thread that commits the writes of many executions together.

Owns the queue, the order, and the patience: while the database cannot be written (full, failing, locked, read-only) what
was handed in stays in its order and is tried again until it succeeds or the writer is closed. Its invariants:

* A write is all or nothing: if one of its guards does not hold, nothing of it is applied.
* Writes take effect in the order they were handed in. Plain inserts of a batch are gathered and sent as one statement per
  table, but a statement that looks at other rows first flushes the inserts queued before it.
* A write is visible (its caller wakes, its events are published) only after the commit that holds it.
* Cancelling a caller never undoes its write. Trouble fails only those who said that they cannot wait.
"""

from __future__ import annotations

import logging
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
"""Writes per commit while the disk is quick: enough to make the fsync cheap, and those at the head of a crowd go on while
the rest of it is written."""
LARGE_BATCH = 256
SLOW_SECONDS = 0.02
"""After a commit that took the disk so long, as many as wait share the next one."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between tries while the database is in trouble."""
CLOSING_SECONDS = 2.0
"""How long closing waits for the end of a trouble; what is not written then is left to the next process."""
LEAVING_SECONDS = 10.0
"""How long closing waits for a disk that does not answer at all."""
FRESH_SECONDS = 1.0
"""So long a commit is proof enough that the database can be written."""
LOOK_SECONDS = 1.0
"""Between looks of an idle writer at its files: it may be the only one that can fold back a log that was deleted."""
CHECK_SECONDS = 4.0
"""How long a check waits for the disk."""


@dataclass(slots=True)
class _Look:
    """A question, answered between two commits: SQLite's data version, or whether anything can be written."""

    writes: bool = False
    done: Latch = field(default_factory=Latch)
    version: int | None = None


class Writer:
    """Group commit for one database. Use as an async context manager."""

    def __init__(self, path: Path, publish: Callable[[Sequence[Event]], None]) -> None:
        self._path = path
        self._publish = publish
        """Called in the event loop with the committed events, in order, before the writers wake."""
        self._committer = Committer(path)
        self._queue: queue.SimpleQueue[Ticket | _Look | None] = queue.SimpleQueue()
        self._closed = False
        self._give_up_at = float("inf")
        self.trouble: Trouble | None = None
        """Why nothing can be written at the moment; None when all is well."""
        self._written_at = time.monotonic()
        # What follows belongs to the thread.
        self._waiting: list[Ticket] = []
        """In the order they were handed in; those at the head are tried next."""
        self._checks: list[_Look] = []
        self._batch = BATCH
        self._singly = 0
        """So many of those at the head are tried one by one: there is a bad row among them."""
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
        with anyio.CancelScope(shield=True):  # bounded: what was handed in is committed first, if that is possible
            await anyio.to_thread.run_sync(self._thread.join, LEAVING_SECONDS)
        if self._thread.is_alive():
            log.error("%s: the disk does not answer, and is left", self._path)

    async def apply(self, write: Write, *, shielded: bool = False, patient: bool = True) -> Ticket:
        """Commit `write`; returns when it is durable. `held` tells whether its guards held.

        A caller that is cancelled leaves, and its write goes on. With `shielded` the caller stays until it knows. While the
        database is in trouble, one that is not `patient` gets DatabaseUnavailable, and nothing of it is written.
        """
        ticket = self.post(write, patient=patient)
        with anyio.CancelScope(shield=shielded):  # bounded by a trouble's end or the closing of the writer
            await ticket.done.wait()
        if ticket.error is not None:
            raise ticket.error
        return ticket

    def post(self, write: Write, *, patient: bool = True) -> Ticket:
        """Hand in `write` without waiting; later writes still come after it."""
        if self._closed:
            raise WriterClosed
        if self.trouble is not None and not patient:
            raise self.trouble.error
        ticket = Ticket(write, patient)
        self._queue.put(ticket)
        return ticket

    async def flush(self) -> None:
        """Return when everything that was handed in is durable, or has failed."""
        await self.apply(Write(()))

    def hurry(self, seconds: float) -> None:
        """From then on no trouble is waited out any more: whatever is not written fails as if the writer were closed."""
        self._give_up_at = min(self._give_up_at, time.monotonic() + seconds)

    @property
    def openings(self) -> int:
        """How often the connection was opened: readers must follow it to the same files."""
        return self._committer.openings

    async def version(self) -> int | None:
        """A number that changes whenever another process commits, and never by this one; None when it cannot be told."""
        look = _Look()
        await self._asked(look)
        return look.version

    async def check(self) -> Trouble | None:
        """Why nothing can be written; it is tried, unless something was written just now."""
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

    # What follows runs in the thread.

    def _work(self) -> None:
        while self._gather():
            size = 1 if self._singly else self._batch
            batch = self._waiting[:size]
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

    def _gather(self) -> bool:
        """Take what was handed in, waiting while there is nothing to do or between two tries. False when it is over."""
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
        """Seconds to wait for something more."""
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
        """Nothing of the batch was applied: say what is wrong, and keep what can wait."""
        if self.trouble is None:
            log.error("%s; %d writes wait for its end", error, len(self._waiting))
            self.trouble, self._pause = Trouble(str(error), error.hint), FIRST_PAUSE
        else:
            self.trouble = Trouble(str(error), error.hint, self.trouble.since)
            self._pause = min(self._pause * 2, LONGEST_PAUSE)
        if self._leaves(self._waiting, self.trouble):
            self._waiting = [each for each in self._waiting if each.error is None]

    def _leaves(self, tickets: Sequence[Ticket], trouble: Trouble) -> bool:
        """Let those go who cannot wait for the end of a trouble; once it is time to close, everybody. Whether any did."""
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
        """One bad row must fail its owner only: the batch is tried again one by one."""
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
"""Seconds between looks: soon enough for a person who cancels, cheap enough to forget about."""


async def changes(writer: Writer, seen: int | None = None, interval: float = INTERVAL) -> AsyncGenerator[None]:
    """Yield whenever another process has changed the database since the last look, the first one compared with `seen`."""
    while True:
        version = await writer.version()
        if version is not None and version != seen:
            seen = version
            yield
        await anyio.sleep(interval)
