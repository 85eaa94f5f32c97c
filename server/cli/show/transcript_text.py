"""What was said and called, as a conversation: who said it and when, turn by turn, each with the calls it made.

Owns this form. Must not know: where the rows come from. Invariants: what leaves the terminal is whole; on a terminal, what
others than the agents said is shortened, and a line says how much is left out and which command shows it.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from db.clock import moment
from db.ids import SHORT
from server.cli.show.table import width_of
from server.cli.terminal.options import command
from server.cli.terminal.output import one_line, put, safe
from server.shapes import shape
from server.wording import count, duration, happening, price, tokens

Record = Mapping[str, Any]

SHOWN_LINES = 8
"""Lines of a result, a task or a thought on a terminal."""
MARGIN = 9
"""Columns of the time, and of the space below it."""
LEAST_TEXT = 20
"""Columns of a text, however narrow the terminal is."""
NARROW = 60
"""Columns of a terminal below which texts begin further to the left."""


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """A line, and how it is drawn on a terminal."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class TranscriptText:
    """One execution, or a whole tree, as rows."""

    tree: Sequence[Record]
    """The execution and those below it."""
    messages: Sequence[Record]
    calls: Sequence[Record]
    model_calls: Sequence[Record]
    parent: Record | None = None

    def show(self) -> None:
        """Put it out: drawn on a terminal, and as plain lines anywhere else."""
        if not sys.stdout.isatty():
            put("\n".join(line.text for line in self.lines()))
            return
        from rich.text import Text

        from server.cli.terminal.console import terminal

        width = shutil.get_terminal_size().columns
        console = terminal()
        for line in self.lines(width):
            console.draw(Text(safe(line.text), line.style), soft_wrap=True)

    def lines(self, width: int | None = None) -> Iterator[TranscriptLine]:
        """All lines; with a width, wrapped and shortened to what a terminal of so many columns holds."""
        form = Form(width)
        known, children = {row["id"]: row for row in self.tree}, {row["tool_call_id"]: row for row in self.tree}
        calls, turns = _by(self.calls, "message_id"), _by(self.model_calls, "execution_id")
        began = moment(self.tree[0]["created_at"]).timestamp()
        for message in self.messages:
            row = known[message["execution_id"]]
            since = duration(moment(message["created_at"]).timestamp() - began)
            yield form.fitted(f"{since:>{MARGIN - 2}}  {self._head(message, row, turns.get(row['id'], ()))}", "bold")
            yield from _said(message, row, form)
            for call in calls.get(message["id"], ()):
                yield from _called(call, children.get(call["id"]), form)
            yield TranscriptLine("")
        yield from _standing(self.tree[0])

    def _head(self, message: Record, row: Record, turns: Sequence[Record]) -> str:
        """The speaker, the listener, and the cost of the turn."""
        whose = self._named(row)
        if message["role"] != "assistant":
            return f"{self._caller(row) if message['kind'] == 'task' else 'Outrider'} → {whose} ({message['kind']})"
        kind = "" if message["kind"] == "reply" else f" ({message['kind']})"
        turn = _turn(message, turns)
        if turn is None:
            return f"{whose}{kind}"
        used = sum(turn[f"{name}_tokens"] for name in ("input", "output", "cache_read", "cache_write"))
        cost = price(turn["cost_usd"], {"rehearsed" if turn["rehearsed"] else turn["pricing"]})
        return f"{whose}{kind} · turn {turn['turn']} · {tokens(used)} · {cost}"

    def _named(self, row: Record) -> str:
        return f"{one_line(row['agent'])} {row['id'][-SHORT:]}"

    def _caller(self, row: Record) -> str:
        """Who gave it its task: the agent above, or who asked for the tree."""
        above = self.parent
        if row["id"] != self.tree[0]["id"]:
            above = next(each for each in self.tree if each["id"] == row["parent_execution_id"])
        return self._named(above) if above is not None else one_line(row["principal"] or "caller")


def _by(rows: Sequence[Record], name: str) -> dict[str, list[Record]]:
    """The rows by a column."""
    found: dict[str, list[Record]] = {}
    for row in rows:
        found.setdefault(row[name], []).append(row)
    return found


def _turn(message: Record, turns: Sequence[Record]) -> Record | None:
    """The model call that made a message: the last one of its agent that had ended by then."""
    ended = [call for call in turns if call["finished_at"] <= message["created_at"]]
    return max(ended, key=lambda call: (call["finished_at"], call["turn"]), default=None)


def _called(call: Record, child: Record | None, form: Form) -> Iterator[TranscriptLine]:
    """A call: what was asked, and what came back or was started."""
    yield form.cut(f"→ {one_line(call['tool'])} {one_line(call['arguments'])}", 0, "cyan")
    yield TranscriptLine(form.indent(2) + f"{_state(call)} · {one_line(call['call_id'])}", "dim")
    if child is not None:
        mark, short = shape(child["status"], child["outcome"]), child["id"][-SHORT:]
        link = command(f"show {short} --transcript")
        yield TranscriptLine(form.indent(2) + f"{mark} {one_line(child['agent'])} {short}: `{link}`")
        if form.width is not None:
            return
    answer = call["full_result"] or call["result"]
    if answer is not None:
        yield from form.shortened(answer, 2, f"show {call['id']}", "red" if call["is_error"] else "dim")


@dataclass(frozen=True, slots=True)
class Form:
    """How wide texts are; without a width they stay as they are, and whole."""

    width: int | None

    def indent(self, more: int) -> str:
        """The space before a text."""
        return " " * ((2 if self.width is not None and self.width < NARROW else MARGIN) + more)

    def whole(self, text: str, more: int = 0, style: str = "") -> Iterator[TranscriptLine]:
        """All lines of a text."""
        indent = self.indent(more)
        for line in safe(text).strip("\n").split("\n"):
            parts = [line] if self.width is None else self._wrapped(line, self.width - len(indent) - 1)
            yield from (TranscriptLine(f"{indent}{part}".rstrip(), style) for part in parts or [""])

    def _wrapped(self, line: str, width: int) -> list[str]:
        text = line.lstrip()
        before = " " * (len(line) - len(text))
        return wrap(
            text,
            max(LEAST_TEXT, width),
            initial_indent=before,
            subsequent_indent=before + "  " * text.startswith(("- ", "* ")),
        )

    def shortened(self, text: str, more: int, source: str, style: str = "") -> Iterator[TranscriptLine]:
        """As many lines as fit, and where the others are."""
        if self.width is None:
            yield from self.whole(text, more, style)
            return
        lines = safe(text).strip("\n").split("\n")
        kept = lines if len(lines) <= SHOWN_LINES else lines[: SHOWN_LINES - 1]
        drawn = [self.cut(line, more, style) for line in kept]
        yield from drawn
        left = len(lines) - len(kept)
        is_cut = any(line.text.endswith("…") for line in drawn)
        if left or is_cut:
            missing = f"{count(left, 'more line')}; " if left else ""
            yield TranscriptLine(f"{self.indent(more)}… {missing}`{command(source)}` shows all", "dim")

    def cut(self, text: str, more: int, style: str = "") -> TranscriptLine:
        """One line of a text."""
        return self.fitted(self.indent(more) + text, style)

    def fitted(self, line: str, style: str = "") -> TranscriptLine:
        """A line, cut to the width."""
        if self.width is None or width_of(line) < self.width:
            return TranscriptLine(line, style)
        from rich.cells import set_cell_size

        return TranscriptLine(set_cell_size(line, max(1, self.width - 2)).rstrip() + "…", style)


def _said(message: Record, row: Record, form: Form) -> Iterator[TranscriptLine]:
    whole = f"show {row['id'][-SHORT:]} --transcript | less"
    for block in json.loads(message["content"]):
        match block["type"]:
            case "text" if not block["text"].strip():
                pass
            case "text" if message["role"] == "assistant":
                yield from form.whole(block["text"])
            case "text":
                yield from form.shortened(block["text"], 0, whole)
            case "thinking":
                yield from form.shortened(f"(thinking) {block['thinking']}", 0, whole, "dim italic")
            case "redacted_thinking":
                yield TranscriptLine(form.indent(0) + "(thinking, hidden by the provider)", "dim italic")
            case "compaction":
                yield TranscriptLine(form.indent(0) + f"[{happening('context.compacted', block)}]", "dim")


def _state(call: Record) -> str:
    if call["finished_at"] is None:
        return "no answer yet" if call["status"] != "unknown" else "outcome unknown"
    lasted = duration((moment(call["finished_at"]) - moment(call["started_at"])).total_seconds())
    if call["status"] == "unknown":
        return f"outcome unknown ({one_line(call['error_type'] or '')}) · {lasted}"
    return f"{'failed' if call['is_error'] else call['status']} · {lasted}"


def _standing(row: Record) -> Iterator[TranscriptLine]:
    """How far it has come."""
    status = row["status"].replace("_", " ")
    why = f": {one_line(row['error'])}" if row["error"] else ""
    yield TranscriptLine(
        f"{shape(row['status'], row['outcome'])} {one_line(row['agent'])} {row['id'][-SHORT:]} {status}{why}", "bold"
    )
