"""The contestants: the floors and Outrider, each a module that runs in a process of its own.

Owns: their names and commands. Must not know: what is measured. Invariant: all run on this interpreter.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from bench.contest import Tool


class UnknownContestant(Exception):
    """A name that is not on the roster."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no contestant named `{name}`")
        self.hint = "use one of " + ", ".join(f"`{each.name}`" for each in CONTESTANTS)


@dataclass(frozen=True, slots=True)
class Contestant:
    """A contestant's name, module and variant, and the places of the lookup tool that it supports."""

    name: str
    module: str
    variant: str
    tools: tuple[Tool, ...] = ("inproc",)

    def command(self, *arguments: str) -> list[str]:
        """The command that starts it."""
        return [sys.executable, "-m", self.module, "--variant", self.variant, *arguments]


REFERENCE = "floor-sdk-aiohttp-sqlite"
"""The floor that ratios are relative to: the cheapest one that persists every event."""

CONTESTANTS = (
    Contestant("floor-sdk-aiohttp", "bench.floor", "plain", ("inproc", "mcp")),
    Contestant(REFERENCE, "bench.floor", "sqlite", ("inproc", "mcp")),
    Contestant("floor-sdk-aiohttp-durable", "bench.floor", "durable", ("inproc", "mcp")),
    Contestant("outrider", "bench.contestant", "default", ("inproc", "mcp")),
)


def chosen(names: Iterable[str]) -> list[Contestant]:
    """The contestants of these names in the order of the roster, or all; raises UnknownContestant."""
    wanted = set(names)
    if unknown := wanted - {each.name for each in CONTESTANTS}:
        raise UnknownContestant(min(unknown))

    return [each for each in CONTESTANTS if not wanted or each.name in wanted]
