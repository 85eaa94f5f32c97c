"""The log server: the recorded lines over MCP, in Loki's manner.

Owns the tools; the shape of their answers is in `log_answers`, the language in `logql`, the lines in `log_store`.
Invariant: every answer is bounded, says whether something was left out, and repeats the window it is about. Start it
with `python -P -m outrider_sre.logs`.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from mcp.server import MCPServer
from pydantic import Field

from outrider_sre.errors import NotFoundError
from outrider_sre.incident import incident_folder, open_incident
from outrider_sre.log_answers import (
    Bucket,
    Entry,
    Group,
    LabelsAnswer,
    LabelValue,
    LabelValuesAnswer,
    Pattern,
    PatternsAnswer,
    QueryAnswer,
    StatsAnswer,
)
from outrider_sre.log_store import STREAM_LABELS, LogLine, open_logs, pattern_of
from outrider_sre.logql import parse_log_query
from outrider_sre.serving import LOG_LEVEL, READ_ONLY, explained, limited, serve
from outrider_sre.times import format_time, parse_duration, parse_window

WINDOW = 3600.0
HIGHEST_LIMIT = 500
GROUPS = 100
STEPS = 200

Query = Annotated[str, Field(description='LogQL: {service="checkout",level=~"error|warn"} |= "timeout" != "retry"')]
Start = Annotated[str | None, Field(description="ISO-8601 UTC or `now`, also shifted: `now-30m`; default: 1 h earlier")]
End = Annotated[str | None, Field(description="ISO-8601 UTC or `now`, with a shift if need be; default: now")]


server = MCPServer(
    "sre-logs",
    log_level=LOG_LEVEL,
    instructions="Recorded log lines, searched in Loki's manner. Count and look for patterns before reading lines.",
)


def _selected(query: str, start: str | None, end: str | None) -> tuple[list[LogLine], float, float]:
    incident = open_incident(incident_folder())
    parsed = parse_log_query(query)
    first, last = parse_window(start, end, incident.now, WINDOW)
    return list(open_logs(incident).search(parsed, first, last)), first, last


@server.tool(annotations=READ_ONLY)
async def query(
    query: Query,
    start: Start = None,
    end: End = None,
    limit: Annotated[int, Field(description="lines at most, up to 500")] = 50,
    direction: Annotated[
        Literal["backward", "forward"], Field(description="backward: newest first; forward: oldest first")
    ] = "backward",
) -> QueryAnswer:
    """Read the lines a LogQL query selects. There are very many: narrow down with `stats` or `patterns` first."""
    with explained():
        lines, first, last = _selected(query, start, end)
    ordered = lines if direction == "forward" else lines[::-1]
    shown = ordered[: limited(limit, HIGHEST_LIMIT)]
    return QueryAnswer(
        query=query,
        start=format_time(first),
        end=format_time(last),
        direction=direction,
        total=len(lines),
        truncated=len(shown) < len(lines),
        note=None if lines else _note(query, first, last),
        entries=[_entry(line) for line in shown],
    )


@server.tool(annotations=READ_ONLY)
async def stats(
    query: Query,
    by: Annotated[list[str] | None, Field(description="labels or fields to group by; default: service, level")] = None,
    start: Start = None,
    end: End = None,
    step: Annotated[str | None, Field(description="also count per step, such as `5m`")] = None,
) -> StatsAnswer:
    """Count the lines a LogQL query selects, by labels (service, pod, level) or fields (upstream, status, route)."""
    names = ["service", "level"] if by is None else by
    with explained():
        lines, first, last = _selected(query, start, end)
        width = None if step is None else max(parse_duration(step), (last - first) / STEPS)
    grouped: dict[tuple[str, ...], list[LogLine]] = {}
    for line in lines:
        grouped.setdefault(tuple(line.labels.get(name, "") for name in names), []).append(line)
    groups = [_group(names, key, members, first, width) for key, members in grouped.items()]
    groups.sort(key=lambda group: (-group.count, group.first_ts))
    return StatsAnswer(
        query=query,
        start=format_time(first),
        end=format_time(last),
        by=names,
        step_seconds=width,
        total=len(lines),
        truncated=len(groups) > GROUPS,
        note=None if lines else _note(query, first, last),
        groups=groups[:GROUPS],
    )


@server.tool(annotations=READ_ONLY)
async def patterns(
    query: Query,
    start: Start = None,
    end: End = None,
    novel_only: Annotated[bool, Field(description="only patterns that no line before `start` has")] = False,
    limit: Annotated[int, Field(description="patterns at most, up to 500")] = 50,
) -> PatternsAnswer:
    """Group lines whose messages differ only in numbers: find what is new (`novel`) or rare among thousands of lines.

    A pattern is `novel` when no line that the query selects had it before `start`: choose a `start` before the trouble.
    """
    with explained():
        lines, first, last = _selected(query, start, end)
        incident = open_incident(incident_folder())
        earlier = open_logs(incident).search(parse_log_query(query), incident.started_at, first - 0.001)
        known = {_pattern_key(line) for line in earlier}
    grouped: dict[tuple[str, ...], list[LogLine]] = {}
    for line in lines:
        grouped.setdefault(_pattern_key(line), []).append(line)
    found = [_pattern(key, members, key not in known) for key, members in grouped.items()]
    found = [one for one in found if one.novel or not novel_only]
    shown = found[: limited(limit, HIGHEST_LIMIT)]
    return PatternsAnswer(
        query=query,
        start=format_time(first),
        end=format_time(last),
        total=len(found),
        truncated=len(shown) < len(found),
        note=None if lines else _note(query, first, last),
        patterns=shown,
    )


@server.tool(annotations=READ_ONLY)
async def labels() -> LabelsAnswer:
    """List the labels every line has, and the fields only some lines carry; both can be used to select and to group."""
    with explained():
        incident = open_incident(incident_folder())
        names = {name for line in open_logs(incident).everything() for name in line.labels}
    return LabelsAnswer(stream_labels=list(STREAM_LABELS), fields=sorted(names - set(STREAM_LABELS)))


@server.tool(annotations=READ_ONLY)
async def label_values(
    label: Annotated[str, Field(description="a label or field, such as `service` or `upstream`")],
    query: Annotated[str | None, Field(description="only in lines this LogQL query selects")] = None,
) -> LabelValuesAnswer:
    """List the values a label has in the whole recording, with the number of lines for each."""
    with explained():
        incident = open_incident(incident_folder())
        parsed = parse_log_query('{service=~".+"}' if query is None else query)
        lines = open_logs(incident).search(parsed, incident.started_at, incident.ended_at)
        counted = Counter(line.labels[label] for line in lines if label in line.labels)
        if not counted and query is None:
            raise NotFoundError(f"no line has a label `{label}`", "ask `labels` for the names there are")
    common = counted.most_common(GROUPS)
    values = [LabelValue(value=value, count=count) for value, count in common]
    return LabelValuesAnswer(label=label, truncated=len(counted) > len(values), values=values)


def _note(query: str, start: float, end: float) -> str:
    """Why nothing was found: a value that no line has, a window outside the recording, or simply no such line."""
    incident = open_incident(incident_folder())
    lines = open_logs(incident).everything()
    for matcher in parse_log_query(query).selector:
        values = sorted({line.labels.get(matcher.label, "") for line in lines} - {""})
        if not any(matcher.matches(value) for value in values):
            return f"no line has {matcher}; values of `{matcher.label}`: {', '.join(values[:12]) or 'none'}"
    if end < incident.started_at or start > incident.ended_at:
        span = f"{format_time(incident.started_at)} to {format_time(incident.ended_at)}"
        return f"the window is outside the recording, which goes from {span}"

    return "no line in the window matches"


def _entry(line: LogLine) -> Entry:
    fields = {name: text for name, text in line.labels.items() if name not in STREAM_LABELS}
    stream = {name: line.labels.get(name, "") for name in STREAM_LABELS}
    return Entry(ts=line.ts, message=line.message, fields=fields, **stream)


def _group(names: list[str], key: tuple[str, ...], lines: list[LogLine], start: float, width: float | None) -> Group:
    steps: list[Bucket] = []
    if width is not None:
        counted = Counter(int((line.at - start) / width) for line in lines)
        steps = [Bucket(ts=format_time(start + index * width), count=counted[index]) for index in sorted(counted)]

    labels = {name: text for name, text in zip(names, key, strict=True) if text}
    return Group(labels=labels, count=len(lines), first_ts=lines[0].ts, last_ts=lines[-1].ts, steps=steps)


def _pattern_key(line: LogLine) -> tuple[str, ...]:
    return (pattern_of(line.message), *(line.labels.get(name, "") for name in ("namespace", "service", "level")))


def _pattern(key: tuple[str, ...], lines: list[LogLine], novel: bool) -> Pattern:
    pattern, namespace, service, level = key
    return Pattern(
        pattern=pattern,
        namespace=namespace,
        service=service,
        level=level,
        count=len(lines),
        first_ts=lines[0].ts,
        last_ts=lines[-1].ts,
        first_pod=lines[0].labels.get("pod", ""),
        pods=sorted({line.labels.get("pod", "") for line in lines}),
        novel=novel,
        sample=lines[0].message,
    )


def main() -> None:
    """Serve over stdio."""
    serve(server)


if __name__ == "__main__":
    main()
