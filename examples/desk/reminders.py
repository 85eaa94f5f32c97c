"""Reminders: something to be reminded of, at a time. Start it with `python -m examples.desk.reminders`."""

from __future__ import annotations

import sqlite3
from typing import Annotated

from pydantic import Field

from examples.desk.clock import moment, now, shown, stored
from examples.desk.errors import DeskError
from examples.desk.serving import ADDS, CHANGES, READS, Answer, Desk
from examples.desk.store import Store
from examples.desk.story import entries, when

TABLE = """
CREATE TABLE reminders (id INTEGER PRIMARY KEY, text TEXT NOT NULL, due TEXT NOT NULL, done INTEGER NOT NULL DEFAULT 0)
"""
INSERT = "INSERT INTO reminders (text, due) VALUES (?, ?)"

Text = Annotated[str, Field(min_length=1, max_length=500)]
At = Annotated[
    str, Field(description="when to remind: ISO-8601, such as `2026-01-30T09:00:00`; without offset it is local time")
]


def _fill(connection: sqlite3.Connection) -> None:
    connection.executemany(INSERT, [(entry["text"], stored(when(entry))) for entry in entries("reminders")])


desk = Desk("desk-reminders", "One person's reminders. Times are shown in the person's time zone.")
store = Store("reminders", [TABLE], _fill)


@desk.tool(READS)
def list_reminders(include_done: bool = False) -> Answer:
    """List the reminders in the order of their times."""
    found = store.rows("SELECT * FROM reminders WHERE done <= ? ORDER BY due, id", int(include_done))
    return {"reminders": [_reminder(each) for each in found], "is_empty": not found}


@desk.tool(ADDS)
def create_reminder(text: Text, at: At) -> Answer:
    """Create a reminder at a time to come."""
    due = moment(at)
    if due <= now():
        raise DeskError(f"`{at}` is over", f"it is {now().isoformat(timespec='seconds')} now; name a later time")
    with store.changing() as connection:
        number = int(connection.execute(INSERT, (text, stored(due))).lastrowid or 0)
    return {"created": _reminder(_found(number))}


@desk.tool(CHANGES)
def update_reminder(reminder_id: int, text: Text | None = None, at: At | None = None, done: bool | None = None) -> Answer:
    """Change a reminder: its text, its time, whether it is done; what is not given stays."""
    old = _found(reminder_id)
    due = old["due"] if at is None else stored(moment(at))
    values = (text or old["text"], due, old["done"] if done is None else int(done), reminder_id)
    with store.changing() as connection:
        connection.execute("UPDATE reminders SET text = ?, due = ?, done = ? WHERE id = ?", values)
    return {"updated": _reminder(_found(reminder_id))}


@desk.tool(CHANGES)
def delete_reminder(reminder_id: int) -> Answer:
    """Delete a reminder."""
    old = _found(reminder_id)
    with store.changing() as connection:
        connection.execute("DELETE FROM reminders WHERE id = ?", (reminder_id,))
    return {"deleted": _reminder(old)}


def _found(reminder_id: int) -> sqlite3.Row:
    for reminder in store.rows("SELECT * FROM reminders WHERE id = ?", reminder_id):
        return reminder
    raise DeskError(f"there is no reminder {reminder_id}", "ask `list_reminders` for the ids there are")


def _reminder(row: sqlite3.Row) -> Answer:
    return {"reminder_id": row["id"], "text": row["text"], "at": shown(row["due"]), "done": bool(row["done"])}


if __name__ == "__main__":
    desk.serve()
