"""The listeners, in a process of their own: `python -m tests.faults.listeners.crowd HOST PORT`.

Owns their sockets, and which event came when to which of them. Must not know: what they should have heard. Invariant: it is
one loop over raw sockets that keeps numbers and moments only, so that it costs the machine little of what it measures.

Orders are lines of JSON on standard input, and each has one line as its answer:

- `{"open": [[path, reads], …]}` is answered when all have caught up; those that do not read stop then.
- `{"until": number}` is answered when all that read have heard of that event, or of the end of their trees.
- `{"dropped": 0}` is answered with how many of those that do not read have been cut off.
- `{"return": number}` lets those read, too, and come back where they were cut off; answered as `until`.
- `{"write": path}` writes what was heard; `{"close": 0}` closes all.
"""

from __future__ import annotations

import json
import re
import select
import selectors
import socket
import sys
import time
from array import array
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

NUMBER = re.compile(rb"^id: (\d+)", re.MULTILINE)
SMALL_WINDOW = 4_096
"""The bytes that one which does not read takes without reading."""
TAKEN = 262_144


class Listener:
    """One connection after the other to the same stream."""

    def __init__(self, where: tuple[str, int], path: str, *, reads: bool) -> None:
        self._where, self.path, self.reads = where, path, reads
        self.numbers = array("q")
        self.moments, self.counts = array("d"), array("q")
        """When something came, and how many events it was."""
        self.caught_up = self.ended = False
        self.cuts = 0
        self._rest = b""
        self.socket = self.connected()

    @property
    def last(self) -> int:
        """The number of the last event it has heard of."""
        return self.numbers[-1] if self.numbers else 0

    def connected(self) -> socket.socket:
        """A connection that has sent its request."""
        raw = socket.socket()
        if not self.reads:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_WINDOW)
        raw.connect(self._where)
        last = f"Last-Event-ID: {self.last}\r\n" if self.numbers else ""
        raw.sendall(f"GET {self.path} HTTP/1.1\r\nHost: {self._where[0]}:{self._where[1]}\r\n{last}\r\n".encode())
        raw.setblocking(False)
        self._rest = b""
        return raw

    def take(self) -> bool:
        """Read what has come; whether the connection goes on."""
        try:
            came = self.socket.recv(TAKEN)
        except BlockingIOError:
            return True
        except ConnectionError:
            came = b""
        if not came:
            return False
        text = self._rest + came
        end = text.rfind(b"\n\n") + 2
        if end > 1:
            whole, text = text[:end], text[end:]
            before = len(self.numbers)
            self.numbers.extend(map(int, NUMBER.findall(whole)))
            self.moments.append(time.time())
            self.counts.append(len(self.numbers) - before)
            self.caught_up = self.caught_up or b"event: caught_up" in whole
            self.ended = self.ended or b"event: ended" in whole
        self._rest = text
        return True


class Crowd:
    """All listeners, and the order that is under way."""

    def __init__(self, where: tuple[str, int]) -> None:
        self._where = where
        self._selector = selectors.DefaultSelector()
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ, None)
        self._all: list[Listener] = []
        self._waits_for: Callable[[], bool] | None = None

    def run(self) -> None:
        """Carry orders out until there are no more."""
        while True:
            for key, _ in self._selector.select():
                if key.data is not None:
                    self._hear(key.data)
                elif line := sys.stdin.readline():
                    self._carry_out(json.loads(line))
                else:
                    return
            if self._waits_for is not None and self._waits_for():
                self._waits_for = None
                self._answer({})

    def _hear(self, listener: Listener) -> None:
        if not listener.take():
            self._forget(listener)
            if not listener.ended:
                listener.cuts += 1
                try:
                    listener.socket = listener.connected()
                except ConnectionError:  # the server has gone
                    listener.ended = True
                else:
                    self._attend(listener)
        elif listener.ended or (not listener.reads and listener.caught_up):
            self._forget(listener, close=listener.ended)

    def _attend(self, listener: Listener) -> None:
        self._selector.register(listener.socket, selectors.EVENT_READ, listener)

    def _forget(self, listener: Listener, *, close: bool = True) -> None:
        self._selector.unregister(listener.socket)
        if close:
            listener.socket.close()

    def _carry_out(self, order: Mapping[str, Any]) -> None:
        [(name, given)] = order.items()
        if name == "open":
            self._open(given)
        elif name in ("until", "return"):
            if name == "return":
                self._let_read()
            self._waits_for = lambda: all(each.ended or each.last >= given for each in self._all if each.reads)
        else:
            carry: Mapping[str, Callable[[Any], Mapping[str, Any]]]
            carry = {"dropped": self._dropped, "write": self._write, "close": self._close}
            self._answer(carry[name](given))

    def _open(self, wanted: list[tuple[str, bool]]) -> None:
        for path, reads in wanted:
            listener = Listener(self._where, path, reads=reads)
            self._all.append(listener)
            self._attend(listener)
        self._waits_for = lambda: all(each.caught_up for each in self._all)

    def _let_read(self) -> None:
        for each in self._all:
            if not each.reads:
                each.reads = True
                if not each.ended:
                    self._attend(each)

    def _dropped(self, _: int) -> Mapping[str, Any]:
        """How many are cut off: nothing is read for that."""
        poll = select.poll()
        for each in self._all:
            if not each.reads and not each.ended:
                poll.register(each.socket, 0)
        return {"dropped": len(poll.poll(0))}

    def _write(self, path: str) -> Mapping[str, Any]:
        with Path(path).open("wb") as file:
            heads = [[each.path, each.cuts, len(each.numbers), len(each.moments)] for each in self._all]
            file.write(json.dumps(heads).encode() + b"\n")
            for each in self._all:
                for kept in (each.numbers, each.moments, each.counts):
                    kept.tofile(file)
        return {}

    def _close(self, _: int) -> Mapping[str, Any]:
        for each in self._all:
            with suppress(KeyError, ValueError):
                self._selector.unregister(each.socket)
            each.socket.close()
        self._all.clear()
        return {}

    def _answer(self, found: Mapping[str, Any]) -> None:
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    Crowd((sys.argv[1], int(sys.argv[2]))).run()
