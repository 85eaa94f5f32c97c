"""Notes: things worth remembering, without any form, found again by their words.

The index is of three letters at a time, so that a word is found inside another one, as Hebrew needs it. Start it with
`python -m examples.desk.notes`.
"""

from __future__ import annotations

import re
import sqlite3
from typing import Annotated

from pydantic import Field

from examples.desk.clock import now, shown, stored
from examples.desk.errors import DeskError
from examples.desk.serving import ADDS, CHANGES, READS, Answer, Desk
from examples.desk.store import Store
from examples.desk.story import entries

TABLE = "CREATE VIRTUAL TABLE notes USING fts5 (text, tags, at UNINDEXED, tokenize = 'trigram')"
INSERT = "INSERT INTO notes (text, tags, at) VALUES (?, ?, ?)"
SHORTEST = 3
"""Letters of a word that can be looked for."""

Text = Annotated[str, Field(min_length=1, max_length=10_000)]


def _fill(connection: sqlite3.Connection) -> None:
    for entry in entries("notes"):
        connection.execute(INSERT, (entry["text"], " ".join(entry.get("tags", [])), stored(now())))


desk = Desk("desk-notes", "One person's notes.")
store = Store("notes", [TABLE], _fill)


@desk.tool(ADDS)
def add_note(text: Text, tags: list[Annotated[str, Field(pattern=r"^\S+$", max_length=50)]] | None = None) -> Answer:
    """Keep a note, with tags if wanted."""
    with store.changing() as connection:
        number = int(connection.execute(INSERT, (text, " ".join(tags or []), stored(now()))).lastrowid or 0)
    return {"added": _note(_found(number))}


@desk.tool(READS)
def search_notes(query: str, limit: Annotated[int, Field(ge=1, le=50)] = 10) -> Answer:
    """Find the notes that hold words of `query`, the best first."""
    words = [word for word in re.findall(r"\w+", query) if len(word) >= SHORTEST]
    if not words:
        raise DeskError("there is no word to look for", f"give at least one of {SHORTEST} letters or more")
    found = store.rows(
        "SELECT rowid, * FROM notes WHERE notes MATCH ? ORDER BY rank LIMIT ?",
        " OR ".join(f'"{word}"' for word in words),
        limit,
    )
    return {"notes": [_note(each) for each in found], "is_empty": not found}


@desk.tool(CHANGES)
def delete_note(note_id: int) -> Answer:
    """Delete a note."""
    old = _found(note_id)
    with store.changing() as connection:
        connection.execute("DELETE FROM notes WHERE rowid = ?", (note_id,))
    return {"deleted": _note(old)}


def _found(note_id: int) -> sqlite3.Row:
    for note in store.rows("SELECT rowid, * FROM notes WHERE rowid = ?", note_id):
        return note
    raise DeskError(f"there is no note {note_id}", "ask `search_notes` for the ids there are")


def _note(row: sqlite3.Row) -> Answer:
    return {"note_id": row["rowid"], "text": row["text"], "tags": row["tags"].split(), "at": shown(row["at"])}


if __name__ == "__main__":
    desk.serve()
