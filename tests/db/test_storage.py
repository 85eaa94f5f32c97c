"""The file itself: its journal, its pragmas, and a disk that is full or read-only."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from db.errors import DatabaseUnavailable, WriterClosed
from db.store.engine import connect_read_only, open_reader, open_writer, sqlite_library
from db.store.outage import Trouble
from db.store.writer import Writer
from tests.db.store import Store, beginning, birth, connected, draft, ending, open_store, place_of, rows_of
from tests.db.test_processes import neighbours

LONG = "x" * 500_000
CHECKPOINT = 8_192_000
"""Bytes of the log after which it is folded back."""


def log_size(path: Path) -> int:
    """How long the write-ahead log is."""
    return path.with_name(path.name + "-wal").stat().st_size


def mount(*arguments: str) -> bool:
    """Mount something, if this process may."""
    return subprocess.run(["mount", *arguments], check=False, capture_output=True).returncode == 0


class MountedDisk:
    """A real disk of 12 MB; root can have one."""

    full = "the disk is full"
    read_only = "Read-only"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def grow(self) -> None:
        assert mount("-o", "remount,size=64m", str(self.folder))

    def protect(self) -> None:
        assert mount("-o", "remount,ro", str(self.folder))

    def release(self) -> None:
        assert mount("-o", "remount,rw", str(self.folder))


class LimitedFolder:
    """The same for everybody else: files of this process end at 12 MB, and permissions protect the folder."""

    full = "the disk failed"
    read_only = "Permission denied"

    def __init__(self, folder: Path) -> None:
        import resource

        self.folder = folder
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (12 * 1024 * 1024, self._before[1]))

    def grow(self) -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)

    def protect(self) -> None:
        for path in (*self.folder.iterdir(), self.folder):
            path.chmod(0o555)

    def release(self) -> None:
        for path in (self.folder, *self.folder.iterdir()):
            path.chmod(0o755)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[MountedDisk | LimitedFolder]:
    """A place with room for 12 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if mount("-t", "tmpfs", "-o", "size=12m", "outrider-test", str(folder)):
        try:
            yield MountedDisk(folder)
        finally:
            subprocess.run(["umount", str(folder)], check=True)
    else:
        limited = LimitedFolder(folder)
        try:
            yield limited
        finally:
            limited.grow()
            limited.release()


async def test_the_log_is_folded_back_and_emptied_when_it_is_long(store: Store) -> None:
    for _ in range(20):
        await store.pending(task=LONG)

    assert log_size(store.path) < CHECKPOINT
    assert store.path.stat().st_size > CHECKPOINT // 2
    assert store.sql("pragma integrity_check") == [{"integrity_check": "ok"}]


async def test_a_reader_keeps_what_it_sees_while_others_write_and_checkpoint(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("db.store.committer.CHECKPOINT_PAUSE", 0.0)
    await store.pending(task=LONG)
    async with connect_read_only(store.path) as reader:
        await reader.execute("begin")
        seen = await (await reader.execute("select count(*), sum(length(task)) from executions")).fetchone()

        with anyio.fail_after(4):  # no write waits for a reader
            for _ in range(20):
                await store.pending(task=LONG)

        assert log_size(store.path) > CHECKPOINT, "the log was emptied under a reader"
        assert await (await reader.execute("select count(*), sum(length(task)) from executions")).fetchone() == seen
        assert await (await reader.execute("pragma integrity_check")).fetchone() == ("ok",)
        await reader.execute("commit")
    await store.pending()

    assert log_size(store.path) < CHECKPOINT
    assert len(store.sql("select id from executions")) == 22


async def test_no_connection_checkpoints_on_its_own_and_only_the_writer_can_write(store: Store) -> None:
    writer, reader = open_writer(store.path), open_reader(store.path)
    names = ["wal_autocheckpoint", "journal_mode", "synchronous", "foreign_keys", "query_only"]
    try:
        with writer.connect() as connection:
            writing = [connection.exec_driver_sql(f"pragma {name}").scalar() for name in names]
        async with reader.connect() as other:
            reading = [(await other.exec_driver_sql(f"pragma {name}")).scalar() for name in names]
        async with connect_read_only(store.path) as watching:
            row = await (await watching.execute("pragma wal_autocheckpoint")).fetchone()
    finally:
        writer.dispose()
        await reader.dispose()

    assert writing == [0, "wal", 2, 1, 0]
    assert (reading[0], reading[1], reading[4]) == (0, "wal", 1)
    assert row == (0,)


async def in_trouble(writer: Writer) -> Trouble:
    """Wait until the writer says what is wrong."""
    with anyio.fail_after(5):
        while writer.trouble is None:
            await writer.version()
        return writer.trouble


async def test_while_a_program_holds_the_file_writes_wait_in_their_order_and_who_cannot_wait_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("db.store.engine.BUSY_MILLISECONDS", 100)
    async with open_store(tmp_path / "outrider.db") as store:
        writer, first = store.database.writer, await store.pending()
        with connected(store.path) as stranger:
            stranger.execute("begin immediate")
            chain = [birth(new := draft()), beginning(place_of(new)), ending(place_of(new)), beginning(first)]
            tickets = store.post(*chain, *(birth(draft()) for _ in range(300)))
            trouble = await in_trouble(writer)
            with anyio.fail_after(2):
                with pytest.raises(DatabaseUnavailable, match="locked") as refused:
                    await writer.apply(birth(draft(task="unwanted")), patient=False)
                assert await writer.check() == writer.trouble
                await writer.version()
            stranger.execute("rollback")
            with anyio.fail_after(5):
                for ticket in tickets:
                    await ticket.done.wait()
                assert await writer.check() is None

        assert "another program" in refused.value.hint
        assert all(ticket.held for ticket in tickets)
        assert len(store.sql("select id from executions")) == 302
        assert store.sql("select id from executions where task = 'unwanted'") == []
        assert store.sequence() == list(range(1, len(store.sequence()) + 1))
        assert [each["seq"] for each in store.published] == store.sequence()
    told = [record.message for record in caplog.records if record.name == "outrider.writer"]
    assert len(told) == 2, "one line when it began, and one when it was over"
    assert trouble.reason in told[0]


async def test_a_full_disk_is_told_and_nothing_acknowledged_is_lost(small_disk: MountedDisk | LimitedFolder) -> None:
    path = small_disk.folder / "outrider.db"
    told: list[str] = []
    trouble: DatabaseUnavailable | None = None
    async with open_store(path) as store:
        while trouble is None:
            new = draft(task=LONG)
            try:
                assert (await store.database.writer.apply(birth(new), patient=False)).held
                told.append(new.id)
            except DatabaseUnavailable as error:
                trouble = error
        late = [draft(task=LONG) for _ in range(10)]
        tickets = store.post(*map(birth, late))
        assert len(await store.database.reads.roots(100)) == len(told)
        small_disk.grow()
        with anyio.fail_after(5):
            for ticket in tickets:
                await ticket.done.wait()
        told.extend(new.id for new in late)

    assert small_disk.full in trouble.hint
    assert len(told) > 20
    assert [row["id"] for row in rows_of(path, "select id from executions order by id")] == sorted(told)
    assert rows_of(path, "pragma integrity_check") == [{"integrity_check": "ok"}]


async def test_a_deleted_log_costs_nothing_that_was_acknowledged_in_any_process(tmp_path: Path) -> None:
    path = tmp_path / "outrider.db"
    log = path.with_name("outrider.db-wal")
    told: list[str] = []
    async with open_store(path) as store:
        with neighbours(path, 1) as (neighbour,):
            neighbour.answer()
            for round_ in range(3):
                neighbour.ask("write", 1)
                told += await anyio.to_thread.run_sync(neighbour.answer)
                told.append((await store.pending()).id)
                assert {row["id"] for row in await store.database.reads.roots(100)} == set(told)
                log.unlink()
                if round_ < 2:  # with a write that comes at once, and in the last round without one
                    told.append((await store.pending()).id)
            with anyio.fail_after(5):
                while not log.exists():
                    await store.database.writer.version()
            assert {row["id"] for row in await store.database.reads.roots(100)} == set(told)
            neighbour.ask("write", 1)
            told += await anyio.to_thread.run_sync(neighbour.answer)
        assert {row["id"] for row in await store.database.reads.roots(1000)} == set(told)

    assert {row["id"] for row in rows_of(path, "select id from executions")} == set(told)
    assert rows_of(path, "pragma integrity_check") == [{"integrity_check": "ok"}]


async def test_a_database_that_is_taken_away_is_waited_for_and_never_made_anew(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "outrider.db", tmp_path / "elsewhere.db"
    async with open_store(path) as store:
        first = await store.pending()
        path.rename(elsewhere)
        [ticket] = store.post(birth(second := draft()))
        assert "was deleted" in (await in_trouble(store.database.writer)).reason
        assert not path.exists()
        elsewhere.rename(path)
        with anyio.fail_after(5):
            await ticket.done.wait()

    assert {row["id"] for row in rows_of(path, "select id from executions")} == {first.id, second.id}


async def test_closing_waits_for_the_end_of_a_trouble_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("db.store.engine.BUSY_MILLISECONDS", 50)
    monkeypatch.setattr("db.store.writer.CLOSING_SECONDS", 0.5)
    path = tmp_path / "outrider.db"
    with anyio.fail_after(5):
        async with open_store(path) as store:
            stranger = sqlite_library().connect(str(path), isolation_level=None)
            stranger.execute("begin immediate")
            [ticket] = store.post(birth(draft()))
            await in_trouble(store.database.writer)
    stranger.execute("rollback")
    stranger.close()

    assert isinstance(ticket.error, WriterClosed)
    assert rows_of(path, "select id from executions") == []


async def test_a_read_only_disk_is_told_and_works_again_once_it_is_writable(
    small_disk: MountedDisk | LimitedFolder,
) -> None:
    path = small_disk.folder / "outrider.db"
    async with open_store(path) as store:
        await store.pending()
    small_disk.protect()

    with pytest.raises(DatabaseUnavailable, match=small_disk.read_only) as refused:
        async with open_store(path):
            pass

    assert "--db" in refused.value.hint
    small_disk.release()
    async with open_store(path) as store:
        assert (await store.pending()).id
