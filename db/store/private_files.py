"""Files that only their user may read: the database and the files beside it hold prompts, results and arguments.

Owns the modes of these files and of their folder. Must not know: their content.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from db.errors import DatabaseUnavailable
from db.store.location import FOLDER

FILE_MODE, FOLDER_MODE = 0o600, 0o700
_ELSEWHERE = "name another database with `--db`"


def prepare(database: Path) -> None:
    """Make the folder of a database, if it is missing; a project's own is private and ignored by git."""
    folder = database.parent
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=FOLDER_MODE)
        if folder.name == FOLDER:
            _close_to_others(folder)
        elif not folder.is_dir():
            raise NotADirectoryError(None, "a file has this name")
    except OSError as error:
        raise DatabaseUnavailable(f"cannot create the folder `{folder}`: {error.strerror}", _ELSEWHERE) from error


def _close_to_others(folder: Path) -> None:
    folder.chmod(FOLDER_MODE)  # refused by the system where another user made the folder
    ignored = folder / ".gitignore"
    if not ignored.exists():
        ignored.write_text("*\n", encoding="utf-8")


def create(database: Path) -> None:
    """Make the database before SQLite does: SQLite gives its log and its index the mode of the database."""
    with suppress(FileExistsError):
        os.close(os.open(database, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), FILE_MODE))


def create_log(database: Path, log: Path) -> None:
    """Make the log before SQLite does, with the mode of the database and, for root, its owner, as SQLite would."""
    create(log)
    found = database.stat()
    log.chmod(stat.S_IMODE(found.st_mode))
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        os.chown(log, found.st_uid, found.st_gid)
