"""A thousand listeners to a process at work, beside the same work without any: turn by turn, then all at once, then a stop.

Owns the rounds and what is measured in them. Must not know: which figures are good ones. Invariant: rounds with and without
listeners alternate on one process, and do the same work.
"""

from __future__ import annotations

import random
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from tests.faults.listeners.scene import AtWork, Crowd, at_work, crowd

LISTENERS, STALLED = 1_000, 100
EVERYWHERE, PARTS = 50, 200
"""Reading listeners to all trees and to parts of a tree; the others listen to one tree each."""
TREES, TURNS = 20, 20
SILENT, UNREAD = 200, 20
"""Connections that never send a request; and those that never read an answer."""
DROPPED_SECONDS, RELEASED_SECONDS = 30.0, 40.0
MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class Round:
    """The same work without listeners and with them; of the service, in seconds and bytes."""

    wall: tuple[float, float]
    cpu: tuple[float, float]
    memory: int
    """How much more it was with listeners, at most."""
    median: float
    late: float
    """The 99th percentile of the time from an event to a listener that reads."""
    deliveries: int
    events: int
    broken: list[str]


@dataclass(frozen=True, slots=True)
class Stopped:
    """A stop while all listen, to one tree, beside some that send no request."""

    seconds: float
    broken: list[str]


class Load:
    """One process under load."""

    def __init__(self, service: AtWork, them: Crowd, seed: int) -> None:
        self._service, self._them, self._dice = service, them, random.Random(seed)

    async def round(self) -> Round:
        """Work without listeners, then with them."""
        service, them = self._service, self._them
        began, used = time.monotonic(), service.cpu
        await service.ended(await service.start(TREES, TURNS))
        alone, alone_cpu = time.monotonic() - began, service.cpu - used
        memory, sockets = service.server.memory_info().rss, self._sockets()

        began, used, newest = time.monotonic(), service.cpu, (await service.account()).last
        roots = await service.start(TREES, TURNS)
        await them.listen(self._mixed(roots, await service.workers(roots), newest))
        ready = time.time()
        await service.ended(roots)
        wall, cpu = time.monotonic() - began, service.cpu - used
        account = await service.account()
        await them.order(until=account.last)
        memory = service.server.memory_info().rss - memory
        broken = [] if await them.dropped(STALLED, DROPPED_SECONDS) else ["some that do not read were not dropped"]
        reading = [each for each in await them.heard() if each.reads]
        delays = await anyio.to_thread.run_sync(account.delays, reading, ready)
        await them.order(**{"return": account.last})
        broken += account.faults(await them.heard())
        await them.close()
        broken += await self._released(sockets)
        share = [delays[int(len(delays) * part)] for part in (0.5, 0.99)]
        events = account.after(newest)
        return Round(
            (alone, wall),
            (alone_cpu, cpu),
            memory,
            share[0],
            share[1],
            sum(len(each.numbers) for each in reading),
            events,
            broken,
        )

    def _mixed(self, roots: Sequence[str], workers: Sequence[str], newest: int) -> list[tuple[str, bool]]:
        everywhere, dice = f"/api/events?after={newest}", self._dice
        parts = [dice.choice(workers) for _ in range(PARTS)]
        trees = [dice.choice(roots) for _ in range(LISTENERS - STALLED - EVERYWHERE - PARTS)]
        found = [(f"/api/executions/{top}/events", True) for top in (*parts, *trees)]
        found += [(everywhere, number >= STALLED) for number in range(STALLED + EVERYWHERE)]
        dice.shuffle(found)
        return found

    def _sockets(self) -> int:
        return len(self._service.server.net_connections("tcp"))

    async def _released(self, sockets: int) -> list[str]:
        with anyio.move_on_after(RELEASED_SECONDS):
            while self._sockets() > sockets + 2:  # a keep-alive connection of those that look, and the model's
                await self._moment()
            return []
        return [f"{self._sockets() - sockets} connections were not released"]

    async def _moment(self) -> None:
        with anyio.move_on_after(0.2):
            await self._service.process.wait()

    async def stop(self) -> Stopped:
        """Everything at once, then the signal."""
        service, them, broken = self._service, self._them, list[str]()
        roots = await service.start(TREES, TURNS)
        await service.workers(roots)
        one = f"/api/executions/{roots[0]}/events"
        with connections(service.url, SILENT), connections(service.url, UNREAD, one):
            await them.listen([(one, number >= STALLED) for number in range(LISTENERS)])
            answer = await service.http.get("/api/counts")
            if answer.status_code != 200:
                broken.append(f"a caller among them got {answer.status_code}")
            began = time.monotonic()
            service.process.send_signal(signal.SIGTERM)
            with anyio.move_on_after(RELEASED_SECONDS):
                code = await service.process.wait()
                if code:
                    broken.append(f"it ended with {code}")
                return Stopped(time.monotonic() - began, broken)
            return Stopped(RELEASED_SECONDS, [*broken, "it did not end"])


@contextmanager
def connections(url: str, count: int, path: str = "") -> Iterator[None]:
    """Connections with a request that is never read from, or without one."""
    where = urlsplit(url)
    opened = [socket.create_connection((where.hostname or "", where.port or 0)) for _ in range(count)]
    try:
        for each in opened:
            if path:
                each.sendall(f"GET {path} HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode())
        yield
    finally:
        for each in opened:
            with suppress(OSError):
                each.close()


async def loaded(folder: Path, rounds: int, seed: int, tell: Callable[[str], None]) -> tuple[list[Round], Stopped]:
    """All rounds, then the stop."""
    async with at_work(folder) as service, crowd(service.url, folder) as them:
        await service.ended(await service.start(2, 2))  # the first ones import and connect
        load, found = Load(service, them, seed), list[Round]()
        for number in range(rounds):
            found.append(await load.round())
            tell(f"{number + 1} of {rounds}: {found[-1]}")
        return found, await load.stop()
