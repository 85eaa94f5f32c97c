"""Tool drift: the tool definitions of upstream servers, compared with the last ones seen by any process.

Owns the comparison, not the fingerprinting or the storage. Invariant: a change is recorded once, before the changed tools
are used; the first listing of a server is no change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from db.rows import tool_fingerprints
from db.rows.executions import Place, event
from db.rows.reads import Reads
from db.rows.tool_fingerprints import Drift
from db.store.unit import Write
from runner.messages import clean
from runner.record.recorder import Recorder
from runner.tools.upstream.notices import ListedTools

log = logging.getLogger("outrider.upstream")

NAME_CAP = 200
"""Characters of a tool's name; longer names are ignored."""


@dataclass(frozen=True, slots=True)
class ToolDrifted:
    """An upstream server changed the definition of a tool."""

    place: Place
    drift: Drift

    def write(self) -> Write:
        drift = self.drift
        change = "added" if drift.before is None else "removed" if drift.after is None else "changed"
        payload = {
            "server": drift.server,
            "tool": drift.tool,
            "change": change,
            "before": drift.before,
            "after": drift.after,
            "message": f"`{drift.server}` {change} its tool `{drift.tool}` since it was last seen",
        }
        return tool_fingerprints.drift(drift, [event(self.place, "upstream.tool_changed", payload)])


class DriftWatch:
    """Compares listings with stored fingerprints."""

    def __init__(self, recorder: Recorder, reads: Reads, place_of: Callable[[str], Place | None]) -> None:
        self._recorder = recorder
        self._reads = reads
        self._place_of = place_of

    async def observe(self, listed: ListedTools) -> None:
        """Compare a listing with the stored fingerprints and record the differences."""
        seen = {clean(tool): fingerprint for tool, fingerprint in listed.fingerprints.items() if len(tool) <= NAME_CAP}
        known = await self._reads.fingerprints(listed.server)
        if not known:
            self._recorder.record_nowait(tool_fingerprints.pin(listed.server, seen))
            return
        place = self._place_of(listed.scope_id)
        for change in _differences(listed.server, known, seen, complete=listed.complete):
            log.warning("upstream %s changed its tool %s", change.server, change.tool)
            if place is not None:
                self._recorder.record_nowait(ToolDrifted(place, change))


def _differences(server: str, known: Mapping[str, str], seen: Mapping[str, str], *, complete: bool) -> Iterator[Drift]:
    gone = [tool for tool in known if tool not in seen] if complete else []
    for tool in [*seen, *gone]:
        if known.get(tool) != seen.get(tool):
            yield Drift(server, tool, known.get(tool), seen.get(tool))
