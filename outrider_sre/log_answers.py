"""What the tools of the log server answer: the typed models that become structured content.

Owns names and types of the fields, which rehearsals and reports address; knows neither files nor tools.
"""

from __future__ import annotations

from pydantic import BaseModel


class Entry(BaseModel):
    """One log line."""

    ts: str
    level: str
    namespace: str
    service: str
    pod: str
    container: str
    message: str
    fields: dict[str, str]


class QueryAnswer(BaseModel):
    """Selected lines; `total` counts all that matched, `truncated` says that some are not shown, `note` why none."""

    query: str
    start: str
    end: str
    direction: str
    total: int
    truncated: bool
    note: str | None
    entries: list[Entry]


class Bucket(BaseModel):
    """How many lines fell into the step that begins at `ts`."""

    ts: str
    count: int


class Group(BaseModel):
    """Lines with the same labels: how many, first and last seen, and by step if one was asked for."""

    labels: dict[str, str]
    count: int
    first_ts: str
    last_ts: str
    steps: list[Bucket]


class StatsAnswer(BaseModel):
    """Counts, the largest group first; `step_seconds` is the step used, longer than asked for if there were too many."""

    query: str
    start: str
    end: str
    by: list[str]
    step_seconds: float | None
    total: int
    truncated: bool
    note: str | None
    groups: list[Group]


class Pattern(BaseModel):
    """Lines of one service whose messages differ only in numbers and identifiers."""

    pattern: str
    namespace: str
    service: str
    level: str
    count: int
    first_ts: str
    last_ts: str
    first_pod: str
    pods: list[str]
    novel: bool
    sample: str


class PatternsAnswer(BaseModel):
    """Patterns, the one seen first at the top."""

    query: str
    start: str
    end: str
    total: int
    truncated: bool
    note: str | None
    patterns: list[Pattern]


class LabelsAnswer(BaseModel):
    """Label names: those every line has, and those only some lines carry."""

    stream_labels: list[str]
    fields: list[str]


class LabelValue(BaseModel):
    """One value of a label and how many lines have it."""

    value: str
    count: int


class LabelValuesAnswer(BaseModel):
    """The values of one label, the most frequent first."""

    label: str
    truncated: bool
    values: list[LabelValue]
