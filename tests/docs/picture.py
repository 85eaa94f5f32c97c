"""The picture of the tree in the README, `docs/tree.svg`: a moment of the rehearsed investigation, as a terminal shows it.

Owns: which moment it is, its clock, and the form of the file. Must not know: how rows are made (the command line does).
Invariant: made from another run it is the same, byte for byte, and shows nothing of the machine. So its clock is the
rehearsal's own, in which only replies take time, and the order of what happens at the same time does not matter.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from rich.cells import cell_len
from rich.text import Text

from db.clock import moment
from db.ids import ALPHABET, SHORT
from server.cli.demo import PACE
from server.cli.show.tree_columns import drawn
from server.cli.show.tree_model import TreeModel
from server.cli.show.tree_rows import rows_of
from server.wording import happening
from tests.outrider_sre.investigating import investigate
from tests.support.sources import ROOT

FILE = ROOT / "docs" / "tree.svg"
STOP = "cluster.get_object"
"""The call at which the picture is taken: three agents have reported, a fourth is at work on what they found."""

START = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = 124
CELL, LINE, MARGIN = 7.8, 19.0, 16.0
COLOURS = {"": "#d7dae0", "dim": "#8b93a1", "bold": "#ffffff", "yellow": "#e5c07b", "green": "#8cc570", "cyan": "#62c0cf"}
"""On a dark ground of its own, so that it can be read on a light page and on a dark one."""


_WORDS = re.compile(r"\S+(?: \S+)*")
"""What stands together; wider gaps are made by position, not by spaces."""


def picture(database: Path) -> str:
    """The drawing of the run in a database."""
    model, now = _at_that_moment(database)
    assert model.root is not None
    lines = [Text("$ outrider demo", "bold"), Text(""), *drawn(rows_of(model.root, now, fold=True), COLUMNS)]
    return _svg(lines)


def _at_that_moment(database: Path) -> tuple[TreeModel, float]:
    model, clock = TreeModel(), _Clock()
    for event in _events(database):
        payload = json.loads(event["payload"])
        at = clock.of(event, payload)
        node = model.apply({**event, "at": at})
        if node is not None and payload.get("task"):
            node.short = _made_up(f"{node.agent} {payload['task']}")
        if node is not None and event["type"] == "timeline_event.created" and payload["kind"] != "model":
            node.action = happening(event["type"], payload)
            if payload.get("tool") == STOP:
                return model, moment(at).timestamp() + PACE
        waits = event["type"] == "execution.progress" and payload.get("waiting_for")
        if waits and node is not None and node is not model.root:  # that one says in which stage it is
            node.action = happening(event["type"], payload)
    raise LookupError(f"no call of `{STOP}` in this run")


def _made_up(name: str) -> str:
    """A short id that is the same in every run."""
    digest = sha256(name.encode()).digest()
    return "".join(ALPHABET[byte % len(ALPHABET)] for byte in digest[:SHORT])


def _events(database: Path) -> Iterator[Mapping[str, Any]]:
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    try:
        yield from (dict(row) for row in connection.execute("SELECT * FROM events ORDER BY seq"))
    finally:
        connection.close()


class _Clock:
    """The time of each execution: a reply takes `PACE`, a child begins when its parent speaks, a parent waits for it."""

    def __init__(self) -> None:
        self._now: dict[str, float] = {}
        self._delivered: dict[str, float] = {}

    def of(self, event: Mapping[str, Any], payload: Mapping[str, Any]) -> str:
        me, parent = event["execution_id"], event["parent_execution_id"]
        now = self._now.setdefault(me, self._now.get(parent, 0.0))
        if event["type"] == "delivery.consumed":
            now = max(now, self._delivered.get(me, 0.0))
        elif payload.get("kind") == "model" and event["type"] == "timeline_event.completed":
            now += PACE
        self._now[me] = now
        if event["type"] == "execution.status" and payload.get("outcome") and parent is not None:
            self._delivered[parent] = max(now, self._delivered.get(parent, 0.0))
        return (START + timedelta(seconds=now)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# -- the file ----------------------------------------------------------------------------------------------------------


def _svg(lines: list[Text]) -> str:
    width, height = COLUMNS * CELL + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img">\n'
        "<title>outrider demo: an investigation, with what each agent does, its time, its tokens</title>\n"
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#1d2129"/>\n'
        '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13">\n'
    )
    rows = [f"{_line(line, MARGIN + (number + 0.75) * LINE)}\n" for number, line in enumerate(lines) if line.plain]
    return head + "".join(rows) + "</g>\n</svg>\n"


def _line(line: Text, y: float) -> str:
    """A line as pieces of one colour, each at its own column, so that no font can shift the ones behind it."""
    pieces = []
    for start, end, style in _pieces(line):
        for words in _WORDS.finditer(line.plain, start, end):
            x = MARGIN + cell_len(line.plain[: words.start()]) * CELL
            length = cell_len(words[0]) * CELL
            pieces.append(
                f'<text x="{x:.1f}" y="{y:.1f}" textLength="{length:.1f}" fill="{COLOURS.get(style, COLOURS[""])}">'
                f"{escape(words[0], quote=False)}</text>"
            )
    return "".join(pieces)


def _pieces(line: Text) -> Iterator[tuple[int, int, str]]:
    """The pieces of a line: those with a style of their own, and what lies between them."""
    end = 0
    for span in line.spans:
        yield end, span.start, str(line.style)
        yield span.start, span.end, str(span.style)
        end = span.end
    yield end, len(line.plain), str(line.style)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        FILE.write_text(picture(anyio.run(investigate, Path(folder)).database), encoding="utf-8")
