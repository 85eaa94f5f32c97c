"""Updates: subscribers are notified that a resource has changed, in both eras of the protocol, soon and not too often.

Owns the subscriptions and the batching of changes. Its `subscribe` and `publish` are the SDK's `SubscriptionBus`, which
serves the streams of modern clients; older clients are notified over their session. Invariant: a client is notified only of
resources it could see when it subscribed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import anyio
from anyio.abc import TaskGroup
from mcp.server.session import ServerSession
from mcp.shared.subscriptions import ResourceUpdated, ServerEvent

from db.errors import StoreError

if TYPE_CHECKING:
    from runner.record.events import Event
    from runner.service.dispatcher import Dispatcher

log = logging.getLogger("outrider.mcp")

GATHER_SECONDS = 0.2
"""How long changes of one resource are gathered: a busy tree must not become a flood."""
LOOK_SECONDS = 0.5
"""Between reads of subscribed trees that other processes run."""
SEND_SECONDS = 5.0
"""What a client may take to accept a notification."""
MOST_LEGACY = 1_000
"""Subscriptions over sessions, all clients together; the oldest goes first. Sessions do not say when they are gone."""

Listener = Callable[[ServerEvent], None]


class Behind(NamedTuple):
    """The tree behind an address, its last event when a client subscribed, and the same address with a whole id."""

    tree: str
    newest: int
    address: str


class Updates:
    """Who wants to hear of which resource."""

    def __init__(self) -> None:
        self._listeners: dict[object, Listener] = {}
        self._sessions: dict[tuple[str, str], tuple[ServerSession, Behind]] = {}
        """Of the older era: by session and address, with the tree that is behind it."""
        self._wanted: dict[object, Mapping[str, Behind]] = {}
        """Of the newer era: addresses with their trees."""
        self._last: dict[str, int] = {}
        """The last event seen of trees that other processes run."""
        self._changed: set[str] = set()
        self._something = anyio.Event()

    # -- subscribe -----------------------------------------------------------------------------------------------------

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell `listener` of every change; the answer ends that."""
        token = object()
        self._listeners[token] = listener
        return lambda: self._listeners.pop(token, None) and None

    @contextmanager
    def wanting(self, addresses: Mapping[str, Behind]) -> Iterator[None]:
        """Look after these addresses meanwhile, also where other processes run what is behind them."""
        token = object()
        self._wanted[token] = addresses
        try:
            yield
        finally:
            del self._wanted[token]

    def subscribe_session(self, name: str, session: ServerSession, uri: str, behind: Behind) -> None:
        """Tell a session of the older era of changes of one resource."""
        self._sessions.pop((name, uri), None)
        self._sessions[name, uri] = session, behind
        while len(self._sessions) > MOST_LEGACY:
            del self._sessions[next(iter(self._sessions))]

    def unsubscribe_session(self, name: str, uri: str) -> None:
        """No longer; harmless when it was not told."""
        self._sessions.pop((name, uri), None)

    async def publish(self, event: ServerEvent) -> None:
        """Tell every listener."""
        for listener in tuple(self._listeners.values()):
            listener(event)

    # -- tell ----------------------------------------------------------------------------------------------------------

    async def run(self, dispatcher: Dispatcher) -> None:
        """Turn what happens to executions into updates. Runs until it is cancelled."""
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
        """Every address that is wanted, as it was given."""
        given = {uri: behind for (_, uri), (_, behind) in self._sessions.items()}
        for addresses in tuple(self._wanted.values()):
            given.update(addresses)
        return given

    async def _look_elsewhere(self, dispatcher: Dispatcher) -> None:
        """What other processes do is not told here: now and then, look whether something new is in the rows."""
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
    """The addresses an event changes: the execution's own, and the trees it stands in."""
    execution = event["execution_id"]
    yield f"execution://{execution}"
    if event["type"].startswith("timeline_event."):
        yield f"execution://{execution}/transcript"
    yield f"execution://{event['root_execution_id']}/tree"
    live = dispatcher.tree.get(execution)
    while live is not None:
        yield f"execution://{live.id}/tree"
        live = live.parent
