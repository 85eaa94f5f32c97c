"""The calendar: events, repeated ones included, with conflicts and deletion by a window of time.

Owns the table of events; each occurrence of a repeated event is a row, and the rows know their series. Start it with
`python -m examples.desk.calendar` from the folder that holds `examples`.
"""

from __future__ import annotations

import calendar
import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from examples.desk.clock import moment, shown, stored, window
from examples.desk.errors import DeskError
from examples.desk.serving import ADDS, CHANGES, READS, Answer, Desk
from examples.desk.store import Store
from examples.desk.story import entries, when

MOST = 200
"""Events in one answer."""

TABLE = """
CREATE TABLE events (
    id INTEGER PRIMARY KEY, series_id INTEGER, summary TEXT NOT NULL, location TEXT,
    starts TEXT NOT NULL, ends TEXT NOT NULL
)
"""


class Repeat(BaseModel):
    """How an event repeats."""

    model_config = ConfigDict(extra="forbid")

    every: Literal["day", "week", "month"]
    times: Annotated[int, Field(ge=2, le=100)]


Summary = Annotated[str, Field(min_length=1, max_length=200)]
Start = Annotated[str, Field(description="ISO-8601, such as `2026-01-30T09:00:00`; without an offset it is local time")]
Minutes = Annotated[int, Field(ge=1, le=7 * 24 * 60, description="how long it takes")]
TimeMin = Annotated[str, Field(description="start of the window, ISO-8601")]
TimeMax = Annotated[str, Field(description="end of the window, ISO-8601; a date alone includes that day")]
Word = Annotated[str, Field(min_length=1, pattern=r"\S")]


def _fill(connection: sqlite3.Connection) -> None:
    for entry in entries("calendar"):
        repeat = Repeat(**entry["repeat"]) if "repeat" in entry else None
        _insert(connection, entry["summary"], _occurrences(when(entry), repeat), entry)


desk = Desk("desk-calendar", "One person's calendar. Times are shown in the person's time zone.")
store = Store("calendar", [TABLE], _fill)


@desk.tool(READS)
def list_events(time_min: TimeMin, time_max: TimeMax, query: str = "") -> Answer:
    """List the events that touch a window of time, in order; `query` keeps those whose summary contains it."""
    found = [event for event in _in_window(time_min, time_max) if query.casefold() in event["summary"].casefold()]
    events = [_event(each) for each in found[:MOST]]
    return {"events": events, "total": len(found), "is_empty": not found}


@desk.tool(READS)
def find_conflicts(time_min: TimeMin, time_max: TimeMax) -> Answer:
    """Find the events in a window that overlap each other, in pairs."""
    found = _in_window(time_min, time_max)
    pairs = [
        [_event(one), _event(other)]
        for index, one in enumerate(found)
        for other in found[index + 1 :]
        if other["starts"] < one["ends"]
    ]
    return {"conflicts": pairs[:MOST], "total": len(pairs), "is_empty": not pairs}


@desk.tool(ADDS)
def create_event(
    summary: Summary,
    start: Start,
    minutes: Minutes = 60,
    location: str | None = None,
    repeat: Repeat | None = None,
) -> Answer:
    """Create an event, or a series of them; tells which other events it collides with."""
    details = {"minutes": minutes, "location": location}
    with store.changing() as connection:
        made = _insert(connection, summary, _occurrences(moment(start), repeat), details)
    events = [_found(each) for each in made]
    return {"created": [_event(each) for each in events], "conflicts": [_event(each) for each in _colliding(events)]}


@desk.tool(CHANGES)
def update_event(
    event_id: int,
    summary: Summary | None = None,
    start: Start | None = None,
    minutes: Minutes | None = None,
    location: str | None = None,
) -> Answer:
    """Change one event, also one of a series; what is not given stays. Tells which other events it collides with then."""
    event = _found(event_id)
    starts = moment(event["starts"] if start is None else start)
    old = datetime.fromisoformat(event["ends"]) - datetime.fromisoformat(event["starts"])
    ends = _later(starts, old if minutes is None else timedelta(minutes=minutes))
    values = (summary or event["summary"], stored(starts), stored(ends), location or event["location"], event_id)
    with store.changing() as connection:
        connection.execute("UPDATE events SET summary = ?, starts = ?, ends = ?, location = ? WHERE id = ?", values)
    updated = _found(event_id)
    return {"updated": _event(updated), "conflicts": [_event(each) for each in _colliding([updated])]}


@desk.tool(CHANGES)
def delete_event(
    event_id: int,
    scope: Annotated[Literal["one", "series"], Field(description="only this one, or all that repeat with it")] = "one",
) -> Answer:
    """Delete an event, or the whole series it belongs to."""
    event = _found(event_id)
    series = event["series_id"] if scope == "series" else None
    found = [event] if series is None else store.rows("SELECT * FROM events WHERE series_id = ? ORDER BY starts", series)
    return {"deleted": _deleted(found)}


@desk.tool(CHANGES)
def delete_by_window(
    time_min: TimeMin,
    time_max: TimeMax,
    exclude_summaries: Annotated[
        list[Word], Field(description="words of events to keep: a summary that contains one of them, in any case, stays")
    ] = [],  # noqa: B006 -- never changed, and shown as the default
) -> Answer:
    """Delete all events that touch a window of time, except those whose summary contains one of some words: one call."""
    words = [word.strip().casefold() for word in exclude_summaries]
    found = _in_window(time_min, time_max)
    kept = [event for event in found if any(word in event["summary"].casefold() for word in words)]
    doomed = [event for event in found if event not in kept]
    if not doomed:
        raise DeskError("no matching events", f"the window holds {len(found)}, of which {len(kept)} are to be kept")
    return {"deleted": _deleted(doomed), "kept": [_event(each) for each in kept]}


def _in_window(time_min: str, time_max: str) -> list[sqlite3.Row]:
    first, last = window(time_min, time_max)
    query = "SELECT * FROM events WHERE starts <= ? AND ends > ? ORDER BY starts, id"
    return store.rows(query, stored(last), stored(first))


def _found(event_id: int) -> sqlite3.Row:
    for event in store.rows("SELECT * FROM events WHERE id = ?", event_id):
        return event
    raise DeskError(f"there is no event {event_id}", "ask `list_events` for the ids there are")


def _colliding(events: list[sqlite3.Row]) -> list[sqlite3.Row]:
    own = {event["id"] for event in events}
    query = "SELECT * FROM events WHERE starts < ? AND ends > ? ORDER BY starts, id"
    found = {each["id"]: each for event in events for each in store.rows(query, event["ends"], event["starts"])}
    return [event for number, event in found.items() if number not in own]


def _deleted(events: list[sqlite3.Row]) -> list[Answer]:
    with store.changing() as connection:
        connection.executemany("DELETE FROM events WHERE id = ?", [(event["id"],) for event in events])
    return [_event(each) for each in events]


def _occurrences(starts: datetime, repeat: Repeat | None) -> list[datetime]:
    """When it happens, at the same time of the day each time; a month that is too short has it on its last day."""
    if repeat is None:
        return [starts]
    if repeat.every == "month":
        return [_month_later(starts, number) for number in range(repeat.times)]
    step = timedelta(days=1 if repeat.every == "day" else 7)
    return [starts + number * step for number in range(repeat.times)]


def _later(starts: datetime, lasts: timedelta) -> datetime:
    return starts.astimezone(UTC) + lasts  # an hour is an hour, also in the night in which clocks are changed


def _month_later(starts: datetime, months: int) -> datetime:
    year, month = divmod(starts.year * 12 + starts.month - 1 + months, 12)
    return starts.replace(year=year, month=month + 1, day=min(starts.day, calendar.monthrange(year, month + 1)[1]))


def _insert(connection: sqlite3.Connection, summary: str, starts: list[datetime], details: Answer) -> list[int]:
    statement = "INSERT INTO events (series_id, summary, starts, ends, location) VALUES (?, ?, ?, ?, ?)"
    lasts, made = timedelta(minutes=details["minutes"]), list[int]()
    for each in starts:
        series = made[0] if made else None
        values = (series, summary, stored(each), stored(_later(each, lasts)), details.get("location"))
        made.append(int(connection.execute(statement, values).lastrowid or 0))
    if len(made) > 1:
        connection.execute("UPDATE events SET series_id = id WHERE id = ?", (made[0],))
    return made


def _event(row: sqlite3.Row) -> Answer:
    event = {"event_id": row["id"], "summary": row["summary"], "start": shown(row["starts"]), "end": shown(row["ends"])}
    more = {"series_id": row["series_id"], "location": row["location"]}
    return event | {name: value for name, value in more.items() if value is not None}


if __name__ == "__main__":
    desk.serve()
