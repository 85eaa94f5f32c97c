"""Fingerprints of upstream tools: one each, changed by compare-and-set.

Knows the table and its guards; does not know how a fingerprint is computed. Units are applied by `db/store/writer.py`.
Invariant: when several processes notice the same change, exactly one writes it and its event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, delete, update
from sqlalchemy.dialects.sqlite import insert as upsert

from db.clock import stamp
from db.store.unit import Event, Statement, Write
from db.tables import upstream_tools


@dataclass(frozen=True, slots=True)
class Drift:
    """A tool whose definition changed; `before` None: it is new, `after` None: it was removed."""

    server: str
    tool: str
    before: str | None
    after: str | None


_PIN = upsert(upstream_tools).on_conflict_do_nothing()

_THE_ONE = (
    upstream_tools.c.server == bindparam("of_server"),
    upstream_tools.c.tool == bindparam("named"),
    upstream_tools.c.fingerprint == bindparam("before"),
)
_CHANGE = update(upstream_tools).where(*_THE_ONE).values(fingerprint=bindparam("after"), changed_at=bindparam("at"))
_REMOVE = delete(upstream_tools).where(*_THE_ONE)


def pin(server: str, fingerprints: Mapping[str, str]) -> Write:
    """Store the fingerprints of a server's tools; known ones stay as they are."""
    return Write([Statement(_PIN, _row(server, tool, fingerprint)) for tool, fingerprint in fingerprints.items()])


def drift(change: Drift, events: Sequence[Event]) -> Write:
    """Store a change; refused when another process stored it first."""
    known = {"of_server": change.server, "named": change.tool, "before": change.before}
    if change.before is None:
        statement = Statement(_PIN, _row(change.server, change.tool, change.after or ""), guard=True)
    elif change.after is None:
        statement = Statement(_REMOVE, known, guard=True)
    else:
        statement = Statement(_CHANGE, {**known, "after": change.after, "at": stamp()}, guard=True)
    return Write([statement], events)


def _row(server: str, tool: str, fingerprint: str) -> dict[str, str]:
    at = stamp()
    return {"server": server, "tool": tool, "fingerprint": fingerprint, "first_seen": at, "changed_at": at}
