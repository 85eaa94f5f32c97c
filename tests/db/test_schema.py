"""The schema: tables and migrations agree, old databases are brought up to date, newer and foreign ones are left alone."""

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlmodel import SQLModel

from db.errors import DatabaseUnavailable, SchemaTooNew
from db.store.migrate import known_migrations
from tests.db.store import connected, ending, names_in, open_store, rows_of
from tests.support.requirement import requirement

VERSIONS = [migration.version for migration in known_migrations("sqlite")]
AFFINITY = {"VARCHAR": "TEXT", "FLOAT": "REAL", "DOUBLE PRECISION": "REAL"}


def described(path: Path) -> dict[str, Any]:
    """Everything a database says of its tables: columns, keys, references, uniqueness, indexes."""
    with connected(path) as connection:

        def pragma(name: str, table: str) -> list[dict[str, Any]]:
            return [dict(row) for row in connection.execute(f"select * from pragma_{name}(?)", (table,))]

        # Without the search index, which no class describes: tests of searching know whether it is there.
        tables = [row[0] for row in connection.execute("select name from pragma_table_list where type = 'table'")]
        indexes = connection.execute("select name, sql from sqlite_master where type = 'index' and sql is not null")
        found: dict[str, Any] = {"indexes": {name: " ".join(sql.split()) for name, sql in indexes}}
        for table in set(tables) - {"schema_migrations"}:
            columns = [
                (row["name"], AFFINITY.get(row["type"], row["type"]), bool(row["notnull"]), row["pk"])
                for row in pragma("table_info", table)
            ]
            references = [(row["from"], row["table"], row["to"]) for row in pragma("foreign_key_list", table)]
            unique = {
                tuple(column["name"] for column in pragma("index_info", row["name"]))
                for row in pragma("index_list", table)
                if row["unique"]
            }
            found[table] = (columns, references, unique)
        return found


def build(path: Path, version: int) -> None:
    """A database as the release with this schema version left it, with one execution in it."""
    with connected(path) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute(
            "create table schema_migrations (version integer primary key, name text not null, at text not null)"
        )
        for migration in known_migrations("sqlite")[:version]:
            connection.executescript(migration.sql)
            connection.execute("insert into schema_migrations values (?, ?, '')", (migration.version, migration.name))
        row = {
            column: 0 if declared in {"INTEGER", "DOUBLE PRECISION"} else "kept"
            for _, column, declared, needed, *_ in connection.execute("select * from pragma_table_info('executions')")
            if needed
        } | {"status": "running"}
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        connection.execute(f"insert into executions ({names}) values ({marks})", tuple(row.values()))


def content(path: Path) -> str:
    """A fingerprint of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


async def test_the_tables_in_code_are_the_tables_the_migrations_make(tmp_path: Path) -> None:
    async with open_store(tmp_path / "migrated.db"):
        pass
    engine = create_engine(f"sqlite:///{tmp_path / 'declared.db'}")
    SQLModel.metadata.create_all(engine)
    engine.dispose()

    assert described(tmp_path / "migrated.db") == described(tmp_path / "declared.db")


def test_migrations_are_numbered_without_gaps() -> None:
    assert list(range(1, len(VERSIONS) + 1)) == VERSIONS
    assert all(re.fullmatch(r"[a-z_]+", migration.name) for migration in known_migrations("sqlite"))


@requirement("S2-DB-14")
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_database_of_an_earlier_version_is_brought_up_to_date_without_loss(tmp_path: Path, version: int) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    build(old, version)
    before = rows_of(old, "select * from executions")

    async with open_store(old) as store, open_store(new):
        kept = [dict(row) for row in await store.database.reads.tree("kept")]
        assert (await store.apply(ending(await store.running()))).held

    assert before[0].items() <= kept[0].items()
    assert described(old) == described(new)
    assert [row["version"] for row in rows_of(old, "select version from schema_migrations order by version")] == VERSIONS


async def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "outrider.db"
    async with open_store(path) as store:
        await store.pending()
    before = content(path)

    for _ in range(2):
        async with open_store(path) as store:
            assert len(await store.database.reads.roots(10)) == 1

    assert content(path) == before


async def test_a_database_of_a_newer_version_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "outrider.db"
    build(path, VERSIONS[-1])
    with connected(path) as connection:
        connection.execute("insert into schema_migrations values (?, 'from_the_future', '')", (VERSIONS[-1] + 1,))
    before = content(path)

    with pytest.raises(SchemaTooNew, match=f"schema version {VERSIONS[-1] + 1}, this Outrider knows") as refused:
        async with open_store(path):
            pass

    assert "upgrade" in refused.value.hint
    assert content(path) == before
    assert names_in(tmp_path) == {"outrider.db", "outrider.db-lock"}


async def test_the_database_of_another_program_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "music.db"
    with connected(path) as connection:
        connection.execute("create table songs (title text)")
    before = content(path)

    with pytest.raises(DatabaseUnavailable, match="another program") as refused:
        async with open_store(path):
            pass

    assert "--db" in refused.value.hint
    assert content(path) == before


async def test_a_file_that_is_no_database_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("groceries: bread, milk\n" * 100, encoding="utf-8")
    before = content(path)

    with pytest.raises(DatabaseUnavailable, match="not a database") as refused:
        async with open_store(path):
            pass

    assert "--db" in refused.value.hint
    assert content(path) == before


async def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    path = tmp_path / "outrider.db"
    path.touch()

    async with open_store(path) as store:
        assert (await store.pending()).id


async def test_a_folder_that_cannot_be_made_is_told_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    for path in (tmp_path / "file" / "below" / "outrider.db", tmp_path / "file" / "outrider.db"):
        with pytest.raises(DatabaseUnavailable) as refused:
            async with open_store(path):
                pass
        assert "--db" in refused.value.hint
