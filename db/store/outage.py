"""Database errors: turns errors of the driver into StoreErrors with a hint, and tells an outage from one bad row.

Only this module knows what SQLite's messages mean. Nothing above `db` sees an error of the driver or of SQLAlchemy.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from db.errors import DatabaseUnavailable, StoreError, WriteRefused
from db.store.location import can_create_beside

_HINTS = {
    "readonly": "the disk or the file is read-only: make it writable, or name another database with `--db`",
    "unable to open": "check that the folder exists and is writable, or name another database with `--db`",
    "not a database": "the file is not an Outrider database: name another one with `--db`",
    "disk is full": "the disk is full: free some space; nothing that was acknowledged is lost",
    "I/O error": "the disk failed: look at its free space and the system log; nothing that was acknowledged is lost",
    "locked": "another program holds the file open for writing: close it and try again",
    "no such module: fts5": "this Python's SQLite has no full-text search: use a Python whose SQLite has FTS5",
    "malformed": "the file is damaged: restore a copy, or name another database with `--db`",
}


_TROUBLES, _REFUSALS = {"DatabaseError", "InterfaceError"}, {"DataError", "IntegrityError", "ProgrammingError"}
"""By name, because every driver has classes of its own for them (PEP 249), and SQLAlchemy wraps them in further ones."""


_PASSING = ("I/O error", "locked", "busy")
"""Errors of a read that may be gone a moment later."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why nothing can be written at the moment, and since when."""

    reason: str
    hint: str
    since: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return time.monotonic() - self.since

    @property
    def error(self) -> DatabaseUnavailable:
        """The error for a caller that cannot wait for its end."""
        return DatabaseUnavailable(self.reason, self.hint)


def is_passing(error: Exception) -> bool:
    """Whether reading may work a moment later."""
    cause = str(getattr(error, "orig", None) or error)
    return any(words in cause for words in _PASSING)


def is_full(error: Exception) -> bool:
    """Whether the disk is full."""
    return "disk is full" in str(error)


def told(path: Path, error: Exception) -> StoreError:
    """The StoreError for any error of the driver: a refused row, or an outage."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, OSError):
        return unavailable(path, error)
    names = {each.__name__ for each in type(getattr(error, "orig", None) or error).__mro__}
    if names & _TROUBLES and not names & _REFUSALS:
        return unavailable(path, error)
    return WriteRefused(str(getattr(error, "orig", None) or error))


def unavailable(path: Path, error: Exception, doing: str = "write to") -> DatabaseUnavailable:
    """A driver's error as DatabaseUnavailable, with a hint."""
    cause = str(getattr(error, "orig", None) or error)
    hint = next((hint for words, hint in _HINTS.items() if words in cause), "look at the disk and the file, then try again")
    return DatabaseUnavailable(f"cannot {doing} the database `{path}`: {cause}", hint)


def unreadable(path: Path, cause: str) -> DatabaseUnavailable:
    """SQLite's words about a database that cannot be read, with a hint."""
    return DatabaseUnavailable(f"cannot read the database `{path}`: {cause}", _how_to_read(path, cause))


def _how_to_read(path: Path, cause: str) -> str:
    elsewhere = "name another one with `--db`"
    if "unable to open" in cause or "readonly" in cause:
        log, index = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
        for file in (path, log, index):
            if file.exists() and not os.access(file, os.R_OK):
                return f"let this user read `{file}`, or {elsewhere}"
        if log.exists() and not can_create_beside(path):
            return f"let a user who may write in `{path.parent}` open it once with `outrider serve`, or {elsewhere}"
    return f"the file is not an Outrider database, or is damaged: restore a copy, or {elsewhere}"
