"""The MCP servers that an execution requires, and which of them are missing.

Owns their state, learned from the list of tools and from calls. Pure: the strategy decides what follows. Invariant: an
execution without a required server ends before its model is called, or, if it has started, with a result that names it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from db.rows.reads import Record
from runner.core.verdict import missing_server
from runner.errors import ServerMissing
from runner.messages import Tool
from runner.result import TOOL_UNAVAILABLE, Outcome, Problem, Result

NO_TOOLS = "offers no tool that it may use"
NOT_THERE = "could not be reached for the last call of its tools"


class RequiredServers:
    """The required servers of one execution."""

    __slots__ = ("_agent", "_missing", "_names")

    def __init__(self, agent: str, names: Sequence[str]) -> None:
        self._agent, self._names = agent, names
        self._missing: dict[str, str] = {}
        """Missing servers, and why."""

    def listed(self, tools: Collection[Tool], unavailable: Mapping[str, str]) -> ServerMissing | None:
        """Check the listed tools; returns the first missing server, if any."""
        for name in self._names:
            if name in unavailable:
                self._missing[name] = unavailable[name]
            elif not any(tool.server == name for tool in tools):
                self._missing[name] = NO_TOOLS
            else:
                self._missing.pop(name, None)
        return next((ServerMissing(self._agent, *each) for each in self._missing.items()), None)

    def called(self, tool: str, error_type: str | None) -> None:
        """Note how a tool call ended; `tool` is the label, or the name that the model used."""
        name = next((each for each in self._names if tool.startswith((f"{each}.", f"{each}__"))), None)
        if name is not None and error_type == "unavailable":
            self._missing[name] = NOT_THERE
        elif name is not None and error_type is None:
            self._missing.pop(name, None)

    def restore(self, calls: Sequence[Record]) -> None:
        """Restore the ends of earlier calls from their rows."""
        for row in calls:
            self.called(row["tool"], row["error_type"])

    def judged(self, result: Result) -> Result:
        """Make a completed result partial if a required server is missing."""
        if not self._missing or result.outcome not in (Outcome.COMPLETED, Outcome.PARTIAL):
            return result
        problems = [self._problem(*each) for each in self._missing.items()]
        reason = result.reason if result.outcome is Outcome.PARTIAL else TOOL_UNAVAILABLE
        return replace(result, outcome=Outcome.PARTIAL, reason=reason, errors=(*result.errors, *problems))

    def _problem(self, name: str, why: str) -> Problem:
        return missing_server(ServerMissing(self._agent, name, why))
