"""Migrations: numbered SQL files, applied in order, each in one transaction with its row in `schema_migrations`."""

from __future__ import annotations

from importlib.resources import files
from sqlite3 import complete_statement
from typing import NamedTuple

from sqlalchemy import Connection, text

from db.clock import stamp
from db.errors import SchemaTooNew


class Migration(NamedTuple):
    """One numbered file: `0002_views.sqlite.sql` is version 2 for SQLite, `0001_core.sql` version 1 for any database."""

    version: int
    name: str
    sql: str


def known_migrations(dialect: str) -> list[Migration]:
    """The migrations of this release for one kind of database, in order."""
    found = []
    for file in files("db").joinpath("migrations").iterdir():
        stem, *kinds = file.name.removesuffix(".sql").split(".")
        if file.name.endswith(".sql") and (not kinds or dialect in kinds):
            number, name = stem.split("_", 1)
            found.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    return sorted(found)


def schema_version(connection: Connection) -> int:
    """The version a database is at; 0 for an empty one."""
    exists = text("SELECT 1 FROM sqlite_master WHERE name = 'schema_migrations'")
    if connection.execute(exists).first() is None:
        return 0
    return int(connection.execute(text("SELECT coalesce(max(version), 0) FROM schema_migrations")).scalar_one())


def migrate(connection: Connection, location: str) -> None:
    """Apply the missing migrations; refuse a newer database before anything is changed."""
    migrations = known_migrations(connection.dialect.name)
    found, newest = schema_version(connection), migrations[-1].version
    if found > newest:
        raise SchemaTooNew(location, found, newest)
    for migration in migrations:
        if migration.version > found:
            _apply(connection, migration)


def _apply(connection: Connection, migration: Migration) -> None:
    columns = "version INTEGER PRIMARY KEY, name TEXT NOT NULL, at TEXT NOT NULL"
    try:
        connection.exec_driver_sql(f"CREATE TABLE IF NOT EXISTS schema_migrations ({columns})")
        for statement in _statements(migration.sql):
            connection.exec_driver_sql(statement)
        mark = text("INSERT INTO schema_migrations (version, name, at) VALUES (:version, :name, :at)")
        connection.execute(mark, {"version": migration.version, "name": migration.name, "at": stamp()})
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def _statements(sql: str) -> list[str]:
    """The statements of a migration file. Only those of a trigger have semicolons inside."""
    uncommented = "\n".join(line for line in sql.splitlines() if not line.lstrip().startswith("--"))
    statements, begun = [], ""
    for piece in uncommented.split(";"):
        begun += f"{piece};"
        if complete_statement(begun):
            statements.append(begun.strip())
            begun = ""
    return [statement for statement in statements if statement != ";"]
