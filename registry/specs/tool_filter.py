"""Tool filters: allow- and deny-lists of names and `*` patterns.

Owns: the matching of tool names. Must not know: which tools a server has.
Invariant: deny wins; an absent allow-list allows everything, an empty one nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pydantic import Field

from registry.text.entry import Entry, Line


class ToolFilterEntry(Entry):
    """`tools:` as written."""

    allow: tuple[Line, ...] | None = Field(default=None, description="only these tools: names or `*` patterns")
    deny: tuple[Line, ...] = Field(default=(), description="never these tools, even if `allow` names them")


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """Decides whether a tool may be used."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()

    def denies(self, tool: str, server: str | None = None) -> bool:
        """Say whether the deny-list names the tool, by its own name or as `server.tool`."""
        return _matches(self.deny, tool, server)

    def permits(self, tool: str, server: str | None = None) -> bool:
        """Say whether the tool may be used."""
        if self.denies(tool, server):
            return False
        return self.allow is None or _matches(self.allow, tool, server)


def tool_filter(entry: ToolFilterEntry | None) -> ToolFilter:
    """Return the filter of an entry; without one, a filter that allows everything."""
    return ToolFilter() if entry is None else ToolFilter(entry.allow, entry.deny)


def _matches(patterns: Iterable[str], tool: str, server: str | None) -> bool:
    names = (tool,) if server is None else (tool, f"{server}.{tool}")
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)
