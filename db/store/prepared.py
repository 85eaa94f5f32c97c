"""Prepared statements: SQLAlchemy compiles each once, the driver runs it from then on.

For a small UPDATE, SQLAlchemy's own execution costs several times SQLite's, and the writer runs thousands. Owns the
compiled statements of one connection. Invariant: the SQL is the one SQLAlchemy would send, in any dialect.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Dialect, Executable, Table, insert

from db.store.unit import Row, Statement


class _Prepared:
    """One statement as text, with the order and the constants of its parameters."""

    def __init__(self, text: str, names: Sequence[str] | None, constants: Row) -> None:
        self.text = text
        self._constants = constants
        # A tuple in the order of the text, unless the driver takes parameters by name.
        self._pick = itemgetter(*names) if names is not None and len(names) > 1 else None
        self._only = names[0] if names is not None and len(names) == 1 else None

    def values(self, given: Row) -> Any:
        """The parameters as the driver takes them."""
        whole = {**self._constants, **given} if self._constants else given
        if self._pick is not None:
            return self._pick(whole)
        return whole if self._only is None else (whole[self._only],)


class Prepared:
    """The statements of one writing connection. Run only statements that are built once: each is cached for good."""

    def __init__(self, connection: Connection) -> None:
        self._dialect = connection.dialect
        self._cursor: Any = connection.connection.cursor()
        self._statements: dict[Executable, _Prepared | None] = {}
        self._inserts: dict[Table, _Prepared] = {}

    def run(self, statement: Statement) -> int | None:
        """The number of rows it changed, or found if it is a SELECT; None if it cannot be prepared and was not run."""
        prepared = self._of(statement.sql)
        if prepared is None:
            return None
        self._cursor.execute(prepared.text, prepared.values(statement.parameters))
        return len(self._cursor.fetchall()) if statement.sql.is_select else int(self._cursor.rowcount)

    def number(self, sql: Executable) -> int:
        """The number that a SELECT without parameters finds."""
        prepared = self._of(sql)
        assert prepared is not None
        return int(self._cursor.execute(prepared.text, prepared.values({})).fetchone()[0])

    def _of(self, sql: Executable) -> _Prepared | None:
        if sql not in self._statements:
            self._statements[sql] = _prepare(sql, self._dialect)
        return self._statements[sql]

    def insert(self, table: Table, rows: Sequence[Row]) -> None:
        """Insert rows of the same keys, as one statement."""
        prepared = self._inserts.get(table)
        if prepared is None:
            compiled: Any = insert(table).compile(dialect=self._dialect, column_keys=list(rows[0]))
            prepared = self._inserts[table] = _Prepared(str(compiled), compiled.positiontup, {})
        self._cursor.executemany(prepared.text, [prepared.values(row) for row in rows])


def _prepare(sql: Any, dialect: Dialect) -> _Prepared | None:
    """Compile it; None with RETURNING or list parameters, whose length is part of the SQL."""
    compiled: Any = sql.compile(dialect=dialect)
    if compiled.effective_returning or any(each.required for each in compiled.post_compile_params):
        return None
    given = {name for name, each in compiled.binds.items() if each.required}
    state = compiled.construct_expanded_state(dict.fromkeys(given))  # constant lists are written out
    constants = {name: value for name, value in state.parameters.items() if name not in given}
    return _Prepared(state.statement, state.positiontup, constants)
