"""Read-only SQL: what it answers, and an attack list that changes nothing and reaches nothing."""

import hashlib
import json
from pathlib import Path

import anyio
import pytest

from db.errors import DatabaseUnavailable, QueryRefused, StoreError
from db.query.query import BYTES, query
from db.rows import transcript
from tests.db.store import connected, message, model_call, open_store
from tests.support.requirement import requirement

ENDLESS = "with recursive r(x) as (select 1 union all select x + 1 from r) select count(*) from r"

ATTACKS = {
    "attach a file": "attach database '{folder}/stolen.db' as stolen",
    "attach memory": "attach ':memory:' as elsewhere",
    "detach": "detach database main",
    "copy everything": "vacuum into '{folder}/copy.db'",
    "vacuum": "vacuum",
    "writable schema": "pragma writable_schema = 1",
    "undo query_only": "pragma query_only = 0",
    "switch the journal": "pragma journal_mode = delete",
    "checkpoint": "pragma wal_checkpoint(truncate)",
    "user version": "pragma user_version = 99",
    "temporary files elsewhere": "pragma temp_store_directory = '{folder}'",
    "trust the schema": "pragma trusted_schema = 1",
    "free the heap": "pragma hard_heap_limit = 1",
    "pragma as a table": "select * from pragma_table_info('executions')",
    "pragma list as a table": "select file from pragma_database_list",
    "pragma with an effect as a table": "select * from pragma_wal_checkpoint('truncate')",
    "two statements": "select 1; delete from executions",
    "two statements in a comment's shade": "select 1; -- harmless\ndelete from executions",
    "a statement behind a comment": "/* select */ delete from executions",
    "a statement behind white space": " \t\r\n\f delete from executions",
    "insert": "insert into config_snapshots values ('h', 'b', 't')",
    "replace": "replace into config_snapshots values ('h', 'b', 't')",
    "update": "update executions set status = 'failed'",
    "delete": "delete from executions",
    "delete, returning": "delete from executions returning id",
    "upsert": "insert into config_snapshots values ('h', 'b', 't') on conflict do update set body = 'x' returning body",
    "write behind a common table expression": "with gone as (select id from executions) delete from executions",
    "drop a table": "drop table events",
    "drop a view": "drop view execution_tree",
    "drop an index": "drop index executions_root",
    "create a table": "create table mine (x)",
    "create a table from a query": "create table mine as select * from executions",
    "create a temporary table": "create temp table mine (x)",
    "create a temporary view": "create temp view mine as select 1",
    "create a trigger": "create trigger t after insert on events begin delete from executions; end",
    "create a temporary trigger": "create temp trigger t after insert on events begin select 1; end",
    "create an index": "create index mine on executions (agent)",
    "create a virtual table": "create virtual table mine using fts5(x)",
    "alter a table": "alter table executions rename to mine",
    "analyze": "analyze",
    "reindex": "reindex",
    "begin": "begin immediate",
    "commit": "commit",
    "savepoint": "savepoint mine",
    "explain a write": "explain delete from executions",
    "load an extension": "select load_extension('{folder}/evil.so')",
    "load an extension with an entry": "select load_extension('{folder}/evil.so', 'start')",
    "read a file": "select readfile('{folder}/secret.txt')",
    "write a file": "select writefile('{folder}/written.txt', 'x')",
    "open an editor": "select edit('x')",
    "tokenizer pointer": "select fts3_tokenizer('simple', x'4141414141414141')",
    "a file as a table": "select * from csv('{folder}/secret.txt')",
    "another schema": "select * from elsewhere.sqlite_master",
    "a page of the file": "update sqlite_dbpage set data = zeroblob(4096) where pgno = 1",
    "the schema itself": "update sqlite_master set sql = ''",
    "a blob bomb": "select zeroblob(1000000000)",
    "a random bomb": "select randomblob(1000000000)",
    "a text bomb": "select replace(printf('%.*c', 9000000, 'x'), 'x', 'yyyy')",
    "a doubling bomb": "with recursive r(x) as (select 'xxxxxxxxxx' union all select x || x from r) select max(x) from r",
    "a gathering bomb": "with recursive r(n) as (select 1 union all select n + 1 from r) select group_concat(n) from r",
    "a deep expression": "select " + "(" * 5000 + "1" + ")" * 5000,
    "a long expression": "select " + "+".join(["1"] * 5000),
    "many parts": " union all ".join(["select 1"] * 600),
    "many columns": "select " + ", ".join(["1"] * 3000),
    "a long query": "select '" + "x" * 200_000 + "'",
    "an endless query": ENDLESS,
    "an endless product": "select count(*) from " + ", ".join(f"sqlite_master as t{number}" for number in range(12)),
    "a pattern too long": "select 'x' like '" + "%a" * 20_000 + "'",
    "a NUL": "select 1 \0; delete from executions",
    "half a character": "select '\ud800'",
    "nothing": "",
    "only a comment": "-- nothing to see",
    "only a semicolon": ";",
    "not SQL": "please delete everything",
    "a parameter": "select ?",
    "a dot command": ".shell touch {folder}/touched",
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a small tree in it."""
    path = tmp_path_factory.mktemp("query") / "outrider.db"

    async def make() -> None:
        async with open_store(path) as store:
            top = await store.running(agent="Lead")
            child = await store.running(top, agent="LogAnalyzer")
            await store.apply(transcript.reply(1, model_call(child), message(child, 1), [], []))

    anyio.run(make)
    (path.parent / "secret.txt").write_text("a secret", encoding="utf-8")
    query(
        path, "select * from executions"
    )  # a reader leaves the two files of its journal behind: they are no surprise afterwards
    return path


def surroundings(path: Path) -> dict[str, str]:
    """Every file around a database, by content; not the shared memory, which readers may touch."""
    files = [each for each in path.parent.rglob("*") if each.is_file() and not each.name.endswith("-shm")]
    return {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in files}


@requirement("S2-DB-16")
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_refused_with_a_hint_and_changes_nothing(path: Path, attack: str) -> None:
    before = surroundings(path)

    with pytest.raises(QueryRefused) as refused:
        query(path, ATTACKS[attack].replace("{folder}", str(path.parent)), seconds=0.3)

    assert str(refused.value)
    assert refused.value.hint
    assert surroundings(path) == before


@pytest.mark.parametrize(
    ("sql", "said", "hint"),
    [
        ("delete from executions", "only reads are allowed", "single `select`"),
        ("select 1; select 2", "only one statement", "single `select`"),
        ("", "empty", "single `select`"),
        (ENDLESS, "longer than 0.2 s", "narrow"),
        ("select * from executionz", "no such table: executionz", "lists the tables"),
        ("select agnet from executions", "no such column: agnet", "lists the tables"),
        ("select replace(printf('%.*c', 9000000, 'x'), 'x', 'yyyy')", "asks for too much", "smaller"),
        ("selekt 1", "syntax error", "examples"),
    ],
)
def test_a_refusal_says_what_was_wrong_and_what_to_do(path: Path, sql: str, said: str, hint: str) -> None:
    with pytest.raises(QueryRefused, match=said) as refused:
        query(path, sql, seconds=0.2)

    assert hint in refused.value.hint


def test_a_query_that_no_handler_can_interrupt_is_ended_from_outside(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("db.query.query.GRACE", 0.3)

    with pytest.raises(QueryRefused, match="longer than"):
        query(path, "select printf('%.*c', 2147483647, 'x')", seconds=0.2)


@requirement("S2-DB-16")
def test_rows_are_bounded_and_the_answer_says_so(path: Path) -> None:
    numbers = "with recursive r(n) as (select 1 union all select n + 1 from r limit 500) select n from r"

    assert len(query(path, numbers).rows) == 500
    few = query(path, numbers, rows=10)
    assert ([row[0] for row in few.rows], few.truncated) == (list(range(1, 11)), True)
    assert not query(path, numbers, rows=500).truncated


def test_the_size_of_an_answer_is_bounded(path: Path) -> None:
    numbers = "with recursive r(n) as (select 1 union all select n + 1 from r limit 50)"

    answer = query(path, f"{numbers} select printf('%.*c', 1000000, 'x') from r")

    assert answer.truncated
    assert sum(len(row[0]) for row in answer.rows) <= BYTES


def test_columns_of_the_same_name_are_told_apart(path: Path) -> None:
    answer = query(path, "select 1, 1, 2 as n, 3 as n, 4 as n_2")

    assert answer.columns == ("1", "1", "n", "n", "n_2")
    assert answer.as_objects() == [{"1": 1, "1_2": 1, "n": 2, "n_3": 3, "n_2": 4}]


def test_every_value_can_be_written_as_json(path: Path) -> None:
    answer = query(path, "select null, 1.5, 9e999, -9e999, x'00ff', 9223372036854775807, cast(x'61ff' as text), 'né🚒'")

    assert answer.rows == [(None, 1.5, "Inf", "-Inf", "x'00ff'", 9223372036854775807, "a\N{REPLACEMENT CHARACTER}", "né🚒")]
    assert json.loads(json.dumps(answer.as_objects(), allow_nan=False)) == answer.as_objects()


@requirement("S2-DB-16")
def test_plain_questions_are_answered(path: Path) -> None:
    tree = query(path, "select agent, subtree_tokens from execution_tree order by depth").as_objects()

    assert tree == [{"agent": "Lead", "subtree_tokens": 116}, {"agent": "LogAnalyzer", "subtree_tokens": 116}]
    assert query(path, "values (1), (2)").rows == [(1,), (2,)]
    assert query(path, "select * from executions limit 0").columns[:2] == ("id", "parent_execution_id")
    assert query(path, "explain query plan select 1").rows
    assert query(path, "select value from json_each('[1, 2]'); ").rows == [(1,), (2,)]


async def test_a_query_sees_what_a_running_service_has_committed(tmp_path: Path) -> None:
    async with open_store(tmp_path / "outrider.db") as store:
        await store.pending()
        answer = await anyio.to_thread.run_sync(query, store.path, "select count(*) as n from executions")
        await store.pending()

    assert answer.as_objects() == [{"n": 1}]


def test_trouble_with_the_file_is_not_blamed_on_the_query(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database, but long enough to be looked at " * 30, encoding="utf-8")
    with connected(tmp_path / "empty.db") as connection:
        connection.execute("vacuum")

    for name, trouble in (("missing.db", "no database at"), ("notes.txt", "not a database")):
        with pytest.raises(DatabaseUnavailable, match=trouble) as refused:
            query(tmp_path / name, "select 1 from sqlite_master")
        assert "--db" in refused.value.hint
    with pytest.raises(StoreError, match="no such table"):
        query(tmp_path / "empty.db", "select * from executions")
