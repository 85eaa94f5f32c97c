"""The MCP servers that an execution cannot work without, and which of them are missing.

Owns what is known of them from the list of tools and from calls. Pure: the strategy decides what follows. Invariant: an
execution that lacks one ends before its model is asked, or, if it had begun, with a result that says what is missing.
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
    """Those of one execution."""

    __slots__ = ("_agent", "_missing", "_names")

    def __init__(self, agent: str, names: Sequence[str]) -> None:
        self._agent, self._names = agent, names
        self._missing: dict[str, str] = {}
        """Those that are not there, and why."""

    def listed(self, tools: Collection[Tool], unavailable: Mapping[str, str]) -> ServerMissing | None:
        """Look at the tools there are; the first server that is missing, if one is."""
        for name in self._names:
            if name in unavailable:
                self._missing[name] = unavailable[name]
            elif not any(tool.server == name for tool in tools):
                self._missing[name] = NO_TOOLS
            else:
                self._missing.pop(name, None)
        return next((ServerMissing(self._agent, *each) for each in self._missing.items()), None)

    def called(self, tool: str, error_type: str | None) -> None:
        """A call of a tool ended, by its label or by the name that a model gave it."""
        name = next((each for each in self._names if tool.startswith((f"{each}.", f"{each}__"))), None)
        if name is not None and error_type == "unavailable":
            self._missing[name] = NOT_THERE
        elif name is not None and error_type is None:
            self._missing.pop(name, None)

    def restore(self, calls: Sequence[Record]) -> None:
        """Know again how earlier calls ended, from their rows."""
        for row in calls:
            self.called(row["tool"], row["error_type"])

    def judged(self, result: Result) -> Result:
        """A result that is whole only if nothing is missing."""
        if not self._missing or result.outcome not in (Outcome.COMPLETED, Outcome.PARTIAL):
            return result
        problems = [self._problem(*each) for each in self._missing.items()]
        reason = result.reason if result.outcome is Outcome.PARTIAL else TOOL_UNAVAILABLE
        return replace(result, outcome=Outcome.PARTIAL, reason=reason, errors=(*result.errors, *problems))

    def _problem(self, name: str, why: str) -> Problem:
        return missing_server(ServerMissing(self._agent, name, why))
