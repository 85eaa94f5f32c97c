"""The errors of the store.

StoreError                 anything below; has a `hint`
├── DatabaseUnavailable    the file cannot be opened or written: missing folder, read-only disk, not a database
│   └── NoDatabase         there is none yet, and a read creates none
├── SchemaTooNew           written by a newer Outrider
├── UnknownExecution       no execution has this id, or several share its short form
├── StillOpen              a tree that cannot be deleted while an execution of it runs
├── QueryRefused           a query that is not a plain, bounded read
│   └── TooManyQueries     a query of a caller of which too many run or wait
├── WriteRefused           a row that breaks a rule of the schema, such as a parent that does not exist
└── WriterClosed           a write after the service has stopped
"""

from __future__ import annotations

from collections.abc import Sequence


class StoreError(Exception):
    """A problem with the store: the message says what failed and why, the hint what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class DatabaseUnavailable(StoreError):
    """The database cannot be opened or written."""


class NoDatabase(DatabaseUnavailable):
    """A command that only reads found no database."""

    def __init__(self, path: object) -> None:
        super().__init__(
            f"no database at `{path}`", "run something first (`outrider demo`), or name a database with `--db`"
        )


class SchemaTooNew(StoreError):
    """The database was written by a newer version."""

    def __init__(self, location: str, found: int, known: int) -> None:
        super().__init__(
            f"the database `{location}` has schema version {found}, this Outrider knows {known}",
            "upgrade Outrider, or name another database with `--db`",
        )


class UnknownExecution(StoreError):
    """No such execution, or a short id that several share."""

    def __init__(self, given: str, matches: Sequence[str] = ()) -> None:
        self.matches = len(matches)
        if matches:
            how = "begin" if matches[0].startswith(given) else "end"
            super().__init__(f"{len(matches)} executions {how} with `{given}`", "give more characters of the id")
        else:
            super().__init__(f"no execution `{given}`", "`outrider ps --all` lists the executions of this database")


class StillOpen(StoreError):
    """A tree that has not ended, or that an open execution continues."""

    def __init__(self, execution: str, continues: str | None = None) -> None:
        which = f"`{execution}` has not ended" + (f", and continues `{continues}`" if continues is not None else "")
        super().__init__(f"execution {which}", f"wait for its end, or end it: `outrider cancel {execution}`")


class QueryRefused(StoreError):
    """A query that is not a plain, bounded read."""


class TooManyQueries(QueryRefused):
    """A query of a caller of which too many run or wait."""


class WriteRefused(StoreError):
    """A row that the database refused. The other writes of its batch are unaffected."""

    def __init__(self, cause: str) -> None:
        super().__init__(
            f"the database refused a write: {cause}", "nothing of it was applied; repeating it would fail again"
        )


class WriterClosed(StoreError):
    """A write after the store was closed."""

    def __init__(self) -> None:
        super().__init__("the store is closed", "the service is shutting down; start it again")
