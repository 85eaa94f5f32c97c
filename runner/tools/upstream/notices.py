"""Notices: what upstream servers report to the service.

Owns the shape of a notice. Must not know: servers, connections, executions or rows.
Invariants: a listener never fails a call; a server's text is masked before it is passed on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runner.tools.secrets import Mask


@dataclass(frozen=True, slots=True)
class UpstreamNotice:
    """A report about a server.

    Kinds: `unavailable`, `lost`, `repeated`, `list_changed`, `duplicate_tool`, `list_cut`, `tool_left_out`.
    """

    server: str
    kind: str
    message: str
    scope_id: str | None = None
    """The execution it concerns; None for a shared connection."""


@dataclass(frozen=True, slots=True)
class ListedTools:
    """A server's tools at their first use by an execution, with a fingerprint each."""

    server: str
    fingerprints: Mapping[str, str]
    complete: bool
    """Whether a missing tool was removed."""
    scope_id: str


Notify = Callable[[UpstreamNotice], None]
Observe = Callable[[ListedTools], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class UpstreamListeners:
    """The listeners of upstream servers, and the mask for everything they are told.

    `observe` is called with a listing before its tools are used.
    """

    notify: Notify
    observe: Observe
    mask: Mask
