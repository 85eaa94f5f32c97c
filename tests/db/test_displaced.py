"""Files beside the database that another program deletes or replaces: noticed, put back, and no process is hurt by it."""

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from sqlalchemy import Engine

from db.store.committer import RESCUE_SECONDS
from db.store.engine import open_writer
from db.store.owners import DOUBT_SECONDS, KEEPING_SECONDS, Ownership, doubtful, is_alive, sweep
from runner.core.views import gone_owners
from tests.db.store import Store, open_store, rows_of
from tests.db.test_processes import Neighbour, neighbours

Damage = Callable[[Path], None]


def delete(file: Path) -> None:
    """As `rm` does."""
    file.unlink()


def replace(file: Path) -> None:
    """As an editor does, and a tool that writes files whole."""
    other = file.with_name("other")
    other.write_text("x" * 5000, encoding="utf-8")
    other.replace(file)


def directory(file: Path) -> None:
    """Something that is no file at all."""
    file.unlink()
    file.mkdir()
    (file / "x").touch()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for another process or thread."""
    with anyio.fail_after(10):
        while not condition():
            await anyio.to_thread.run_sync(condition)  # nothing but the file tells; in a thread, so that others go on


@pytest.mark.parametrize("damage", [delete, replace, directory])
async def test_no_living_process_is_taken_for_gone_when_its_file_is_not_its_own(tmp_path: Path, damage: Damage) -> None:
    path = tmp_path / "outrider.db"
    async with open_store(path) as store:
        with neighbours(path, 1) as (neighbour,):
            there = await anyio.to_thread.run_sync(neighbour.answer)
            file = tmp_path / "outrider.db-owners" / there
            await store.pending(owner=there)
            for _ in range(3):
                damage(file)
                assert await gone_owners(store.database) == []
                sweep(path)
                await until(file.is_file)
                assert is_alive(path, there)

            neighbour.kill()
            with anyio.fail_after(DOUBT_SECONDS / 2):  # a process that has ended is not in doubt
                assert await gone_owners(store.database) == [there]


async def test_a_stopped_process_is_not_taken_for_gone_either(tmp_path: Path) -> None:
    path = tmp_path / "outrider.db"
    async with open_store(path) as store:
        with neighbours(path, 1) as (neighbour,):
            there = await anyio.to_thread.run_sync(neighbour.answer)
            await store.pending(owner=there)
            neighbour.process.send_signal(signal.SIGSTOP)
            await until(lambda: "T" in Path(f"/proc/{neighbour.process.pid}/stat").read_text(encoding="utf-8").split()[2])
            delete(tmp_path / "outrider.db-owners" / there)
            assert doubtful(path, [there]) == [there]
            assert await gone_owners(store.database) == []
            neighbour.process.send_signal(signal.SIGCONT)
            await until((tmp_path / "outrider.db-owners" / there).is_file)


async def test_a_process_that_closed_its_database_and_goes_on_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "outrider.db"
    async with open_store(path) as store:
        closed = Ownership(path)
        await store.pending(owner=closed.owner)
        assert await gone_owners(store.database) == []
        closed.close()
        assert await gone_owners(store.database) == [closed.owner]


async def test_the_whole_folder_of_signs_of_life_is_put_back(tmp_path: Path) -> None:
    path, folder = tmp_path / "outrider.db", tmp_path / "outrider.db-owners"
    async with open_store(path) as store:
        shutil.rmtree(folder)
        assert is_alive(path, store.database.owner)
        await until((folder / store.database.owner).is_file)
    assert KEEPING_SECONDS < DOUBT_SECONDS / 2
    assert list(folder.iterdir()) == []


async def _acknowledged(store: Store, neighbour: Neighbour, rounds: int, damage: Callable[[], None]) -> set[str]:
    """What both were told is stored, while something beside the database is damaged."""
    told: set[str] = set()
    for _ in range(rounds):
        neighbour.ask("write", 1)
        told.add((await store.pending()).id)
        damage()
        told.update([(await store.pending()).id for _ in range(3)])
        told.update(await anyio.to_thread.run_sync(neighbour.answer))
    neighbour.ask("write", 1)
    return told | set(await anyio.to_thread.run_sync(neighbour.answer))


@pytest.mark.parametrize("damage", [delete, replace])
async def test_the_lock_may_go_and_nothing_is_lost(tmp_path: Path, damage: Damage) -> None:
    path = tmp_path / "outrider.db"
    async with open_store(path) as store:
        with neighbours(path, 1) as (neighbour,):
            neighbour.answer()
            told = await _acknowledged(store, neighbour, 5, lambda: damage(tmp_path / "outrider.db-lock"))
        assert {row["id"] for row in await store.database.reads.roots(1000)} == told

    assert {row["id"] for row in rows_of(path, "select id from executions")} == told
    assert rows_of(path, "pragma integrity_check") == [{"integrity_check": "ok"}]


@pytest.mark.parametrize("old", [False, True], ids=["garbage", "an older log"])
async def test_a_replaced_log_is_put_aside_and_costs_nothing_that_was_acknowledged(tmp_path: Path, old: bool) -> None:
    path = tmp_path / "outrider.db"
    log, kept = path.with_name("outrider.db-wal"), tmp_path / "kept"
    async with open_store(path) as store:
        with neighbours(path, 1) as (neighbour,):
            neighbour.answer()
            await store.pending()
            shutil.copy(log, kept)

            def damage() -> None:
                if not old:
                    replace(log)
                    return
                shutil.copy(kept, tmp_path / "again")
                (tmp_path / "again").replace(log)

            told = await _acknowledged(store, neighbour, 4, damage)
        found = {row["id"] for row in await store.database.reads.roots(1000)}
        assert found >= told

    assert {row["id"] for row in rows_of(path, "select id from executions")} == found
    assert rows_of(path, "pragma integrity_check") == [{"integrity_check": "ok"}]


def _replace_at_the_next_opening(monkeypatch: pytest.MonkeyPatch, damage: Callable[[], object]) -> None:
    def opened(path: Path) -> Engine:
        monkeypatch.setattr("db.store.committer.open_writer", open_writer)
        damage()
        return open_writer(path)

    monkeypatch.setattr("db.store.committer.open_writer", opened)


async def test_a_log_that_is_replaced_at_the_moment_it_is_opened_is_not_taken_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "outrider.db"
    log, kept = path.with_name("outrider.db-wal"), tmp_path / "kept"
    async with open_store(path) as store:
        with neighbours(path, 1) as (neighbour,):
            neighbour.answer()
            told = {(await store.pending()).id}
            shutil.copy(log, kept)
            delete(log)
            neighbour.ask("write", 1)  # it has begun a new log, and this process must follow it there
            told.update(await anyio.to_thread.run_sync(neighbour.answer))
            _replace_at_the_next_opening(monkeypatch, lambda: shutil.move(kept, log))
            with anyio.fail_after(RESCUE_SECONDS / 2):  # the neighbour is idle, and alone has the log that was replaced
                told.add((await store.pending()).id)
        assert {row["id"] for row in await store.database.reads.roots(1000)} == told

    assert {row["id"] for row in rows_of(path, "select id from executions")} == told
    assert rows_of(path, "pragma integrity_check") == [{"integrity_check": "ok"}]


@pytest.mark.parametrize("damage", [delete, replace])
async def test_a_process_that_begins_while_the_log_is_not_ours_waits_until_it_is_put_back(
    tmp_path: Path, damage: Damage
) -> None:
    path = tmp_path / "outrider.db"
    async with open_store(path) as store:
        told = {(await store.pending()).id}
        damage(tmp_path / "outrider.db-wal")
        with neighbours(path, 1) as (neighbour,):
            await anyio.to_thread.run_sync(neighbour.answer)
            neighbour.ask("write", 1)
            told.update(await anyio.to_thread.run_sync(neighbour.answer))
        assert {row["id"] for row in await store.database.reads.roots(1000)} == told

    assert rows_of(path, "pragma integrity_check") == [{"integrity_check": "ok"}]


async def test_a_log_whose_process_has_ended_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("db.store.committer.RESCUE_SECONDS", 0.5)
    path = tmp_path / "outrider.db"
    log = path.with_name("outrider.db-wal")
    monkeypatch.setattr("db.store.writer.LOOK_SECONDS", 60.0)  # this process does not notice that there is a new log
    async with open_store(path) as store:
        with neighbours(path, 1) as (neighbour,):
            neighbour.answer()
            before = (await store.pending()).id
            delete(log)
            neighbour.ask("write", 1)
            await anyio.to_thread.run_sync(neighbour.answer)
            neighbour.kill()
        delete(log)  # with it goes what only the neighbour could have written down
        with anyio.fail_after(5):
            after = (await store.pending()).id
        assert {before, after} <= {row["id"] for row in await store.database.reads.roots(1000)}

    assert {before, after} <= {row["id"] for row in rows_of(path, "select id from executions")}
    assert rows_of(path, "pragma integrity_check") == [{"integrity_check": "ok"}]


async def test_a_foreign_journal_is_put_aside_before_any_process_applies_it(tmp_path: Path) -> None:
    path = tmp_path / "outrider.db"
    journal = tmp_path / "outrider.db-journal"
    async with open_store(path) as store:
        told = {(await store.pending()).id}
        journal.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\x00\x00\x00\x01" * 2000)
        with anyio.fail_after(10):
            while journal.exists():
                await store.database.writer.version()
        told.add((await store.pending()).id)
        with neighbours(path, 1) as (neighbour,):
            neighbour.answer()
            neighbour.ask("write", 1)
            told.update(await anyio.to_thread.run_sync(neighbour.answer))
    journal.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\x00\x00\x00\x01" * 2000)
    async with open_store(path) as store:
        assert {row["id"] for row in await store.database.reads.roots(1000)} == told

    assert not journal.exists()
    assert rows_of(path, "pragma integrity_check") == [{"integrity_check": "ok"}]
