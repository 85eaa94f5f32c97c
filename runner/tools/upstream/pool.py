"""All upstream servers of a service, and the executor that offers some of them to an execution.

Owns the task group of the owner tasks, which connections are shared or belong to one execution, and sent names.
Must not know: executions, strategies, rows; an execution is a `scope_id` here.
Invariants: an executor never ends a shared connection; a failed server takes away no other server's tools.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Self

import anyio
from anyio.abc import TaskGroup

from registry.specs.upstreams import DEFAULT_START_TIMEOUT
from runner.messages import Tool, ToolCall
from runner.text import escape_blocks, escape_blocks_in
from runner.tools.naming import NameTable, Target, normalise, why_unknown
from runner.tools.protocol import ToolResult
from runner.tools.upstream.call import UpstreamCall, failure
from runner.tools.upstream.connection import Unavailable, load_sdk
from runner.tools.upstream.listing import DESCRIPTION_CAP, Hints, Offer, ToolListing
from runner.tools.upstream.notices import ListedTools, UpstreamListeners, UpstreamNotice
from runner.tools.upstream.server import ConnectionState, ListingTimeouts, Upstream

if TYPE_CHECKING:
    from registry.specs.upstreams import UpstreamSpec
    from runner.tools.secrets import Mask

CLOSE_GRACE = 8.0
"""Seconds for all servers to stop, in parallel; longer than the stop sequence of one process."""

SERVER_WAIT = 4.5
"""Seconds an execution waits for one of several servers before it starts without its tools."""

UNTRUSTED = "at_most_once"
"""The effect of a tool without a trusted annotation."""

Shelter = Callable[[str], AbstractAsyncContextManager[TaskGroup]]
"""Makes a named task group that only its owner cancels: connections must outlive the cancelled scope of a service."""

_CONCERNS_ALL = frozenset({"lost", "list_changed"})

logger = logging.getLogger("outrider.upstream")


@dataclass(frozen=True, slots=True)
class UpstreamCaller:
    """An execution, as servers know it."""

    scope_id: str
    timeout: float | None = None
    """Its default timeout of a call."""
    trace: Mapping[str, str] = field(default_factory=dict)
    """The trace context of its calls."""


class Upstreams:
    """The servers of a configuration. Enter it in the service's lifespan, and leave it in the same task."""

    def __init__(
        self, specs: Mapping[str, UpstreamSpec], *, default_timeout: float, listeners: UpstreamListeners, shelter: Shelter
    ) -> None:
        self._specs = specs
        self._default_timeout = default_timeout
        self.mask = listeners.mask
        self._listeners = listeners
        self._own_listeners = UpstreamListeners(self.notify, self._observe, listeners.mask)
        self._users: dict[str, set[str]] = {}
        """The executions that use a server: a change of a shared connection concerns each."""
        self._shared: dict[str, Upstream] = {}
        self._scoped: dict[str, dict[str, Upstream]] = {}
        """For each execution, the servers that are its own."""
        self._configurations: list[Upstreams] = []
        self._group: TaskGroup | None = None
        self._shelter = shelter

    async def __aenter__(self) -> Self:
        self._sheltered = self._shelter("hold upstreams")
        self._group = await self._sheltered.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        with anyio.move_on_after(CLOSE_GRACE, shield=True):
            await _close([server for each in (self, *self._configurations) for server in each.connected])
        return await self._sheltered.__aexit__(kind, error, trace)

    def edition(
        self, specs: Mapping[str, UpstreamSpec], *, default_timeout: float, listeners: UpstreamListeners
    ) -> Upstreams:
        """The servers of another configuration; they end with these."""
        other = Upstreams(specs, default_timeout=default_timeout, listeners=listeners, shelter=self._shelter)
        other._group = self._group
        self._configurations.append(other)
        return other

    @property
    def connected(self) -> list[Upstream]:
        """The servers that were used."""
        return [*self._shared.values(), *(each for own in self._scoped.values() for each in own.values())]

    @property
    def up(self) -> Mapping[str, bool]:
        """Whether each server that was used is connected; one that belongs to several executions, if it is for all."""
        found: dict[str, bool] = {}
        for upstream in self.connected:
            found[upstream.spec.name] = upstream.is_up and found.get(upstream.spec.name, True)
        return found

    def state(self, server: str) -> ConnectionState:
        """How a server is, without asking it; of several connections, the one that was used last."""
        used = [self._shared.get(server), *(own.get(server) for own in self._scoped.values())]
        return next((each.state for each in reversed(used) if each is not None), ConnectionState("idle"))

    def offered(self, server: str, listing: ToolListing) -> list[Tool]:
        """The tools of a listing as agents get them, under the server's own names."""
        spec = self._specs[server]
        return [_tool(spec, offer, offer.tool, self.mask) for offer in listing.offers.values()]

    async def prepare(self) -> None:
        """Import the SDK before the first use; no server is started."""
        if self._specs:
            await load_sdk()

    def tools(self, servers: Sequence[str], caller: UpstreamCaller) -> UpstreamTools:
        """The tools of these servers for one execution."""
        upstreams = [self._upstream(server, caller.scope_id) for server in dict.fromkeys(servers)]
        for server in servers:
            self._users.setdefault(server, set()).add(caller.scope_id)
        return UpstreamTools(self, upstreams, caller, caller.timeout or self._default_timeout)

    async def instructions(self, servers: Sequence[str], scope_id: str) -> Mapping[str, str]:
        """The instructions of these servers, where there are any, in the order given."""
        texts = dict.fromkeys(servers, "")

        async def ask(server: str) -> None:
            texts[server] = await self._upstream(server, scope_id).instructions()

        async with anyio.create_task_group() as tasks:
            for server in texts:
                tasks.start_soon(ask, server)
        return {server: text for server, text in texts.items() if text}

    def notify(self, notice: UpstreamNotice) -> None:
        """Pass a notice to every execution it concerns; a listener's failure never fails a call."""
        concerns_all = notice.scope_id is None and notice.kind in _CONCERNS_ALL
        for scope_id in list(self._users.get(notice.server, ())) if concerns_all else [notice.scope_id]:
            try:
                self._listeners.notify(replace(notice, scope_id=scope_id))
            except Exception:
                logger.exception("a notice about upstream %s was not delivered", notice.server)

    async def _observe(self, listed: ListedTools) -> None:
        try:
            await self._listeners.observe(listed)
        except Exception:
            logger.exception("the tools of upstream %s were not compared with the known ones", listed.server)

    def release(self, scope_id: str) -> None:
        """Close the connections of one execution. Their owner tasks end the processes; this does not wait."""
        for users in self._users.values():
            users.discard(scope_id)
        for upstream in self._scoped.pop(scope_id, {}).values():
            upstream.close()

    def _upstream(self, server: str, scope_id: str) -> Upstream:
        if self._group is None:
            raise RuntimeError("`Upstreams` must be entered before its tools are used")
        spec = self._specs[server]
        if spec.isolation == "per_execution":
            own = self._scoped.setdefault(scope_id, {})
            if server not in own:
                own[server] = Upstream(spec, self._group, self._own_listeners, scope_id)
            return own[server]
        if server not in self._shared:
            self._shared[server] = Upstream(spec, self._group, self._own_listeners)
        return self._shared[server]


class UpstreamTools:
    """The tools of some servers, for one execution: a `ToolExecutor`."""

    def __init__(self, owner: Upstreams, upstreams: Sequence[Upstream], caller: UpstreamCaller, timeout: float) -> None:
        self._owner = owner
        self._upstreams = {upstream.spec.name: upstream for upstream in upstreams}
        self._mask = owner.mask
        self._scope_id = caller.scope_id
        self._trace = caller.trace
        self._timeout = timeout
        self._names = NameTable()
        self._effects: dict[Target, str] = {}
        self._unavailable: dict[str, str] = {}
        self._remarked: set[tuple[str, str]] = set()
        self._listed = False

    @property
    def unavailable(self) -> Mapping[str, str]:
        """The servers that could not be listed last time, with the reasons."""
        return MappingProxyType(self._unavailable)

    async def list_tools(self) -> Sequence[Tool]:
        """The tools in the order of the configured servers, then in each server's order."""
        listings: dict[str, ToolListing] = {}
        missing: dict[str, str] = {}

        async def ask(upstream: Upstream) -> None:
            try:
                listings[upstream.spec.name] = await upstream.listing(self._timeouts(upstream.spec), self._scope_id)
            except Unavailable as error:
                missing[upstream.spec.name] = str(error)

        async with anyio.create_task_group() as tasks:
            for upstream in self._upstreams.values():
                tasks.start_soon(ask, upstream)
        self._report(listings, missing)
        offers = [
            (upstream.spec, offer)
            for server, upstream in self._upstreams.items()
            if server in listings
            for offer in listings[server].offers.values()
            if self._mask.text(offer.tool) == offer.tool  # a name cannot be masked: the tool is called by it
        ]
        self._names.add(Target(spec.name, offer.tool) for spec, offer in offers)
        tools = [self._tool(spec, offer) for spec, offer in offers]
        self._effects = {
            Target(spec.name, offer.tool): tool.effect for (spec, offer), tool in zip(offers, tools, strict=True)
        }
        return tools

    def _timeouts(self, spec: UpstreamSpec) -> ListingTimeouts:
        """Time for a start and a call; but one of several servers delays the others only if configured to."""
        answer = spec.timeout or self._timeout
        alone = len(self._upstreams) == 1 or spec.required or spec.start_timeout > DEFAULT_START_TIMEOUT
        return ListingTimeouts(answer, spec.start_timeout + answer if alone else SERVER_WAIT)

    async def call(self, call: ToolCall) -> ToolResult:
        """Call a tool by its sent name."""
        call.flight.sent = False  # until it is sent
        if not self._listed:
            # A resumed execution calls before it lists; its names come from the listing.
            await self.list_tools()
        target = self._names.target(normalise(call.name, self._names.names) or call.name)
        if target is None:
            return failure(*why_unknown(call.name, self._names.names, self._unavailable))
        if call.malformed is not None:
            message = f"the arguments of `{target.label}` are not a JSON object"
            return failure("invalid_arguments", message, "send them as one object that fits the tool's schema")
        upstream = self._upstreams[target.server]
        timeout = upstream.spec.timeout or self._timeout
        return await upstream.call(
            UpstreamCall(
                id=call.id,
                server=target.server,
                tool=target.tool,
                arguments=call.arguments,
                effect=self._effects.get(target, UNTRUSTED),
                timeout=timeout,
                scope_id=self._scope_id,
                trace=self._trace if call.flight.trace is None else call.flight.trace,
                flight=call.flight,
            )
        )

    async def close(self) -> None:
        """End the connections of this execution; shared ones stay."""
        self._owner.release(self._scope_id)

    def _tool(self, spec: UpstreamSpec, offer: Offer) -> Tool:
        return _tool(spec, offer, self._names.sent(Target(spec.name, offer.tool)), self._mask)

    def _report(self, listings: Mapping[str, ToolListing], missing: Mapping[str, str]) -> None:
        """Report missing servers and omissions, each once."""
        self._listed = True
        self._unavailable = {server: missing[server] for server in self._upstreams if server in missing}
        reports = [(server, "unavailable", reason) for server, reason in self._unavailable.items()]
        reports += [(server, kind, self._mask.text(text)) for server in listings for kind, text in listings[server].remarks]
        for server, kind, message in reports:
            if (kind, message) not in self._remarked:
                self._remarked.add((kind, message))
                self._owner.notify(UpstreamNotice(server, kind, message, self._scope_id))


def _tool(spec: UpstreamSpec, offer: Offer, name: str, mask: Mask) -> Tool:
    hints = offer.hints if spec.trust_annotations else Hints()  # the server's own claim; the configuration wins
    return Tool(
        name=name,
        description=_described(mask.text(offer.description)),
        input_schema=escape_blocks_in(mask.value(offer.input_schema)),
        label=Target(spec.name, offer.tool).label,
        server=spec.name,
        effect=spec.effect_of(offer.tool) or _effect(hints),
        gate=spec.gate_of(offer.tool) or ("ask" if hints.destructive else "none"),
    )


def _described(text: str) -> str:
    """A server's description of a tool, as models get it."""
    return escape_blocks(text) if len(text) <= DESCRIPTION_CAP else f"{escape_blocks(text[:DESCRIPTION_CAP])} [cut]"


def _effect(hints: Hints) -> str:
    return "read_only" if hints.read_only else "idempotent" if hints.idempotent else "at_most_once"


async def _close(upstreams: Sequence[Upstream]) -> None:
    for upstream in upstreams:
        upstream.close()
    for upstream in upstreams:
        await upstream.wait_closed()
