"""One upstream server as its callers see it: connected at first use, connected again after its death.

Owns: the current connection, the back-off, timeouts and filters, and the one repetition of a call that may be repeated.
Must not know: which agents call or under which names.
Invariant: every call ends within its timeout in a result; only cancellation is raised, and it ends the request
upstream, never the connection. A call is sent at most once, or at most twice if its effect allows that.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from runner.messages import clean
from runner.tools.effects import may_repeat
from runner.tools.protocol import ToolResult
from runner.tools.upstream.backoff import BackOff
from runner.tools.upstream.call import UpstreamCall, away, said
from runner.tools.upstream.connection import Connection, InputRequired, Mode, Unavailable
from runner.tools.upstream.content import cut, tool_result
from runner.tools.upstream.listing import ToolListing
from runner.tools.upstream.notices import Ears, Listed, UpstreamNotice

if TYPE_CHECKING:
    from registry.specs.upstreams import UpstreamSpec

PROBE_SECONDS = 5.0
"""How long a server that let a call time out may take to show a sign of life before it is started anew."""

INSTRUCTIONS_CAP = 4000

logger = logging.getLogger("outrider.upstream")


@dataclass(frozen=True, slots=True)
class ListingTimeouts:
    """How long a list of tools is waited for: for the answer, and for the start of the server and the answer."""

    answer: float
    altogether: float


class Upstream:
    """A server and the one connection to it; its owner task runs in the given task group."""

    def __init__(self, spec: UpstreamSpec, tasks: TaskGroup, ears: Ears, scope_id: str | None = None) -> None:
        self.spec = spec
        self._tasks = tasks
        self._ears = ears
        self._scope_id = scope_id
        self._observed: ToolListing | None = None
        self._connection: Connection | None = None
        self._mode: Mode = "auto"
        self._back_off = BackOff()
        self._verdict: anyio.Event | None = None
        """Set when it is known whether a server that let a call time out still lives."""
        self._closed = False

    async def listing(self, timeouts: ListingTimeouts, scope_id: str) -> ToolListing:
        """Return what the server offers; raise Unavailable when it cannot be asked, or not in time."""
        begun = anyio.current_time()
        connection = await self._connected(timeouts.altogether)
        seconds = min(timeouts.answer, begun + timeouts.altogether - anyio.current_time())
        try:
            with anyio.fail_after(seconds):
                listing = await connection.listing()
        except TimeoutError:
            self._suspect(connection)
            raise Unavailable(f"did not list its tools within {seconds:.3g} s") from None
        except Unavailable:
            raise
        except Exception as error:
            reason = self._ears.mask.text(f"could not list its tools: {said(error)}")
            raise Unavailable(connection.failure or reason) from error
        await self._hear(listing, scope_id)
        return listing

    async def _hear(self, listing: ToolListing, scope_id: str) -> None:
        """Have a listing looked at that nobody has seen yet."""
        if listing is self._observed:
            return
        self._observed = listing
        whole = not any(kind == "list_cut" for kind, _ in listing.remarks)
        seen = {self._ears.mask.text(tool): each for tool, each in listing.fingerprints.items()}
        await self._ears.observe(Listed(self.spec.name, seen, whole, scope_id))

    async def instructions(self) -> str:
        """Return how to use the server: as configured, else in its own words; empty when it has none, or is not there."""
        if self.spec.instructions:
            return self.spec.instructions
        try:
            connection = await self._connected(0)
            said = clean(connection.client.instructions or "").strip()[: 2 * INSTRUCTIONS_CAP]
            return self._ears.mask.text(said)[:INSTRUCTIONS_CAP]
        except Unavailable:
            return ""

    async def call(self, call: UpstreamCall) -> ToolResult:
        """Carry out one call."""
        if not self.spec.tools.permits(call.tool):
            return call.refused()
        try:
            connection = await self._connected()
        except Unavailable as error:
            return call.not_called(str(error))
        ends = anyio.current_time() + call.timeout
        result = await self._bounded(connection, call, ends)
        if result.error_type == "unavailable" and may_repeat(call.effect):
            result = await self._once_more(call, ends, result)
        return cut(await self._ears.mask.result(result), call.id, self.spec.max_result_bytes)

    async def _once_more(self, call: UpstreamCall, ends: float, lost: ToolResult) -> ToolResult:
        """Make a call that was cut off again, in the time it has left; it stays lost when the server cannot be reached."""
        try:
            connection = await self._connected(ends - anyio.current_time())
        except Unavailable:
            return lost
        message = f"`{call.label}` was cut off and is made once more, as its effect allows"
        self._ears.notify(UpstreamNotice(call.server, "repeated", message, call.scope_id))
        return await self._bounded(connection, call, ends)

    def close(self) -> None:
        """End the connection; `gone` tells when it has ended. Later calls are refused."""
        self._closed = True
        if self._connection is not None:
            self._connection.close()

    async def gone(self) -> None:
        """Wait until the connection has ended, its process included."""
        if self._connection is not None:
            await self._connection.ended.wait()

    async def _connected(self, seconds: float = math.inf) -> Connection:
        """The connection, made if there is none; callers at the same time share one attempt, which goes on without them."""
        if self._verdict is not None:
            with anyio.move_on_after(seconds):
                await self._verdict.wait()
        connection = self._connection
        if self._closed:
            raise Unavailable("is closed")
        if connection is None or not connection.usable:
            wait = self._back_off.remaining(anyio.current_time())
            if wait > 0:
                reason = connection.failure if connection is not None else None
                raise Unavailable(f"{reason or 'failed'} (tried again in {wait:.0f} s at the earliest)")
            connection = self._connection = Connection(
                self.spec, self._mode, self._on_failure, self._on_change, self._ears.mask.text
            )
            self._tasks.start_soon(connection.run, name=f"upstream {self.spec.name}")
        if not connection.settled.is_set():
            with anyio.move_on_after(seconds):
                await connection.settled.wait()
        if not connection.settled.is_set():
            raise Unavailable("is still starting; executions that come later have its tools")
        if connection.failure is not None:
            raise Unavailable(connection.failure)
        return connection

    async def _bounded(self, connection: Connection, call: UpstreamCall, ends: float) -> ToolResult:
        try:
            with anyio.fail_after(ends - anyio.current_time()):
                return await self._send(connection, call)
        except TimeoutError:
            self._suspect(connection)
            return call.too_slow()
        except InputRequired:
            return call.wants_input()
        except Unavailable as error:
            call.flight.sent = False  # raised before anything is sent
            return call.lost(str(error))
        except Exception as error:
            if (reason := away(error)) is not None:
                connection.fail(reason)
                return call.not_called(reason)
            return call.failed(error, None if connection.usable else connection.failure or "was closed")

    async def _send(self, connection: Connection, call: UpstreamCall) -> ToolResult:
        # Listed first on every connection: the protocol takes headers of a call from the tool's listed schema.
        listing = await connection.listing()
        await self._hear(listing, call.scope_id)
        if call.tool not in listing.offers:
            return call.unknown()
        call.flight.sent = True
        answer = await connection.call(call.tool, dict(call.arguments), call.trace)
        self._back_off.worked()
        return tool_result(answer)

    def _on_failure(self, connection: Connection) -> None:
        connection.failure = self._ears.mask.text(connection.failure or "failed")
        now = anyio.current_time()
        if connection.started:
            self._back_off.died(now)
        else:
            self._back_off.refused(now)
        if connection.was_mute:
            # Some older servers ignore a request they do not know; the next attempt does not ask it, or asks it again.
            self._mode = "legacy" if connection.mode == "auto" else "auto"
        kind = "lost" if connection.started else "unavailable"
        logger.warning("upstream %s %s", self.spec.name, connection.failure)
        message = f"upstream `{self.spec.name}` {connection.failure}"
        if not connection.started:
            message += f"\nhint: check `mcp_servers.{self.spec.name}`"
        self._tell(kind, message)

    def _on_change(self) -> None:
        self._tell("list_changed", f"`{self.spec.name}` has changed its tools; executions that start now see them")

    def _tell(self, kind: str, message: str) -> None:
        self._ears.notify(UpstreamNotice(self.spec.name, kind, message, self._scope_id))

    def _suspect(self, connection: Connection) -> None:
        """After a timeout, find out in the background whether the tool is slow or the server is stuck."""
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
