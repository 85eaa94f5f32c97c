"""Who takes part: the floors and Outrider, each a module that runs in a process of its own.

Owns: the names and how each is started. Must not know: what is measured. Invariant: all run on this interpreter.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from bench.contest import Tool


class UnknownContestant(Exception):
    """A name that is not on the roster."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no contestant `{name}`")
        self.hint = "the contestants are " + ", ".join(f"`{each.name}`" for each in CONTESTANTS)


@dataclass(frozen=True, slots=True)
class Contestant:
    """A contestant's name, its module, the variant of it, and where it can have the lookup tool."""

    name: str
    module: str
    variant: str
    tools: tuple[Tool, ...] = ("inproc",)

    def command(self, *arguments: str) -> list[str]:
        """How to start it."""
        return [sys.executable, "-m", self.module, "--variant", self.variant, *arguments]


REFERENCE = "floor-sdk-aiohttp-sqlite"
"""The floor that ratios are taken against: the least that writes everything down."""

CONTESTANTS = (
    Contestant("floor-sdk-aiohttp", "bench.floor", "plain", ("inproc", "mcp")),
    Contestant(REFERENCE, "bench.floor", "sqlite", ("inproc", "mcp")),
    Contestant("floor-sdk-aiohttp-durable", "bench.floor", "durable", ("inproc", "mcp")),
    Contestant("outrider", "bench.contestant", "default", ("inproc", "mcp")),
)


def chosen(names: Iterable[str]) -> list[Contestant]:
    """The contestants of these names in their order on the roster, or all; raises UnknownContestant."""
    wanted = set(names)
    if unknown := wanted - {each.name for each in CONTESTANTS}:
        raise UnknownContestant(min(unknown))

    return [each for each in CONTESTANTS if not wanted or each.name in wanted]
