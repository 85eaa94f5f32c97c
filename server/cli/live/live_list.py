"""The list of executions, kept on the screen: what needs attention, what runs, and what has ended.

Owns the groups, their share of the screen, and when rows are read again. Must not know: a service; nothing here can change
an execution. Invariant: rows are read when others have written, and never more than a quarter of the time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from db.rows.changes import changes_of
from db.rows.reads import Reads
from runner.result import BUDGETS
from server.cli.show.execution_list import COLUMNS, SPARE, cells_of, entries_of
from server.cli.show.table import aligned
from server.cli.show.tree_view import can_redraw
from server.cli.store import reading
from server.cli.terminal.exits import Exit
from server.cli.terminal.output import note, one_line, put, put_json_line
from server.cli.terminal.signals import unless_left

if TYPE_CHECKING:
    from rich.text import Text

Entry = Mapping[str, Any]

GROUPS = {"attention": "Needs attention", "running": "Running", "finished": "Finished"}
"""In the order of the dashboard, with their headings."""
UNHAPPY = ("failed", "timed_out", "blocked")
READ_SECONDS = 1.0
"""Between two reads of rows, at least."""
AGAIN_SECONDS = 2.0
"""After which they are read again although nothing was written: a process that dies writes nothing."""
SHARE = 3
"""How many times as long as a read takes the next one waits."""


def group_of(entry: Entry) -> str:
    """The group of an execution."""
    stuck = entry["approvals"] or entry["owner_gone"] or entry["status"] in UNHAPPY or entry["reason"] in BUDGETS
    if stuck:
        return "attention"
    return "running" if entry["status"] in ("pending", "running") else "finished"


class ListPainter(Protocol):
    """Puts the list before its reader."""

    def changed(self, found: Sequence[Entry]) -> None:
        """What the list holds now."""
        ...

    async def paint(self) -> None:
        """Keep painting until cancelled."""
        ...

    def finish(self) -> None:
        """The last picture."""
        ...


class LiveList:
    """Reads the list again and again."""

    def __init__(self, reads: Reads, database: Path, most: tuple[int, int], painter: ListPainter) -> None:
        self._reads, self._database, self._painter = reads, database, painter
        self._most = most
        """Of open executions, and of the newest."""

    async def run(self) -> None:
        """Keep the list until cancelled."""
        async with changes_of(self._database) as changes, anyio.create_task_group() as group:
            group.start_soon(self._painter.paint, name="paint the list")
            try:
                while True:
                    await changes.have_come()
                    began = time.monotonic()
                    self._painter.changed(await self._entries())
                    pause = max(READ_SECONDS, SHARE * (time.monotonic() - began))
                    await anyio.sleep(pause)
                    with anyio.move_on_after(AGAIN_SECONDS):
                        await changes.come(READ_SECONDS / 4)
            finally:
                group.cancel_scope.cancel()
                self._painter.finish()

    async def _entries(self) -> list[Entry]:
        """All that are open and the newest, newest first."""
        open_, recent = self._most
        rows = {row["id"]: row for row in await self._reads.roots(open_, only_open=True)}
        rows |= {row["id"]: row for row in await self._reads.roots(recent)}
        found = await entries_of(self._reads, self._database, [rows[each] for each in sorted(rows, reverse=True)])
        return [{"group": group_of(entry), **entry} for entry in found]


class ListWindow:
    """The list in a window on stdout."""

    def __init__(self) -> None:
        from server.cli.terminal.console import terminal
        from server.cli.terminal.window import ScreenWindow

        self._console = terminal()
        self._window = ScreenWindow(self._console, self)
        self._found: Sequence[Entry] | None = None
        self._read_at = 0.0

    def changed(self, found: Sequence[Entry]) -> None:
        """The next frame shows it."""
        self._found, self._read_at = found, time.monotonic()

    async def paint(self) -> None:
        """Draw frame after frame."""
        await self._window.paint()

    def finish(self) -> None:
        """The last frame stays."""
        self._window.close(self.lines(self._console.width - 1, self._console.height - 1) or ())

    def asks(self) -> Sequence[str]:
        """Nothing: the rows say what a person may type."""
        return ()

    def lines(self, width: int, height: int) -> Sequence[Text] | None:
        """The groups, each with the rows it has room for."""
        from rich.text import Text

        if self._found is None:
            return None
        if not self._found:
            return [Text("this database has no executions yet; start with `outrider demo`", "dim")]
        groups = {name: [each for each in self._found if each["group"] == name] for name in GROUPS}
        groups = {name: rows for name, rows in groups.items() if rows}
        shares = _shares([len(rows) for rows in groups.values()], height - 2 - len(groups))
        shown = [each for rows, share in zip(groups.values(), shares, strict=True) for each in rows[:share]]
        heading, *table = aligned(COLUMNS, [cells_of(self._aged(each)) for each in shown], spare=SPARE).splitlines()
        lines = [Text(heading, "dim")]
        for (name, rows), share in zip(groups.items(), shares, strict=True):
            more = f", {len(rows) - share:,} not shown" if share < len(rows) else ""
            lines.append(Text(f"{GROUPS[name]} ({len(rows):,}{more})", "bold"))
            lines += [_coloured(line, each["status"]) for line, each in zip(table, rows[:share], strict=False)]
            table = table[share:]
        return [*lines, Text("Ctrl-C leaves and stops nothing", "dim")]

    def _aged(self, entry: Entry) -> Entry:
        return {**entry, "age_seconds": entry["age_seconds"] + time.monotonic() - self._read_at}


def _shares(numbers: Sequence[int], room: int) -> list[int]:
    """How many rows each group shows: one, and the first groups have what is left."""
    shares = [min(1, max(0, room - place)) for place in range(len(numbers))]
    left = room - sum(shares)
    for place, number in enumerate(numbers):
        more = max(0, min(number - shares[place], left))
        shares[place], left = shares[place] + more, left - more
    return shares


def _coloured(line: str, status: str) -> Text:
    from rich.text import Text

    from server.cli.show.tree_columns import STYLES

    drawn = Text(line)
    drawn.stylize(STYLES.get(status, ""), 0, 1)
    return drawn


class ListLines:
    """A line for each change of status, for logs and pipes; or a JSON document for each change of anything but the age."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._told: dict[str, Any] | None = None

    def changed(self, found: Sequence[Entry]) -> None:
        """Tell what is new."""
        before, self._told = self._told, {entry["id"]: self._kept(entry) for entry in found}
        for entry in reversed(found):
            if before is None or before.get(entry["id"]) != self._told[entry["id"]]:
                self._tell(entry, is_first=before is None)

    async def paint(self) -> None:
        """Nothing to redraw."""
        await anyio.sleep_forever()

    def finish(self) -> None:
        """The lines were the picture."""

    def _kept(self, entry: Entry) -> Any:
        if self._as_json:
            return {name: value for name, value in entry.items() if name != "age_seconds"}
        return tuple(entry[name] for name in ("group", "status", "outcome", "cancel_requested"))

    def _tell(self, entry: Entry, *, is_first: bool) -> None:
        if self._as_json:
            put_json_line(entry)
        elif entry["group"] != "finished" or not is_first:
            icon, short, agent, doing, *_ = cells_of(entry)
            at = datetime.now().astimezone().strftime("%H:%M:%S")
            put(f"{at}  {short}  {icon} {one_line(agent)}  {one_line(doing)}")


async def watch_list(database: Path, most: tuple[int, int], as_json: bool) -> int:
    """Keep the list before its reader until the reader leaves, which is the only end it has and no failure."""
    async with reading(database) as reads:
        window = not as_json and can_redraw(sys.stdout)
        watched = LiveList(reads, database, most, ListWindow() if window else ListLines(as_json=as_json))
        left = await unless_left(watched.run)
    if left is Exit.INTERRUPTED:
        note("left, and stopped nothing")
        return Exit.DONE
    return left if left is not None else Exit.DONE
