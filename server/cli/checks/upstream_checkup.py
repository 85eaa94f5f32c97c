"""Whether upstream servers start and list their tools: all at once, within a few seconds, and gone afterwards.

Owns: the bounds of these checks and what each finding says. Must not know: agents or tool calls.
Invariant: a server that hangs or dies is a finding about that server, and no process outlives the check.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from db.clock import loop_time
from server.cli.checks.checkup import Finding
from server.wording import count

if TYPE_CHECKING:
    from registry import Settings, UpstreamSpec

PATIENCE = 10.0
"""Seconds for one server to start and to list; less if its `start_timeout` is less."""

CLOSE_GRACE = 5.0


async def upstreams(settings: Settings, tell: Callable[[Finding], None]) -> None:
    """Check all servers at the same time; `tell` hears of each as soon as it is known."""
    from runner.tools.secrets import Mask

    mask = Mask(settings.secrets(os.environ))
    await anyio.to_thread.run_sync(import_module, "mcp")  # once, and not in the time of the servers
    async with anyio.create_task_group() as group:
        for spec in settings.upstreams.values():
            group.start_soon(_check, spec, tell, mask.text, name=f"check {spec.name}")


async def _check(spec: UpstreamSpec, tell: Callable[[Finding], None], clear: Callable[[str], str]) -> None:
    from runner.tools.upstream.connection import Connection

    patience = min(spec.start_timeout, PATIENCE)
    connection = Connection(replace(spec, start_timeout=patience), "auto", lambda _: None, clear=clear)
    began = loop_time()
    async with anyio.create_task_group() as group:
        group.start_soon(connection.run, name=f"upstream {spec.name}")
        try:
            with anyio.fail_after(patience + 1):
                await connection.settled.wait()
                listing = await connection.listing()
            took = loop_time() - began
            era = connection.client.protocol_version
        except Exception as error:
            tell(_failed(spec, clear(connection.failure or _words(error, patience))))
        else:
            remarks = "".join(f"; {clear(text)}" for _, text in listing.remarks)
            detail = f"{count(len(listing.offers), 'tool')} in {took:.1f} s, protocol {era}{remarks}"
            hint = "" if listing.offers else "check `tools:` of this server: its agents have no tools"
            tell(Finding(f"upstream {spec.name}", "ok" if listing.offers else "attention", detail, hint))
        connection.close()
        with anyio.move_on_after(CLOSE_GRACE):
            await connection.ended.wait()
        group.cancel_scope.cancel()


def _words(error: Exception, patience: float) -> str:
    if isinstance(error, TimeoutError):
        return f"did not list its tools within {patience:g} s"
    return f"could not list its tools: {error}"


def _failed(spec: UpstreamSpec, reason: str) -> Finding:
    hint = f"check `mcp_servers.{spec.name}` in the configuration"
    if spec.command is not None:
        hint += ", and try its command in a shell"
    return Finding(f"upstream {spec.name}", "failed", reason, hint)
