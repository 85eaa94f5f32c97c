"""Ears: who is told what upstream servers do and say.

Owns: the shape of what is told. Must not know: servers, connections, executions or rows.
Invariant: telling never fails a call; what a server said is masked before it is told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runner.tools.secrets import Mask


@dataclass(frozen=True, slots=True)
class UpstreamNotice:
    """Something to tell about a server.

    Kinds: `unavailable`, `lost`, `repeated`, `list_changed`, `duplicate_tool`, `list_cut`, `tool_left_out`.
    """

    server: str
    kind: str
    message: str
    scope_id: str | None = None
    """The execution it concerns; None for a shared connection."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What a server says of its tools, as heard for the first time on behalf of an execution: a fingerprint each."""

    server: str
    fingerprints: Mapping[str, str]
    complete: bool
    """Whether a tool that is not in it is gone."""
    scope_id: str


Notify = Callable[[UpstreamNotice], None]
Observe = Callable[[Listed], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Ears:
    """Who is told about servers: what happened to them, and what they say of their tools before anybody relies on it.

    Whatever they say is heard through the mask.
    """

    notify: Notify
    observe: Observe
    mask: Mask
