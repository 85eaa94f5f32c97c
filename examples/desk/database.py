"""The database: tasks, lists and contacts of one person. Start it with `python -m examples.desk.database`."""

from __future__ import annotations

import sqlite3
from typing import Annotated, Literal

from pydantic import Field

from examples.desk.clock import moment, shown, stored
from examples.desk.errors import DeskError
from examples.desk.serving import ADDS, CHANGES, READS, Answer, Desk
from examples.desk.store import Store
from examples.desk.story import entries

TABLES = (
    "CREATE TABLE tasks (id INTEGER PRIMARY KEY, title TEXT NOT NULL, due TEXT, done INTEGER NOT NULL DEFAULT 0)",
    "CREATE TABLE items (list TEXT NOT NULL COLLATE NOCASE, item TEXT NOT NULL COLLATE NOCASE, PRIMARY KEY (list, item))",
    "CREATE TABLE contacts (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT, phone TEXT)",
)
INSERT_TASK = "INSERT INTO tasks (title, due, done) VALUES (?, ?, ?)"
INSERT_ITEM = "INSERT OR IGNORE INTO items (list, item) VALUES (?, ?)"
INSERT_CONTACT = "INSERT INTO contacts (name, email, phone) VALUES (?, ?, ?)"

Line = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
Items = Annotated[list[Line], Field(min_length=1, max_length=100)]
Due = Annotated[str, Field(description="ISO-8601; without an offset it is local time")]


def _fill(connection: sqlite3.Connection) -> None:
    connection.executemany(INSERT_TASK, [(each["title"], None, each.get("done", False)) for each in entries("tasks")])
    connection.executemany(INSERT_ITEM, [(each["list"], item) for each in entries("lists") for item in each["items"]])
    people = [(each["name"], each.get("email"), each.get("phone")) for each in entries("contacts")]
    connection.executemany(INSERT_CONTACT, people)


desk = Desk("desk-database", "One person's tasks, lists and contacts.")
store = Store("database", TABLES, _fill)


@desk.tool(READS)
def list_tasks(status: Literal["open", "done", "all"] = "open") -> Answer:
    """List tasks, those with a date first."""
    found = _tasks(status)
    return {"tasks": [_task(each) for each in found], "is_empty": not found}


@desk.tool(ADDS)
def add_task(title: Line, due: Due | None = None) -> Answer:
    """Add a task."""
    with store.changing() as connection:
        values = (title, None if due is None else stored(moment(due)), False)
        number = int(connection.execute(INSERT_TASK, values).lastrowid or 0)
    return {"added": _task(_found("task", "SELECT * FROM tasks WHERE id = ?", number))}


@desk.tool(CHANGES)
def update_task(task_id: int, title: Line | None = None, due: Due | None = None, done: bool | None = None) -> Answer:
    """Change a task: its title, its date, whether it is done; what is not given stays."""
    query = "SELECT * FROM tasks WHERE id = ?"
    old = _found("task", query, task_id)
    when = old["due"] if due is None else stored(moment(due))
    values = (title or old["title"], when, old["done"] if done is None else int(done), task_id)
    with store.changing() as connection:
        connection.execute("UPDATE tasks SET title = ?, due = ?, done = ? WHERE id = ?", values)
    return {"updated": _task(_found("task", query, task_id))}


@desk.tool(CHANGES)
def delete_tasks(status: Literal["open", "done", "all"] | None = None, task_ids: list[int] | None = None) -> Answer:
    """Delete tasks: all of a status, or some by their ids."""
    if (status is None) == (task_ids is None):
        raise DeskError("`delete_tasks` needs one of `status` and `task_ids`", "for every task there is: `status: all`")
    found = _tasks(status) if status is not None else [row for row in _tasks("all") if row["id"] in (task_ids or [])]
    if not found:
        raise DeskError("no matching tasks", "ask `list_tasks` for those there are")
    with store.changing() as connection:
        connection.executemany("DELETE FROM tasks WHERE id = ?", [(each["id"],) for each in found])
    return {"deleted": [_task(each) for each in found]}


@desk.tool(READS)
def show_lists(name: Annotated[str | None, Field(description="only this one")] = None) -> Answer:
    """Show the lists and what is on them."""
    lists: dict[str, list[str]] = {}
    for row in store.rows("SELECT * FROM items WHERE ?1 IS NULL OR list = ?1 ORDER BY list, item", name):
        lists.setdefault(row["list"], []).append(row["item"])
    return {"lists": lists, "is_empty": not lists}


@desk.tool(ADDS)
def add_to_list(name: Line, items: Items) -> Answer:
    """Put things on a list; a list that does not exist is made."""
    with store.changing() as connection:
        connection.executemany(INSERT_ITEM, [(name, item.strip()) for item in items])
    return show_lists(name)


@desk.tool(CHANGES)
def remove_from_list(name: Line, items: Items | None = None) -> Answer:
    """Take things off a list; without `items` all of them, and the list is gone."""
    on_it = [row["item"] for row in store.rows("SELECT item FROM items WHERE list = ?", name)]
    wanted = {item.strip().casefold() for item in items} if items is not None else None
    doomed = [item for item in on_it if wanted is None or item.casefold() in wanted]
    if not doomed:
        raise DeskError(f"nothing of it is on the list `{name}`", "ask `show_lists` for what there is")
    with store.changing() as connection:
        connection.executemany("DELETE FROM items WHERE list = ? AND item = ?", [(name, item) for item in doomed])
    return {"removed": doomed, "left": sorted(set(on_it) - set(doomed))}


@desk.tool(READS)
def find_contacts(query: str = "") -> Answer:
    """Find people whose name, address or number contains `query`; without it everybody."""
    rows = store.rows("SELECT * FROM contacts ORDER BY name, id")
    found = [_contact(row) for row in rows if query.casefold() in f"{row['name']} {row['email']} {row['phone']}".casefold()]
    return {"contacts": found, "is_empty": not found}


@desk.tool(ADDS)
def save_contact(name: Line, email: str | None = None, phone: str | None = None) -> Answer:
    """Keep a person's address, number or both."""
    if email is None and phone is None:
        raise DeskError("a contact needs `email` or `phone`", "give at least one of them")
    with store.changing() as connection:
        number = int(connection.execute(INSERT_CONTACT, (name, email, phone)).lastrowid or 0)
    return {"saved": _contact(_found("contact", "SELECT * FROM contacts WHERE id = ?", number))}


@desk.tool(CHANGES)
def delete_contact(contact_id: int) -> Answer:
    """Delete a contact."""
    old = _found("contact", "SELECT * FROM contacts WHERE id = ?", contact_id)
    with store.changing() as connection:
        connection.execute("DELETE FROM contacts WHERE id = ?", (contact_id,))
    return {"deleted": _contact(old)}


def _tasks(status: str) -> list[sqlite3.Row]:
    least, most = {"open": (0, 0), "done": (1, 1), "all": (0, 1)}[status]
    return store.rows("SELECT * FROM tasks WHERE done BETWEEN ? AND ? ORDER BY due IS NULL, due, id", least, most)


def _found(kind: str, query: str, number: int) -> sqlite3.Row:
    for row in store.rows(query, number):
        return row
    raise DeskError(f"there is no {kind} {number}", f"ask for the {kind}s there are")


def _task(row: sqlite3.Row) -> Answer:
    due = {} if row["due"] is None else {"due": shown(row["due"])}
    return {"task_id": row["id"], "title": row["title"], "done": bool(row["done"]), **due}


def _contact(row: sqlite3.Row) -> Answer:
    contact = {"contact_id": row["id"], "name": row["name"], "email": row["email"], "phone": row["phone"]}
    return {name: value for name, value in contact.items() if value is not None}


if __name__ == "__main__":
    desk.serve()
