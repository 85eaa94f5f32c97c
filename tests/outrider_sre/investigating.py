"""Running the shipped investigation in a test: real servers over stdio, a real database, the rehearsed model.

Owns: one run from configuration and alert to its report and rows, and reading the report by its sections.
Must not know: which incident it is about, or what should be found.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from outrider_sre.incident import ALERT
from registry import load
from runner.service.order import Order
from runner.snapshot import Snapshot
from server.app import Blueprint, open_service
from tests.support.sources import ROOT

CONFIG = ROOT / "config.yaml"
CHAIN = "sre-investigation"

_ITEM = re.compile(r"^- (?P<text>.*) \((?P<tool>[\w.]+), `outrider show (?P<call>toolu_\w+)`\)$", re.MULTILINE)
_QUOTED = re.compile(r"`([^`]+)`")
_TIME = re.compile(r"^- (\d\d:\d\d:\d\d) ", re.MULTILINE)


@dataclass(frozen=True)
class Citation:
    """A statement of the report and the tool call it points at."""

    text: str
    tool: str
    call: str

    @property
    def quoted(self) -> list[str]:
        """What the statement takes from the answer word for word: its time and everything in backticks."""
        return _TIME.findall(f"- {self.text}") + _QUOTED.findall(self.text)


@dataclass(frozen=True)
class Investigation:
    """A finished run: how it ended, and its rows."""

    ended: Snapshot
    database: Path

    @property
    def report(self) -> str:
        """The report."""
        assert self.ended.result is not None, self.ended.error
        return self.ended.result.text

    def section(self, title: str) -> str:
        """One section of the report, without its heading."""
        parts = re.split(r"^## (.+)$", self.report, flags=re.MULTILINE)
        found = {parts[index].split(" (")[0]: parts[index + 1].strip() for index in range(1, len(parts), 2)}
        return found[title]

    def times(self, title: str) -> list[str]:
        """The times that the items of a section begin with."""
        return _TIME.findall(self.section(title))

    def citations(self, title: str) -> list[Citation]:
        """The items of a section that point at a tool call; every item has to."""
        section = self.section(title)
        found = [Citation(item["text"], item["tool"], item["call"]) for item in _ITEM.finditer(section)]
        assert len(found) == len(section.splitlines()), section
        return found

    def sql(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        """Rows, over a connection of its own."""
        connection = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(query, parameters)]
        finally:
            connection.close()


async def investigate(
    folder: Path, *, config: Path = CONFIG, environ: Mapping[str, str] | None = None, alert: Path = ALERT
) -> Investigation:
    """Run the chain for an alert."""
    return await rehearse(folder, _order(alert), config, environ or {})


def _order(alert: Path) -> Order:
    return Order(CHAIN, "Investigate the alert", json.loads(alert.read_text(encoding="utf-8")))


async def rehearse(
    folder: Path, order: Order, config: Path = CONFIG, environ: Mapping[str, str] | None = None
) -> Investigation:
    """Run any order, rehearsed, on a database of its own."""
    blueprint = Blueprint(load(config, environ or {}).rehearsed(), folder / "outrider.db")
    async with open_service(blueprint) as dispatcher:
        started = await dispatcher.start(order)
        with anyio.fail_after(50):
            return Investigation(await dispatcher.wait(started.id), blueprint.database)


def changed_config(folder: Path, before: str, after: str) -> Path:
    """The shipped configuration with one place written otherwise."""
    text = CONFIG.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"`{before}` is not once in the configuration"
    changed = folder / "config.yaml"
    changed.write_text(text.replace(before, after), encoding="utf-8")
    return changed
