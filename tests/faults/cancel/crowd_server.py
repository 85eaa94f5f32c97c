"""A model server in a process of its own, for a crowd of agents most of which wait for it: `python -m … CAPTAINS LEAVES`.

Owns: the answers that make a tree of that size, and the count of open connections. Must not know: Outrider.
Invariant: its first line of output is its address; every line it reads is answered with what it has seen, in JSON. Its
clock is the machine's monotonic one, which its reader has, too.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import count

import anyio
from anyio.abc import ByteStream, SocketAttribute

from tests.support.messages_api import Answer, MessagesApi, Received, mute, reply, text, tool_use


class Crowd(MessagesApi):
    """A tree of hanging leaves, and beside them one agent that dispatches without end."""

    def __init__(self, captains: int, leaves: int) -> None:
        super().__init__(self._answer)
        self._sent = {"Lead": ["Captain"] * captains + ["Busy"], "Captain": ["Leaf"] * leaves, "Busy": ["Quick"]}
        self._numbers = count(1)
        self._hanging: set[int] = set()
        """The connections whose request is never answered; others may stay open and idle."""
        self.hung = 0
        self.closed_at = 0.0
        """When the last of these was closed."""

    def _answer(self, received: Received) -> Answer:
        body, number = received.body, next(self._numbers)
        agent, made = body["model"], any(message["role"] == "assistant" for message in body["messages"])
        if agent == "Leaf":
            self.hung += 1
            self._hanging.add(received.connection)
            return mute()
        if agent == "Quick":
            return reply(text("done"))
        if made and agent != "Busy":
            return reply(text("waiting"))
        tasks = enumerate(self._sent[agent])
        return reply(
            *(tool_use("dispatch_agent", {"name": n, "task": f"{number}.{i}"}, f"toolu_{number}_{i}") for i, n in tasks)
        )

    async def serve(self, stream: ByteStream) -> None:
        """As any connection, but counted."""
        number = self.connections + 1
        try:
            await super().serve(stream)
        finally:
            if number in self._hanging:
                self._hanging.discard(number)
                self.closed_at = time.monotonic()

    def seen(self) -> str:
        """What there is to tell."""
        return json.dumps({"open": len(self._hanging), "hung": self.hung, "closed_at": self.closed_at})


async def main() -> None:
    """Serve until nobody asks any more."""
    crowd = Crowd(*map(int, sys.argv[1:]))
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0, backlog=4096)
    tell(f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, crowd.serve)
        while await anyio.to_thread.run_sync(sys.stdin.readline):
            tell(crowd.seen())
        group.cancel_scope.cancel()


def tell(line: str) -> None:
    """Say it at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    anyio.run(main)
