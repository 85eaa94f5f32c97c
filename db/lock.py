"""Advisory file locks: the commit lock of a database and the sign of life of a process. Alone knows the OS calls.

A lock is held by an open file, so it vanishes with its process, however that ends. Lock files are never the database
itself: closing any other descriptor of a database file would drop SQLite's own locks.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from db.errors import DatabaseUnavailable
from db.private import FILE_MODE

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int, *, shared: bool = False) -> bool:  # there is only one kind here
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int, *, shared: bool = False) -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


FIRST_PAUSE, LONGEST_PAUSE = 0.0005, 0.002
"""Seconds between tries. A commit under the lock takes a few milliseconds, so waiting longer only adds latency."""


class FileLock:
    """An exclusive lock on a file beside the database. Used by one thread at a time."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), FILE_MODE)
        except OSError as error:
            raise DatabaseUnavailable(
                f"cannot write beside the database: `{path}`: {error.strerror}",
                "check that the folder exists and is writable, or name another database with `--db`",
            ) from error

    def acquire(self, timeout: float) -> None:
        """Take the lock, waiting for other processes at most `timeout` seconds."""
        pause, give_up = FIRST_PAUSE, time.monotonic() + timeout
        while not _try_lock(self._descriptor):
            if time.monotonic() > give_up:
                raise DatabaseUnavailable(
                    f"another process has held `{self.path}` for {timeout:.0f} s",
                    "look for a stuck `outrider` process; the lock is free as soon as it ends",
                )
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def try_acquire(self) -> bool:
        """Take the lock if it is free."""
        return _try_lock(self._descriptor)

    def is_held(self) -> bool:
        """Whether somebody has the lock. Several may ask at once: they do not take each other for its holder."""
        if not _try_lock(self._descriptor, shared=True):
            return True
        _unlock(self._descriptor)
        return False

    def release(self) -> None:
        """Let others have it."""
        _unlock(self._descriptor)

    def close(self) -> None:
        """Forget the file; a lock still held is freed."""
        os.close(self._descriptor)
