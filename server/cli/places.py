"""Which configuration and database a command used, in words: for errors about something that was not found.

Owns these words, and the look at the user's database for executions that a project's database does not have. Must not
know: commands. Invariant: no error of its own hides the one that is told.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from server.cli.options import used


@dataclass(frozen=True, slots=True)
class Kept:
    """A database with executions in it."""

    path: Path
    executions: int


def places_used() -> str:
    """The configuration and the database of this command, a line each; empty where it used none."""
    found = used()
    named = (("configuration", found.config), ("database", found.database))
    return "".join(f"\n  {name}: {path}" for name, path in named if path is not None)


def look_elsewhere() -> str:
    """Where else executions are, as the end of a hint; empty where there are none."""
    kept = of_user_instead()
    if kept is None:
        return ""
    return f"; this user's database holds {kept.executions:,} more: add `--db {kept.path}` to look there"


def of_user_instead() -> Kept | None:
    """The user's database, where a project's is used by default and the user's holds executions."""
    from db.errors import StoreError
    from db.query.query import query
    from db.store.location import FOLDER, of_user

    path, ours = of_user(os.environ), used().database
    if ours is None or ours.parent.name != FOLDER or path == ours or not path.exists():
        return None
    try:
        [(number,)] = query(path, "select count(*) from executions").rows
    except (StoreError, ValueError):
        return None
    return Kept(path, number) if number else None
