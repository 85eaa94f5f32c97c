"""One connection to an upstream server, from start to end, in one task.

Owns the mcp client (entered and left in `run`, in the same task) and the reason it ended. Must not know: agents, sent
names, or reconnecting. Invariant: `settled` is set within the start timeout, with a client or a failure; after a failure
no call is served.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from db.clock import loop_time
from runner.errors import first_cause
from runner.tools.upstream.listing import ToolListing, list_offers
from runner.tools.upstream.process import CannotStart, ServerCommand, StderrTail

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult, InputRequiredResult
    from pydantic import TypeAdapter

    from registry.specs.upstreams import UpstreamSpec

LISTING_SECONDS = 60.0
"""How long a listing stays current, for a server that does not announce changes."""

Mode = Literal["auto", "legacy"]
"""Whether to ask for the server's protocol version, or use the older handshake without asking."""

logger = logging.getLogger("outrider.upstream")


async def load_sdk() -> None:
    """Import the SDK in a thread: it takes half a second. If another thread imports it already, this waits, too."""
    await anyio.to_thread.run_sync(import_module, "mcp")


class Unavailable(Exception):
    """The server is unavailable; the message says why."""


class InputRequired(Exception):
    """The server asked for input from a person."""


class Connection:
    """A client of one server: started once, ended once."""

    def __init__(
        self,
        spec: UpstreamSpec,
        mode: Mode,
        on_failure: Callable[[Connection], None],
        on_change: Callable[[], None] = lambda: None,
        clear: Callable[[str], str] = str,
    ) -> None:
        self.spec = spec
        self.mode = mode
        self.was_mute = False
        self.settled = anyio.Event()
        self.ended = anyio.Event()
        self.failure: str | None = None
        self._on_failure = on_failure
        self._on_change = on_change
        self._closing = anyio.Event()
        self._starting: anyio.CancelScope | None = None
        self._client: Client | None = None
        self._clear = clear
        """Masks secrets in the server's text."""
        self._stderr_tail = StderrTail(clear)
        self._listing: ToolListing | None = None
        self._listed_at = 0.0
        self._listing_lock = anyio.Lock()

    @property
    def started(self) -> bool:
        """Whether the server ever answered."""
        return self._client is not None

    @property
    def usable(self) -> bool:
        """Whether calls may be made, now or once it has settled."""
        return self.failure is None and not self._closing.is_set()

    @property
    def client(self) -> Client:
        """The client of a working connection; raises Unavailable."""
        if self._client is None or not self.usable:
            raise Unavailable(self.failure or "the connection is closed")
        return self._client

    async def run(self) -> None:
        """Connect, and keep the client open until the connection is closed or lost; raises nothing but cancellation."""
        try:
            async with anyio.create_task_group() as tasks:
                self._starting = tasks.cancel_scope
                if self.spec.command is None:
                    await load_sdk()  # the transport over HTTP is the SDK's
                async with self._transport() as streams:
                    await load_sdk()  # while the process starts
                    tasks.start_soon(self._watch_start, tasks.cancel_scope)
                    await self._live(streams, tasks)
        except Exception as error:
            self.fail(_reason(error))
            logger.debug("connection to %s ended", self.spec.name, exc_info=error)
        finally:
            self._closing.set()
            self.settled.set()
            self.ended.set()

    async def listing(self) -> ToolListing:
        """The server's tools; concurrent callers share one request."""
        if (current := self._current()) is not None:
            return current  # on the path of every call: no lock, no checkpoint
        async with self._listing_lock:
            if (current := self._current()) is None:
                asked_at = loop_time()
                current = self._listing = await list_offers(self.client, self.spec)
                self._listed_at = asked_at
            return current

    def _current(self) -> ToolListing | None:
        old = self._listing is not None and loop_time() - self._listed_at > LISTING_SECONDS
        return None if old else self._listing

    async def call(self, tool: str, arguments: dict[str, Any], trace: Mapping[str, str]) -> CallToolResult:
        """Send one call. Results are not validated against the server's schema: that would run its patterns here."""
        import mcp.types as t

        meta = cast("t.RequestParamsMeta", dict(trace)) if trace else None
        request = t.CallToolRequest(params=t.CallToolRequestParams(name=tool, arguments=arguments, _meta=meta))
        answer = await self.client.session.send_request(request, _answer_adapter())
        if isinstance(answer, t.InputRequiredResult):
            raise InputRequired
        return answer

    async def answers(self) -> bool:
        """Probe the server."""
        from mcp import MCPError

        try:
            await self.client.list_tools()
        except Unavailable:
            return False
        except MCPError:
            return self.usable
        return True

    def close(self) -> None:
        """Request the end; `ended` is set when it is reached. A start in progress is abandoned."""
        self._closing.set()
        if not self.started and self._starting is not None:
            self._starting.cancel()

    def fail(self, reason: str) -> None:
        """Record why the connection is unusable; the first reason stands, and a closed connection needs none."""
        if not self.usable:
            return
        said = str(self._stderr_tail)
        self.failure = f"{reason}; it said: {said}" if said else reason
        self._on_failure(self)
        self.settled.set()
        self._closing.set()

    async def _watch_start(self, scope: anyio.CancelScope) -> None:
        """End a start that takes too long. The failure is reported before the clean-up, which may be slow."""
        with anyio.move_on_after(self.spec.start_timeout):
            await self.settled.wait()
        if not self.settled.is_set():
            self.was_mute = True
            self.fail(f"did not answer within {self.spec.start_timeout:g} s of its start")
            scope.cancel()

    async def _live(self, streams: Any, tasks: TaskGroup) -> None:
        from mcp import Client

        listening = anyio.CancelScope()
        transport = nullcontext(streams)
        async with Client(transport, mode=self.mode, cache=None, message_handler=self._on_message) as client:
            self._client = client
            who = client.server_info
            logger.info(
                "upstream %s connected: %s, protocol %s",
                self.spec.name,
                self._clear(f"{who.name} {who.version}") if who is not None else "nameless",
                client.protocol_version,
            )
            self.settled.set()
            tasks.start_soon(self._listen, client, listening, name=f"changes of {self.spec.name}")
            await self._closing.wait()
            listening.cancel()

    async def _listen(self, client: Client, listening: anyio.CancelScope) -> None:
        """Subscribe to changes in the newer protocol; a server that does not support it is asked now and then."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        offered = client.server_capabilities.tools
        if offered is None or not offered.list_changed:
            return
        try:
            with listening:
                async with client.listen(tools_list_changed=True) as changes:
                    async for _ in changes:
                        self._outdated()
        except (MCPError, ListenNotSupportedError, SubscriptionLost) as error:
            logger.debug("upstream %s announces no changes: %s", self.spec.name, error)

    def _transport(self) -> Any:
        if self.spec.command is not None:
            from runner.tools.upstream.stdio import stdio_transport

            command = ServerCommand(self.spec.command, self.spec.env, self.spec.cwd)
            return stdio_transport(command, self._stderr_tail, self.fail)
        from runner.tools.upstream.http import http_transport

        return http_transport(self.spec.url or "", self.spec.headers, self.fail)

    async def _on_message(self, message: object) -> None:
        import mcp.types as t

        if isinstance(message, t.ToolListChangedNotification):
            self._outdated()

    def _outdated(self) -> None:
        """The listing changed: it is fetched again at its next use, and announced once until then."""
        if self._listing is not None:
            self._listing = None
            self._on_change()


@cache
def _answer_adapter() -> TypeAdapter[InputRequiredResult | CallToolResult]:
    """The types of answers to a call; cached, because building it costs more than the call."""
    import mcp.types as t
    from pydantic import TypeAdapter

    return TypeAdapter(t.InputRequiredResult | t.CallToolResult)


def _reason(error: Exception) -> str:
    """The first cause inside nested groups, as text."""
    cause = first_cause(error)
    if isinstance(cause, CannotStart):
        return str(cause)
    return f"could not be connected: {str(cause).strip() or type(cause).__name__}"
