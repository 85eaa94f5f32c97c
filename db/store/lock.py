"""Advisory file locks: the commit lock of a database and the owner lock of a process. Only this module knows the OS calls.

An open file holds a lock, so the lock is released when its process ends, however it ends. Lock files are never the database
itself: closing any other descriptor of a database file would drop SQLite's own locks.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from db.errors import DatabaseUnavailable
from db.store.private_files import FILE_MODE

log = logging.getLogger("outrider.lock")

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


NOTE, LONGEST_NOTE = "log ", 100
"""The prefix of a note, and its most bytes."""
FIRST_PAUSE, LONGEST_PAUSE = 0.0005, 0.002
"""Seconds between tries. A commit under the lock takes a few milliseconds, so waiting longer only adds latency."""


def _opened(path: Path, *, create: bool = True) -> int:
    try:
        return os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), FILE_MODE)
    except OSError as error:
        raise DatabaseUnavailable(
            f"cannot write beside the database: `{path}`: {error.strerror}",
            "check that the folder exists and is writable, or name another database with `--db`",
        ) from error


class FileLock:
    """An exclusive lock on a file beside the database. Used by one thread at a time."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        self._descriptor = _opened(path, create=create)

    @property
    def in_place(self) -> bool:
        """Whether the path still leads to the open file: another process could lock a file that replaced it."""
        try:
            there, ours = os.stat(self.path), os.fstat(self._descriptor)  # noqa: PTH116 - before every commit
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def acquire(self, timeout: float) -> None:
        """Take the lock of the file that the path leads to now, waiting at most `timeout` seconds for other processes."""
        give_up = time.monotonic() + timeout
        self._acquire(timeout, give_up)
        while not self.in_place:
            log.warning("`%s` was deleted or replaced while it was in use; opening it again", self.path)
            self.close()
            self._descriptor = _opened(self.path)
            self._acquire(timeout, give_up)

    def _acquire(self, timeout: float, give_up: float) -> None:
        pause = FIRST_PAUSE
        while not _try_lock(self._descriptor):
            if time.monotonic() > give_up:
                raise DatabaseUnavailable(
                    f"another process has held `{self.path}` for {timeout:.0f} s",
                    "look for a stuck `outrider` process; the lock is free as soon as it ends",
                )
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    @property
    def note(self) -> str:
        """The last note of a holder; empty if there is none, as in a file that replaced the lock."""
        if not hasattr(os, "pread"):
            return ""
        found = os.pread(self._descriptor, LONGEST_NOTE, 0).decode("utf-8", "replace")
        return found if found.startswith(NOTE) else ""

    def write(self, note: str) -> None:
        """Leave a note for the next holder. Call it while the lock is held."""
        if hasattr(os, "pwrite") and note != self.note:
            with suppress(OSError):  # a full disk: then there is no note
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, note.encode(), 0)

    def try_acquire(self) -> bool:
        """Take the lock if it is free."""
        return _try_lock(self._descriptor)

    def is_held(self) -> bool:
        """Whether a process holds the lock. Several may ask at once without taking each other for the holder."""
        if not _try_lock(self._descriptor, shared=True):
            return True
        _unlock(self._descriptor)
        return False

    def release(self) -> None:
        """Release the lock."""
        _unlock(self._descriptor)

    def close(self) -> None:
        """Close the file; this also releases the lock."""
        os.close(self._descriptor)
