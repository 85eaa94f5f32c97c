"""One upstream server as its callers see it: connected at first use, connected again after its death.

Owns: the current connection, the back-off, timeouts, filters and effects, and the words for everything that fails. Must
not know: which agents call or under which names.
Invariant: every call ends within its timeout in a result; only cancellation is raised, and it ends the request
upstream, never the connection.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from runner.tools.back_off import BackOff
from runner.tools.connection import Connection, InputRequired, Mode, Unavailable
from runner.tools.content import cut, tool_result
from runner.tools.ears import Ears, Listed, UpstreamNotice
from runner.tools.incoming import CUT_OFF, NO_MESSAGE, REFUSED, UNREADABLE
from runner.tools.listing import Listing
from runner.tools.own import refuse
from runner.tools.protocol import ToolResult
from runner.transcript import clean

if TYPE_CHECKING:
    from registry.upstreams import UpstreamSpec

PROBE_SECONDS = 5.0
"""How long a server that let a call time out may take to show a sign of life before it is started anew."""

INSTRUCTIONS_CAP = 4000

_HINTS = {
    UNREADABLE: "whether it took effect is unknown; ask for less, or go on without it",
    REFUSED: "go on without it, and say so; other arguments will not help",
}

logger = logging.getLogger("outrider.upstream")


@dataclass(frozen=True, slots=True)
class UpstreamCall:
    """One call, under the server's own name for the tool."""

    id: str
    tool: str
    arguments: Mapping[str, Any]
    timeout: float
    scope_id: str
    """The execution that calls."""
    trace: Mapping[str, str] = field(default_factory=dict)
    """The trace it belongs to, for the server to go on with."""


@dataclass(frozen=True, slots=True)
class Patience:
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
        self._observed: Listing | None = None
        self._connection: Connection | None = None
        self._mode: Mode = "auto"
        self._back_off = BackOff()
        self._verdict: anyio.Event | None = None
        """Set when it is known whether a server that let a call time out still lives."""
        self._closed = False

    async def listing(self, patience: Patience, scope_id: str) -> Listing:
        """Return what the server offers; raise Unavailable when it cannot be asked, or not in time."""
        begun = anyio.current_time()
        connection = await self._connected(patience.altogether)
        seconds = min(patience.answer, begun + patience.altogether - anyio.current_time())
        try:
            with anyio.fail_after(seconds):
                listing = await connection.listing()
        except TimeoutError:
            self._suspect(connection)
            raise Unavailable(f"did not list its tools within {seconds:.3g} s") from None
        except Unavailable:
            raise
        except Exception as error:
            raise Unavailable(connection.failure or f"could not list its tools: {_said(error)}") from error
        await self._hear(listing, scope_id)
        return listing

    async def _hear(self, listing: Listing, scope_id: str) -> None:
        """Have a listing looked at that nobody has seen yet."""
        if listing is self._observed:
            return
        self._observed = listing
        whole = not any(kind == "list_cut" for kind, _ in listing.remarks)
        await self._ears.observe(Listed(self.spec.name, listing.fingerprints, whole, scope_id))

    async def instructions(self) -> str:
        """Return how to use the server: as configured, else in its own words; empty when it has none, or is not there."""
        if self.spec.instructions:
            return self.spec.instructions
        try:
            connection = await self._connected(0)
            said = clean(connection.client.instructions or "").strip()[:INSTRUCTIONS_CAP]
            return self._ears.mask.text(said)
        except Unavailable:
            return ""

    async def call(self, call: UpstreamCall) -> ToolResult:
        """Carry out one call."""
        label = f"{self.spec.name}.{call.tool}"
        if not self.spec.tools.permits(call.tool):
            return failure("refused", f"`{label}` is not permitted by the configuration", "use one of the listed tools")
        try:
            connection = await self._connected()
        except Unavailable as error:
            hint = "go on without it, or try again later"
            return failure("unavailable", f"`{label}` was not called: upstream `{self.spec.name}` {error}", hint)
        result = await self._ears.mask.result(await self._bounded(connection, call, label))
        return cut(result, call.id, self.spec.max_result_bytes)

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
            connection = self._connection = Connection(self.spec, self._mode, self._on_failure, self._on_change)
            self._tasks.start_soon(connection.run, name=f"upstream {self.spec.name}")
        if not connection.settled.is_set():
            with anyio.move_on_after(seconds):
                await connection.settled.wait()
        if not connection.settled.is_set():
            raise Unavailable("is still starting; executions that come later have its tools")
        if connection.failure is not None:
            raise Unavailable(connection.failure)
        return connection

    async def _bounded(self, connection: Connection, call: UpstreamCall, label: str) -> ToolResult:
        try:
            with anyio.fail_after(call.timeout):
                return await self._send(connection, call, label)
        except TimeoutError:
            self._suspect(connection)
            message = f"`{label}` did not answer within {call.timeout:g} s; whether it took effect is unknown"
            return failure("timeout", message, "check what it did before you call it again, or ask for less")
        except InputRequired:
            message = f"`{label}` asked for input from a person, which it cannot have here"
            return failure("tool_error", message, "give all it needs in the arguments")
        except Unavailable as error:
            return self._lost(label, str(error))
        except Exception as error:
            return self._explain(connection, label, error)

    async def _send(self, connection: Connection, call: UpstreamCall, label: str) -> ToolResult:
        # Listed first on every connection: the protocol takes headers of a call from the tool's listed schema.
        listing = await connection.listing()
        await self._hear(listing, call.scope_id)
        if call.tool not in listing.offers:
            return failure("unknown_tool", f"upstream `{self.spec.name}` has no tool `{call.tool}`", "use a listed one")
        answer = await connection.call(call.tool, dict(call.arguments), call.trace)
        self._back_off.worked()
        return tool_result(answer)

    def _explain(self, connection: Connection, label: str, error: Exception) -> ToolResult:
        """The result for whatever the SDK raised."""
        from mcp import MCPError
        from mcp.types import INVALID_PARAMS

        if connection.failure is not None:
            return self._lost(label, connection.failure)
        if isinstance(error, MCPError):
            if error.code == CUT_OFF:
                return self._lost(label, error.message.removeprefix("the server "))
            kind = "invalid_arguments" if error.code == INVALID_PARAMS else "tool_error"
            hint = _HINTS.get(error.code, "correct the arguments, or go on without it")
            return failure(kind, f"`{label}` failed: {_said(error)}", hint)
        logger.warning("%s gave an answer that cannot be used", label, exc_info=error)
        message = f"`{label}` gave an answer that cannot be used ({type(error).__name__})"
        return failure("tool_error", message, "whether it took effect is unknown; go on without it")

    def _lost(self, label: str, reason: str) -> ToolResult:
        message = f"`{label}` was cut off: upstream `{self.spec.name}` {reason}; whether it took effect is unknown"
        return failure("unavailable", message, "check what it did before you call it again; the next call reconnects")

    def _on_failure(self, connection: Connection) -> None:
        connection.failure = self._ears.mask.text(connection.failure or "failed")
        now = anyio.current_time()
        if connection.started:
            self._back_off.died(now)
        else:
            self._back_off.refused(now)
        if connection.was_mute:
            # Some older servers ignore a question they do not know; the next attempt does not ask it, or asks it again.
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


def failure(kind: str, message: str, hint: str) -> ToolResult:
    """An error for a model; the words may be a server's, so they are cleaned."""
    return refuse(kind, clean(message), hint)


def _said(error: Exception) -> str:
    """What went wrong with an answer, without the inner words of a parser."""
    from mcp import MCPError
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        return "it gave an answer that cannot be used"
    if not isinstance(error, MCPError):
        return str(error).strip() or type(error).__name__
    if error.code == UNREADABLE and error.message.startswith("Failed to parse"):
        return NO_MESSAGE
    return error.message.strip() or f"error {error.code}"
