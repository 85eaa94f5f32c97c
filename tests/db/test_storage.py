"""The file itself: its journal, its pragmas, and a disk that is full or read-only."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from db.engine import connect_read_only, open_reader, open_writer
from db.errors import DatabaseUnavailable
from tests.db.store import Store, birth, connected, draft, open_store, rows_of

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
    monkeypatch.setattr("db.committer.CHECKPOINT_PAUSE", 0.0)
    await store.pending(task=LONG)
    async with connect_read_only(store.path) as reader:
        await reader.execute("begin")
        seen = await (await reader.execute("select count(*), sum(length(task)) from executions")).fetchone()

        with anyio.fail_after(4):  # nobody waits for a reader
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


async def test_a_program_that_holds_the_file_is_waited_for_once_and_not_by_every_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("db.engine.BUSY_MILLISECONDS", 300)
    async with open_store(tmp_path / "outrider.db") as store:
        with connected(store.path) as stranger:
            stranger.execute("begin immediate")
            with anyio.fail_after(3):
                tickets = await store.together(*(birth(draft()) for _ in range(50)))
            stranger.execute("rollback")

        assert not any(ticket.held for ticket in tickets)
        for ticket in tickets:
            assert isinstance(ticket.error, DatabaseUnavailable)
            assert "another program" in ticket.error.hint
        assert (await store.pending()).id
        assert store.sequence() == [1]


async def test_a_full_disk_is_told_and_nothing_acknowledged_is_lost(small_disk: MountedDisk | LimitedFolder) -> None:
    path = small_disk.folder / "outrider.db"
    told: list[str] = []
    trouble: DatabaseUnavailable | None = None
    async with open_store(path) as store:
        while trouble is None:
            new = draft(task=LONG)
            try:
                assert (await store.apply(birth(new))).held
                told.append(new.id)
            except DatabaseUnavailable as error:
                trouble = error
        assert len(await store.database.reads.roots(100)) == len(told)
        small_disk.grow()
        told.extend([(await store.pending(task=LONG)).id for _ in range(10)])

    assert small_disk.full in trouble.hint
    assert len(told) > 20
    assert [row["id"] for row in rows_of(path, "select id from executions order by id")] == sorted(told)
    assert rows_of(path, "pragma integrity_check") == [{"integrity_check": "ok"}]


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
