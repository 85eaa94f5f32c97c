"""Who runs executions: one instance id per process, alive as long as it holds an OS lock on a file named by it.

No heartbeat is written and no clock is compared: a process that is gone has, by that, released its lock. The file may be
deleted or replaced by a program that works in its folder. Its process notices and puts it back, and until then the
operating system says that the process is there: a file alone is no proof of death.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import threading
from collections.abc import Iterable
from pathlib import Path

from db.errors import DatabaseUnavailable
from db.ids import Owner
from db.store.lock import FileLock
from db.store.private_files import FOLDER_MODE

log = logging.getLogger("outrider.owners")

OWNERS = "-owners"
"""Added to the name of a database: the folder with a file for each process."""
KEEPING_SECONDS = 0.25
"""Between looks of a process at its own file."""
DOUBT_SECONDS = 1.0
"""How long a process that may live has to put its file back, before its executions are taken over."""

_MARK = 8
_here: set[str] = set()
"""The owners of this process that have not closed: of these nothing has to be guessed."""


def _folder(database: Path) -> Path:
    return database.with_name(database.name + OWNERS)


class Ownership:
    """This process's sign of life for one database."""

    def __init__(self, database: Path) -> None:
        self._folder = _folder(database)
        self._folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        sweep(database)
        mark = _process(os.getpid())[0] or secrets.token_hex(_MARK // 2)
        self.owner = Owner(f"{os.getpid()}-{mark}{secrets.token_hex(6)}")
        _here.add(self.owner)
        self._closed, self._told = threading.Event(), False
        self._lock = self._placed()
        self._keeper = threading.Thread(target=self._keep, name="outrider-owner", daemon=True)
        self._keeper.start()

    def _placed(self) -> FileLock:
        """The file, locked before it gets its name: no other process ever finds it unlocked."""
        path = self._folder / self.owner
        draft = FileLock(path.with_name(f".{self.owner}"))
        try:
            draft.acquire(timeout=1.0)
            if path.is_dir() and not path.is_symlink():
                path.rename(path.with_name(f"replaced-{secrets.token_hex(6)}"))
            draft.path.replace(path)
        except BaseException:
            draft.close()
            raise
        draft.path = path
        return draft

    def _keep(self) -> None:
        """Put the file back whenever it was deleted or replaced."""
        while not self._closed.wait(KEEPING_SECONDS):
            if self._lock.in_place:
                continue
            try:
                self._folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
                before, self._lock = self._lock, self._placed()
                before.close()
                log.warning("`%s` was deleted or replaced while it was in use; it is back", self._lock.path)
            except (OSError, DatabaseUnavailable) as error:
                if not self._told:
                    log.error("`%s` was deleted or replaced, and cannot be put back yet: %s", self._lock.path, error)
                self._told = True

    def close(self) -> None:
        """Give up the sign of life; the name is never used again."""
        self._closed.set()
        self._keeper.join()
        _here.discard(self.owner)
        with contextlib.suppress(OSError):
            self._lock.path.unlink(missing_ok=True)
        self._lock.close()


def is_alive(database: Path, owner: str) -> bool:
    """Whether the process `owner` lives: it holds its file, or another file stands in the place of that."""
    if owner in _here and _number(owner) == os.getpid():
        return True
    path = _folder(database) / owner
    try:
        lock = FileLock(path, create=False)
    except DatabaseUnavailable:
        return os.path.lexists(path) and _process_state(owner) is not None
    try:
        return lock.is_held() or _process_state(owner) is not None
    finally:
        lock.close()


def living(database: Path) -> bool:
    """Whether any process has the database open."""
    folder = _folder(database)
    return folder.is_dir() and any(is_alive(database, path.name) for path in folder.iterdir() if path.name[0] != ".")


def doubtful(database: Path, owners: Iterable[str]) -> list[str]:
    """Those without a file whose process lives: it was deleted, and is back within `DOUBT_SECONDS`, or was given up."""
    return [owner for owner in owners if _process_state(owner) is not None and not is_alive(database, owner)]


def survives(database: Path, owner: str) -> bool:
    """Whether a doubtful owner lives after all. A process that is stopped cannot put its file back."""
    return is_alive(database, owner) or _process_state(owner) in ("T", "t")


def _number(owner: str) -> int | None:
    number = owner.partition("-")[0]
    return int(number) if number.isdecimal() else None


def _process_state(owner: str) -> str | None:
    """The state of an owner's process; None when it has ended, when the system does not say, and for this process.

    This process knows which of its owners are closed.
    """
    number = _number(owner)
    if number is None or number == os.getpid():
        return None
    mark, state = _process(number)
    return state if mark and owner.partition("-")[2].startswith(mark) else None


def _process(number: int) -> tuple[str, str]:
    """What tells a process from a later one of the same number, on this machine, and its state; nothing when it ended."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8")
        namespace = Path(f"/proc/{number}/ns/pid").readlink()
    except (OSError, ValueError):
        return "", ""
    if fields[0] in "ZXx":  # ended, and not yet waited for
        return "", ""
    started = fields[19]
    return hashlib.sha256(f"{boot}{namespace}{number} {started}".encode()).hexdigest()[:_MARK], fields[0]


def sweep(database: Path) -> None:
    """Remove the files of processes that ended without tidying up."""
    for path in _folder(database).iterdir():
        with contextlib.suppress(OSError, DatabaseUnavailable):
            lock = FileLock(path, create=False)
            try:
                if lock.try_acquire() and _process_state(path.name.removeprefix(".")) is None:
                    path.unlink()
            finally:
                lock.close()
