"""One upstream server as its callers see it: connected at first use, and again after it died.

Owns the current connection, the back-off, timeouts and filters, and the one repetition of a repeatable call. Must not know:
which agents call, or sent names. Invariants: every call ends within its timeout in a result; only cancellation is raised,
and it ends the request, never the connection. A call is sent at most once, or twice if its effect allows that.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import anyio
from anyio.abc import TaskGroup

from db.clock import loop_time
from runner.messages import clean
from runner.tools.effects import may_repeat
from runner.tools.protocol import ToolResult
from runner.tools.upstream.call import UpstreamCall, error_text, unreachable_reason
from runner.tools.upstream.connection import Connection, InputRequired, Mode, Unavailable
from runner.tools.upstream.content import cut, tool_result
from runner.tools.upstream.listing import ToolListing
from runner.tools.upstream.notices import ListedTools, UpstreamListeners, UpstreamNotice

if TYPE_CHECKING:
    from registry.specs.upstreams import UpstreamSpec

PROBE_SECONDS = 5.0
"""How long a server that let a call time out may take to answer a probe before it is restarted."""

INSTRUCTIONS_CAP = 4000

LONGEST_WAIT = 30.0
"""Seconds between attempts to connect, at most."""

logger = logging.getLogger("outrider.upstream")


@dataclass(frozen=True, slots=True)
class ListingTimeouts:
    """Timeouts for a list of tools: for the answer, and for start and answer together."""

    answer: float
    altogether: float


class BackOff:
    """Waits of 1, 2, 4 … 30 seconds between failing attempts to connect; the caller passes the time.

    The first death of a healthy server costs no wait; a server that cannot be started is not restarted in a loop.
    """

    def __init__(self) -> None:
        self._strikes = 0
        self._until = 0.0

    def remaining(self, now: float) -> float:
        """Seconds until the next attempt is due; 0 when it is."""
        return max(0.0, self._until - now)

    def died(self, now: float) -> None:
        """A working server ended; the next attempt is due at once, unless it keeps dying."""
        self._strike(now, self._strikes + 1)

    def refused(self, now: float) -> None:
        """An attempt to start or reach the server failed."""
        self._strike(now, max(self._strikes, 1) + 1)

    def worked(self) -> None:
        """A call succeeded: forget earlier failures."""
        self._strikes = 0
        self._until = 0.0

    def _strike(self, now: float, strikes: int) -> None:
        self._strikes = strikes
        wait = 0.0 if strikes < 2 else min(2.0 ** min(strikes - 2, 10), LONGEST_WAIT)
        self._until = now + wait


@dataclass(frozen=True, slots=True)
class ConnectionState:
    """How a server is, without asking it."""

    state: Literal["idle", "connecting", "ready", "unavailable"]
    """`idle` until its first use."""
    error: str | None = None
    """Why it is unavailable."""
    listing: ToolListing | None = None
    """Its tools, where they were listed."""


class Upstream:
    """A server and its one connection; the owner task runs in the given task group."""

    def __init__(
        self, spec: UpstreamSpec, tasks: TaskGroup, listeners: UpstreamListeners, scope_id: str | None = None
    ) -> None:
        self.spec = spec
        self._tasks = tasks
        self._listeners = listeners
        self._scope_id = scope_id
        self._observed: ToolListing | None = None
        self._connection: Connection | None = None
        self._mode: Mode = "auto"
        self._back_off = BackOff()
        self._verdict: anyio.Event | None = None
        """Set when the probe after a timed-out call has ended."""
        self._closed = False

    @property
    def is_up(self) -> bool:
        """Whether its connection works."""
        return self._connection is not None and self._connection.started and self._connection.usable

    async def listing(self, timeouts: ListingTimeouts, scope_id: str) -> ToolListing:
        """The server's tools; raises Unavailable, also after a timeout."""
        begun = loop_time()
        connection = await self._connected(timeouts.altogether)
        seconds = min(timeouts.answer, begun + timeouts.altogether - loop_time())
        try:
            with anyio.fail_after(seconds):
                listing = await connection.listing()
        except TimeoutError:
            self._start_probe(connection)
            raise Unavailable(f"did not list its tools within {seconds:.3g} s") from None
        except Unavailable:
            raise
        except Exception as error:
            reason = self._listeners.mask.text(f"could not list its tools: {error_text(error)}")
            raise Unavailable(connection.failure or reason) from error
        await self._observe(listing, scope_id)
        return listing

    @property
    def state(self) -> ConnectionState:
        """How it is now."""
        connection = self._connection
        if connection is None:
            return ConnectionState("idle")
        if connection.failure is not None:
            return ConnectionState("unavailable", connection.failure, self._observed)
        if not connection.settled.is_set():
            return ConnectionState("connecting", None, self._observed)
        return ConnectionState("ready" if connection.usable else "idle", None, self._observed)

    async def _observe(self, listing: ToolListing, scope_id: str) -> None:
        """Have a new listing observed."""
        if listing is self._observed:
            return
        self._observed = listing
        whole = not any(kind == "list_cut" for kind, _ in listing.remarks)
        seen = {self._listeners.mask.text(tool): each for tool, each in listing.fingerprints.items()}
        await self._listeners.observe(ListedTools(self.spec.name, seen, whole, scope_id))

    async def instructions(self) -> str:
        """The instructions for the server: configured, else its own; empty if it has none or is unavailable."""
        if self.spec.instructions:
            return self.spec.instructions
        try:
            connection = await self._connected(0)
            said = clean(connection.client.instructions or "").strip()[: 2 * INSTRUCTIONS_CAP]
            return self._listeners.mask.text(said)[:INSTRUCTIONS_CAP]
        except Unavailable:
            return ""

    async def call(self, call: UpstreamCall) -> ToolResult:
        """Make one call."""
        if not self.spec.tools.permits(call.tool):
            return call.refused()
        try:
            connection = await self._connected()
        except Unavailable as error:
            return call.not_called(str(error))
        ends = loop_time() + call.timeout
        result = await self._bounded(connection, call, ends)
        if result.error_type == "unavailable" and may_repeat(call.effect):
            result = await self._repeat(call, ends, result)
        return cut(await self._listeners.mask.result(result), call.id, self.spec.max_result_bytes)

    async def _repeat(self, call: UpstreamCall, ends: float, lost: ToolResult) -> ToolResult:
        """Repeat a call that was cut off, in its remaining time; it stays lost if the server cannot be reached."""
        try:
            connection = await self._connected(ends - loop_time())
        except Unavailable:
            return lost
        message = f"`{call.label}` was cut off and is repeated, as its effect allows"
        self._listeners.notify(UpstreamNotice(call.server, "repeated", message, call.scope_id))
        return await self._bounded(connection, call, ends)

    def close(self) -> None:
        """Close the connection; `wait_closed` waits for its end. Later calls are refused."""
        self._closed = True
        if self._connection is not None:
            self._connection.close()

    async def wait_closed(self) -> None:
        """Wait until the connection and its process have ended."""
        if self._connection is not None:
            await self._connection.ended.wait()

    async def _connected(self, seconds: float = math.inf) -> Connection:
        """The connection, opened if there is none; concurrent callers share one attempt, which continues without them."""
        if self._verdict is not None:
            with anyio.move_on_after(seconds):
                await self._verdict.wait()
        connection = self._connection
        if self._closed:
            raise Unavailable("is closed")
        if connection is None or not connection.usable:
            wait = self._back_off.remaining(loop_time())
            if wait > 0:
                reason = connection.failure if connection is not None else None
                raise Unavailable(f"{reason or 'failed'} (next attempt in {wait:.0f} s at the earliest)")
            connection = self._connection = Connection(
                self.spec, self._mode, self._on_failure, self._on_change, self._listeners.mask.text
            )
            self._tasks.start_soon(connection.run, name=f"upstream {self.spec.name}")
        if not connection.settled.is_set():
            with anyio.move_on_after(seconds):
                await connection.settled.wait()
        if not connection.settled.is_set():
            raise Unavailable("is still starting; later executions get its tools")
        if connection.failure is not None:
            raise Unavailable(connection.failure)
        return connection

    async def _bounded(self, connection: Connection, call: UpstreamCall, ends: float) -> ToolResult:
        try:
            with anyio.fail_after(ends - loop_time()):
                return await self._send(connection, call)
        except TimeoutError:
            self._start_probe(connection)
            return call.too_slow()
        except InputRequired:
            return call.wants_input()
        except Unavailable as error:
            call.flight.sent = False  # raised before anything was sent
            return call.lost(str(error))
        except Exception as error:
            if (reason := unreachable_reason(error)) is not None:
                connection.fail(reason)
                return call.not_called(reason)
            return call.failed(error, None if connection.usable else connection.failure or "was closed")

    async def _send(self, connection: Connection, call: UpstreamCall) -> ToolResult:
        # Listed first on every connection: the protocol derives headers of a call from the tool's listed schema.
        listing = await connection.listing()
        await self._observe(listing, call.scope_id)
        if call.tool not in listing.offers:
            return call.unknown()
        call.flight.sent = True
        if call.flight.trace is not None:
            call.flight.protocol = connection.client.protocol_version
        answer = await connection.call(call.tool, dict(call.arguments), call.trace)
        self._back_off.worked()
        return tool_result(answer)

    def _on_failure(self, connection: Connection) -> None:
        connection.failure = self._listeners.mask.text(connection.failure or "failed")
        now = loop_time()
        if connection.started:
            self._back_off.died(now)
        else:
            self._back_off.refused(now)
        if connection.was_mute:
            # Some older servers ignore an unknown request; alternate between asking for the version and not asking.
            self._mode = "legacy" if connection.mode == "auto" else "auto"
        kind = "lost" if connection.started else "unavailable"
        logger.warning("upstream %s %s", self.spec.name, connection.failure)
        message = f"upstream `{self.spec.name}` {connection.failure}"
        if not connection.started:
            message += f"\nhint: check `mcp_servers.{self.spec.name}`"
        self._notify(kind, message)

    def _on_change(self) -> None:
        self._notify("list_changed", f"`{self.spec.name}` has changed its tools; new executions get the changes")

    def _notify(self, kind: str, message: str) -> None:
        self._listeners.notify(UpstreamNotice(self.spec.name, kind, message, self._scope_id))

    def _start_probe(self, connection: Connection) -> None:
        """After a timeout, probe in the background whether the tool is slow or the server is stuck."""
        if self._verdict is None and connection.usable:
            self._verdict = anyio.Event()
            self._tasks.start_soon(self._probe, connection, name=f"probe of {self.spec.name}")

    async def _probe(self, connection: Connection) -> None:
        alive = False
        try:
            with anyio.move_on_after(PROBE_SECONDS):
                alive = await connection.answers()
        except Exception as error:
            logger.debug("probe of %s failed", self.spec.name, exc_info=error)
        finally:
            if not alive:
                connection.fail("stopped answering")
            if self._verdict is not None:
                self._verdict.set()
                self._verdict = None
