"""Owners: the process instances that run executions. Each is alive while it holds an OS lock on the file with its name.

There is no heartbeat and no comparison of clocks: a process that ends releases its lock. Another program may delete or
replace the file. Its process notices and puts it back; until then the operating system tells that the process lives, so a
missing file alone does not prove that it ended. The file belongs to one user: for all others, too, the operating system
tells.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from db.errors import DatabaseUnavailable
from db.ids import Owner
from db.store.lock import FileLock
from db.store.private_files import FOLDER_MODE

log = logging.getLogger("outrider.owners")

OWNERS = "-owners"
"""Suffix of the folder beside a database with one file for each process."""
KEEPING_SECONDS = 0.25
"""Seconds between checks of a process on its own file."""
DOUBT_SECONDS = 1.0
"""Seconds for a process that may be alive to put its file back, before its executions are adopted."""

_MARK = 8
_here: set[str] = set()
"""The open owners of this process: these are known to be alive."""


def _folder(database: Path) -> Path:
    return database.with_name(database.name + OWNERS)


class Ownership:
    """This process's owner lock for one database."""

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
        """The file, locked before it gets its name, so no other process finds it unlocked."""
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
        """Put the file back whenever it is deleted or replaced."""
        while not self._closed.wait(KEEPING_SECONDS):
            if self._lock.in_place:
                continue
            try:
                self._folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
                before, self._lock = self._lock, self._placed()
                before.close()
                log.warning("`%s` was deleted or replaced while it was in use; restored", self._lock.path)
            except (OSError, DatabaseUnavailable) as error:
                if not self._told:
                    log.error("`%s` was deleted or replaced and cannot be restored yet: %s", self._lock.path, error)
                self._told = True

    def close(self) -> None:
        """Release the owner lock; the name is never used again."""
        self._closed.set()
        self._keeper.join()
        _here.discard(self.owner)
        with contextlib.suppress(OSError):
            self._lock.path.unlink(missing_ok=True)
        self._lock.close()


def is_alive(database: Path, owner: str) -> bool:
    """Whether the process `owner` is alive: it holds its file, or another file has replaced it.

    A user who may not open the file is told by the operating system; what the system hides may be alive.
    """
    if owner in _here and _number(owner) == os.getpid():
        return True
    path = _folder(database) / owner
    try:
        lock = FileLock(path, create=False)
    except DatabaseUnavailable:
        return _may_exist(path) and (_process_state(owner) is not None or _is_hidden(owner))
    try:
        return lock.is_held() or _process_state(owner) is not None
    finally:
        lock.close()


def living(database: Path) -> bool:
    """Whether any process has the database open."""
    folder = _folder(database)
    return folder.is_dir() and any(is_alive(database, path.name) for path in folder.iterdir() if path.name[0] != ".")


def doubtful(database: Path, owners: Iterable[str]) -> list[str]:
    """Owners without a file whose process is alive: the file was deleted and will be back, or the owner was closed."""
    return [owner for owner in owners if _process_state(owner) is not None and not is_alive(database, owner)]


def survives(database: Path, owner: str) -> bool:
    """Whether a doubtful owner is alive after all. A stopped process cannot put its file back."""
    return is_alive(database, owner) or _process_state(owner) in ("T", "t")


def _may_exist(path: Path) -> bool:
    """Whether there is such a file, as far as this user may know."""
    try:
        path.lstat()
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _number(owner: str) -> int | None:
    number = owner.partition("-")[0]
    return int(number) if number.isdecimal() else None


def _process_state(owner: str) -> str | None:
    """The state of an owner's process; None when it has ended, when the system does not tell, and for this process.

    This process knows which of its own owners are closed.
    """
    number = _number(owner)
    if number is None or number == os.getpid():
        return None
    mark, state = _process(number)
    return state if mark and owner.partition("-")[2].startswith(mark) else None


def _is_hidden(owner: str) -> bool:
    """Whether a process has the owner's number, and the system does not tell this user which process that is."""
    number = _number(owner)
    if number is None or sys.platform == "win32":  # there signal 0 is Ctrl-C
        return False
    try:
        os.kill(number, 0)
    except PermissionError:
        return not os.access(f"/proc/{number}/stat", os.R_OK)
    except (OSError, OverflowError):
        return False
    return False


def _process(number: int) -> tuple[str, str]:
    """What identifies a process among later ones of the same number, and its state; empty when it has ended."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8")
        namespace = _namespace(number)
    except (OSError, ValueError):
        return "", ""
    if fields[0] in "ZXx":  # ended, and not yet waited for
        return "", ""
    started = fields[19]
    return hashlib.sha256(f"{boot}{namespace}{number} {started}".encode()).hexdigest()[:_MARK], fields[0]


def _namespace(number: int) -> Path:
    """The process namespace of a process. That of another user's is hidden; its number counts in this process's."""
    try:
        return Path(f"/proc/{number}/ns/pid").readlink()
    except PermissionError:
        return Path("/proc/self/ns/pid").readlink()


def sweep(database: Path) -> None:
    """Remove the files of processes that ended without cleaning up."""
    for path in _folder(database).iterdir():
        with contextlib.suppress(OSError, DatabaseUnavailable):
            lock = FileLock(path, create=False)
            try:
                if lock.try_acquire() and _process_state(path.name.removeprefix(".")) is None:
                    path.unlink()
            finally:
                lock.close()
