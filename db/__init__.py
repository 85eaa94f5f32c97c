"""Persistence: tables, status machine, group-commit writer, reads, read-only SQL. The only package that knows SQL.

`__all__` opens a database and names what can go wrong with it. Names load on first use: importing this package imports
nothing else. The modules of `db.rows` hold the writes and reads by subject.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as `typing` has it, which costs some milliseconds to import
if TYPE_CHECKING:
    from db.database import Database, open_database
    from db.errors import (
        DatabaseUnavailable,
        NoDatabase,
        QueryRefused,
        SchemaTooNew,
        StillOpen,
        StoreError,
        UnknownExecution,
        WriterClosed,
        WriteRefused,
    )

__all__ = [
    "Database",
    "DatabaseUnavailable",
    "NoDatabase",
    "QueryRefused",
    "SchemaTooNew",
    "StillOpen",
    "StoreError",
    "UnknownExecution",
    "WriteRefused",
    "WriterClosed",
    "open_database",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module `db` has no attribute `{name}`")
    home = "db.database" if name in ("Database", "open_database") else "db.errors"
    found: object = getattr(import_module(home), name)
    return found
