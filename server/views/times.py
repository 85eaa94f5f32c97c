"""Where the time of executions went: stretches of model calls, tool calls, questions and children, and what they sum to.

Owns the rule for stretches that overlap: asking the model counts before a tool, a tool before a question, a question before
children. Must not know: where the rows come from. Invariant: the parts sum to the age of the execution.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from db.clock import seconds_at, stamp
from runner.tools.builtin import SERVER
from runner.tools.dispatch import GET_RESULT, WAIT_FOR
from server.views.answers import SpanKind, Times
from server.views.records import TimeSpan

Row = Mapping[str, Any]

RANKS: tuple[SpanKind, ...] = ("model", "tool", "approval", "children")
CANCELLED = "cancelled"
"""The type of error of a call that was stopped with its execution: that is no failure."""
OPEN = "open"
"""Instead of the end of children of which one is open."""
WAITS = (GET_RESULT, WAIT_FOR)
"""Built-in tools that only wait for children."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """One call, question or child, in seconds since 1970; `end` is None while it lasts."""

    kind: SpanKind
    begin: float
    end: float | None
    label: str
    ref: str
    is_error: bool = False


@dataclass(slots=True)
class TimeUse:
    """What executions did, by execution."""

    stretches: dict[str, list[Stretch]] = field(default_factory=dict)
    pricing: dict[str, set[str]] = field(default_factory=dict)
    calling: dict[str, list[str]] = field(default_factory=dict)
    """The tools of calls that have begun and have no result."""

    def add(self, execution: str, stretch: Stretch) -> None:
        self.stretches.setdefault(execution, []).append(stretch)


def time_use_of(models: Iterable[Row], tools: Iterable[Row], questions: Iterable[Row], children: Iterable[Row]) -> TimeUse:
    """What these rows say."""
    used = TimeUse()
    for row in models:
        begin, over = seconds_at(row["started_at"]), seconds_at(row["finished_at"])
        used.add(row["execution_id"], Stretch("model", begin, over, row["model"], row["id"]))
        used.pricing.setdefault(row["execution_id"], set()).add(row["pricing"])
    asked = dict[str, float | None]()
    for row in questions:
        end = seconds_at(row["decided_at"]) if row["decided_at"] is not None else None
        asked[row["tool_call_id"]] = end
        stretch = Stretch("approval", seconds_at(row["requested_at"]), end, row["tool"], row["id"])
        used.add(row["execution_id"], stretch)
    for row in tools:
        _add_tool(used, row, asked)
    for row in children:
        end = seconds_at(row["end"]) if row["end"] != OPEN else None
        used.add(row["parent"], Stretch("children", seconds_at(row["begin"]), end, "", ""))
    return used


def _add_tool(used: TimeUse, row: Row, asked: Mapping[str, float | None]) -> None:
    if row["status"] == "started":
        used.calling.setdefault(row["execution_id"], []).append(row["tool"])
    if row["status"] == "waiting" or (row["server"] == SERVER and row["tool"] in WAITS):
        return
    begin, end = seconds_at(row["started_at"]), seconds_at(row["finished_at"]) if row["finished_at"] is not None else None
    decided = asked.get(row["id"])
    if decided is not None:  # a call that was denied began when it was asked about
        begin = max(begin, decided)
    if end is None or begin <= end:
        failed = bool(row["is_error"]) and row["error_type"] != CANCELLED
        stretch = Stretch("tool", begin, end, row["tool"], row["id"], failed)
        used.add(row["execution_id"], stretch)


@dataclass(frozen=True, slots=True)
class Lifetime:
    """When an execution was created, began and ended, or now."""

    created: float
    began: float | None
    end: float

    @classmethod
    def of(cls, row: Row, now: float) -> Lifetime:
        """That of a row."""
        began = seconds_at(row["started_at"]) if row["started_at"] is not None else None
        created = seconds_at(row["created_at"])
        end = seconds_at(row["finished_at"]) if row["finished_at"] is not None else now
        created = min(created, began if began is not None else created)  # a clock that was set back makes no negative time
        return cls(created, began, max(end, created if began is None else began))


def asks_now(row: Row, stretches: Sequence[Stretch], *, alive: bool) -> bool:
    """Whether an execution is asking its model: a call has a row only when it has ended."""
    at_work = row["status"] == "running" and alive and row["model"] is not None and row["waiting_for"] in (None, "model")
    return at_work and all(each.end is not None or each.kind == "children" for each in stretches)


def with_model_now(row: Row, stretches: Sequence[Stretch], *, alive: bool) -> Sequence[Stretch]:
    """The stretches and, if it is asking its model, the one that lasts."""
    if not asks_now(row, stretches, alive=alive):
        return stretches
    ends = [each.end for each in stretches if each.end is not None and each.kind != "children"]
    begin = max([seconds_at(row["started_at"]), *ends])
    return [*stretches, Stretch("model", begin, None, row["model"], "")]


def times_of(row: Row, stretches: Sequence[Stretch], now: float) -> Times:
    """The seconds of each kind."""
    life, lasts = Lifetime.of(row, now), row["finished_at"] is None
    if life.began is None:
        return Times(queue=round(life.end - life.created, 6), lasting="queue" if lasts else None)
    parts = dict.fromkeys((*RANKS, "idle"), 0.0)
    pieces = _pieces(stretches, life.began, life.end)
    for kind, begin, end in pieces:
        parts[kind] += end - begin
    seconds: dict[str, Any] = {kind: round(each, 6) for kind, each in parts.items()}
    lasting = (pieces[-1][0] if pieces else "idle") if lasts else None
    return Times(queue=round(life.began - life.created, 6), lasting=lasting, **seconds)


def _pieces(stretches: Sequence[Stretch], begin: float, end: float) -> list[tuple[SpanKind, float, float]]:
    """The time between two moments, cut where something begins or ends, each piece with what counts in it."""
    marks: list[tuple[float, int, int]] = []
    for each in stretches:
        start, stop = max(each.begin, begin), min(each.end if each.end is not None else end, end)
        if start < stop:
            rank = RANKS.index(each.kind)
            marks += ((start, 1, rank), (stop, -1, rank))
    marks.sort()
    pieces: list[tuple[SpanKind, float, float]] = []
    at, active = begin, [0, 0, 0, 0]
    for moment_, change, rank in [*marks, (end, 0, 0)]:
        if moment_ > at:
            kind = _counted(active)
            if pieces and pieces[-1][0] == kind:
                pieces[-1] = (kind, pieces[-1][1], moment_)
            else:
                pieces.append((kind, at, moment_))
            at = moment_
        active[rank] += change
    return pieces


def _counted(active: Sequence[int]) -> SpanKind:
    """What counts where these numbers of stretches of each rank overlap."""
    for kind, number in zip(RANKS, active, strict=True):
        if number:
            return kind
    return "idle"


def stopped_at(questions: Iterable[Row], waiting: Iterable[Row]) -> str | None:
    """Since when a clock stands, of the questions at and below its execution and of those that wait; None: it runs.

    A question that was decided while another one was open belongs to the same stop.
    """
    since: str | None = min((each["since"] for each in waiting), default=None)
    for each in sorted(questions, key=lambda row: row["requested_at"], reverse=True):
        if since is not None and (each["decided_at"] or "") >= since > each["requested_at"]:
            since = each["requested_at"]
    return since


def spans_of(row: Row, stretches: Sequence[Stretch], now: float) -> list[TimeSpan]:
    """The stretches in order; between them it was queued, waited for children, or was idle."""
    life = Lifetime.of(row, now)
    lasts = row["finished_at"] is None
    queue = Stretch("queue", life.created, None if lasts and life.began is None else life.began or life.end, "", "")
    spans = [queue] if queue.end is None or queue.end > queue.begin else []
    if life.began is not None:
        shown = [each for each in stretches if each.kind != "children"]
        pieces = _pieces(stretches, life.began, life.end)
        for kind, begin, end in pieces:
            if kind in ("children", "idle"):
                shown.append(Stretch(kind, begin, None if lasts and end == life.end else end, "", ""))
        spans += sorted(shown, key=lambda each: each.begin)
    return [_span(each) for each in spans]


def _span(stretch: Stretch) -> TimeSpan:
    return TimeSpan(
        kind=stretch.kind,
        started_at=_stamped(stretch.begin),
        finished_at=_stamped(stretch.end) if stretch.end is not None else None,
        label=stretch.label,
        ref=stretch.ref or None,
        is_error=stretch.is_error,
    )


def _stamped(seconds: float) -> str:
    from datetime import UTC, datetime

    return stamp(datetime.fromtimestamp(seconds, UTC))
