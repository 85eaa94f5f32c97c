"""Updates: notifies subscribers of changed resources, in both eras of the protocol, soon but in batches.

Owns the subscriptions and the batching of changes. Its `subscribe` and `publish` implement the SDK's `SubscriptionBus`,
which serves the streams of modern clients; older clients are notified over their session. Invariant: a client is notified
only of resources it could see when it subscribed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import anyio
from anyio.abc import TaskGroup

from db.errors import StoreError

if TYPE_CHECKING:
    from mcp.server.session import ServerSession
    from mcp.shared.subscriptions import ServerEvent

    from runner.record.events import Event
    from runner.service.dispatcher import Dispatcher

log = logging.getLogger("outrider.mcp")

GATHER_SECONDS = 0.2
"""Batching of changes: a busy tree must not flood its subscribers."""
LOOK_SECONDS = 0.5
"""Interval of reads of subscribed trees that other processes run."""
SEND_SECONDS = 5.0
"""Time for a client to accept a notification."""
MOST_LEGACY = 1_000
"""Subscriptions of the older era, all clients together; above it the oldest is dropped. Dead sessions are not reported."""

Listener = Callable[["ServerEvent"], None]


class Behind(NamedTuple):
    """The tree behind a URI, its last event at the time of the subscription, and the URI with the whole id."""

    tree: str
    newest: int
    address: str


class Updates:
    """The subscriptions of all clients, and the task that serves them."""

    def __init__(self) -> None:
        self._listeners: dict[object, Listener] = {}
        self._sessions: dict[tuple[str, str], tuple[ServerSession, Behind]] = {}
        """Subscriptions of the older era, by session and URI."""
        self._wanted: dict[object, Mapping[str, Behind]] = {}
        """Subscriptions of the newer era: URIs with their trees."""
        self._last: dict[str, int] = {}
        """The last event read of each tree that another process runs."""
        self._changed: set[str] = set()
        self._something = anyio.Event()

    # -- subscribe -----------------------------------------------------------------------------------------------------

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event; the returned function unsubscribes it."""
        token = object()
        self._listeners[token] = listener
        return lambda: self._listeners.pop(token, None) and None

    @contextmanager
    def wanting(self, addresses: Mapping[str, Behind]) -> Iterator[None]:
        """Watch these URIs until the exit, including those of trees that other processes run."""
        token = object()
        self._wanted[token] = addresses
        try:
            yield
        finally:
            del self._wanted[token]

    def subscribe_session(self, name: str, session: ServerSession, uri: str, behind: Behind) -> None:
        """Subscribe a session of the older era to one resource."""
        self._sessions.pop((name, uri), None)
        self._sessions[name, uri] = session, behind
        while len(self._sessions) > MOST_LEGACY:
            del self._sessions[next(iter(self._sessions))]

    def unsubscribe_session(self, name: str, uri: str) -> None:
        """Remove a subscription, if it exists."""
        self._sessions.pop((name, uri), None)

    async def publish(self, event: ServerEvent) -> None:
        for listener in tuple(self._listeners.values()):
            listener(event)

    # -- tell ----------------------------------------------------------------------------------------------------------

    async def run(self, dispatcher: Dispatcher) -> None:
        """Turn events of executions into updates, until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._tell_in_time, group, name="tell subscribers")
            group.start_soon(self._look_elsewhere, dispatcher, name="look after trees of other processes")
            while True:
                async with dispatcher.services.bus.watch() as events:
                    async for event in events:
                        if (self._listeners or self._sessions) and event["seq"] is not None:
                            self._changed.update(_touched(dispatcher, event))
                            self._something.set()

    def _subscribed(self) -> dict[str, Behind]:
        """All subscribed URIs, as the clients wrote them."""
        given = {uri: behind for (_, uri), (_, behind) in self._sessions.items()}
        for addresses in tuple(self._wanted.values()):
            given.update(addresses)
        return given

    async def _look_elsewhere(self, dispatcher: Dispatcher) -> None:
        """Poll the rows of trees that other processes run: their events are not on this bus."""
        while True:
            await anyio.sleep(LOOK_SECONDS)
            wanted = self._subscribed()
            since = {behind.tree: behind.newest for behind in wanted.values() if dispatcher.tree.get(behind.tree) is None}
            self._last = {tree: self._last.get(tree, newest) for tree, newest in since.items()}
            for tree, before in tuple(self._last.items()):
                try:
                    newest = await dispatcher.services.database.reads.last_event(tree)
                except StoreError as error:
                    log.info("trees of other processes could not be read: %s", error)
                    break
                if newest is not None and newest["seq"] > before:
                    self._last[tree] = newest["seq"]
                    self._changed.update(behind.address for behind in wanted.values() if behind.tree == tree)
                    self._something.set()

    async def _tell_in_time(self, group: TaskGroup) -> None:
        from mcp.shared.subscriptions import ResourceUpdated  # late: the process answers before the SDK is imported

        while True:
            await self._something.wait()
            await anyio.sleep(GATHER_SECONDS)
            self._something = anyio.Event()
            changed, self._changed = self._changed, set()
            short = {uri for uri, behind in self._subscribed().items() if behind.address in changed}
            for uri in sorted(changed | short):
                await self.publish(ResourceUpdated(uri))
            for (name, uri), (session, behind) in tuple(self._sessions.items()):
                if behind.address in changed:
                    group.start_soon(self._tell_session, name, uri, session, name=f"tell a session of {uri}")

    async def _tell_session(self, name: str, uri: str, session: ServerSession) -> None:
        try:
            with anyio.fail_after(SEND_SECONDS):
                await session.send_resource_updated(uri)
        except Exception as error:
            log.info("a session could not be notified of a change: %r", error)
            self.unsubscribe_session(name, uri)


def _touched(dispatcher: Dispatcher, event: Event) -> Iterator[str]:
    """The URIs that an event changes: those of its execution, and the trees of its ancestors."""
    execution = event["execution_id"]
    yield f"execution://{execution}"
    if event["type"].startswith("timeline_event."):
        yield f"execution://{execution}/transcript"
    yield f"execution://{event['root_execution_id']}/tree"
    live = dispatcher.tree.get(execution)
    while live is not None:
        yield f"execution://{live.id}/tree"
        live = live.parent
