"""Who runs executions: one instance id per process, alive as long as it holds an OS lock on a file named by it.

No heartbeat is written and no clock is compared: a process that is gone has, by that, released its lock.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from db.errors import DatabaseUnavailable
from db.ids import Owner
from db.lock import FileLock
from db.private import FOLDER_MODE


def _folder(database: Path) -> Path:
    return database.with_name(database.name + "-owners")


class Ownership:
    """This process's sign of life for one database."""

    def __init__(self, database: Path) -> None:
        folder = _folder(database)
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        sweep(database)
        self.owner = Owner(f"{os.getpid()}-{secrets.token_hex(6)}")
        self._lock = FileLock(folder / self.owner)
        self._lock.acquire(timeout=1.0)
        while not self._lock.path.exists():  # swept by another process between creation and lock: take it anew
            self._lock.close()
            self._lock = FileLock(folder / self.owner)
            self._lock.acquire(timeout=1.0)

    def close(self) -> None:
        """Give up the sign of life; the name is never used again."""
        self._lock.path.unlink(missing_ok=True)
        self._lock.close()


def is_alive(database: Path, owner: str) -> bool:
    """Whether the process `owner` still lives."""
    try:
        lock = FileLock(_folder(database) / owner, create=False)
    except DatabaseUnavailable:
        return False
    try:
        return lock.is_held()
    finally:
        lock.close()


def sweep(database: Path) -> None:
    """Remove the files of processes that ended without tidying up."""
    for path in _folder(database).iterdir():
        with contextlib.suppress(OSError, DatabaseUnavailable):
            lock = FileLock(path, create=False)
            try:
                if lock.try_acquire():
                    path.unlink()  # under the lock: whoever is about to take it finds the file gone and makes another
            finally:
                lock.close()
