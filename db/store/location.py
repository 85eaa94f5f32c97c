"""The location of the database: a given URL or path, the project's folder, or the user's application data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from db.errors import DatabaseUnavailable

VARIABLE = "OUTRIDER_DATABASE_URL"
SQLITE = "sqlite:///"
FOLDER, NAME = ".outrider", "outrider.db"
"""A project's folder for Outrider's files, and the database in it."""


def locate(explicit: str | None, environ: Mapping[str, str], project: Path | None = None) -> Path:
    """The file to use: `explicit` (from `--db`), else the environment, else the project's, else the user's."""
    given = explicit or environ.get(VARIABLE)
    if given:
        return _from_url(given)
    return project.absolute() / FOLDER / NAME if project is not None else of_user(environ)


def of_user(environ: Mapping[str, str]) -> Path:
    """The database of this user, for work that belongs to no project."""
    if data := environ.get("XDG_DATA_HOME"):
        return Path(data) / "outrider" / NAME
    import platformdirs

    return Path(platformdirs.user_data_dir("outrider", appauthor=False)) / NAME


def _from_url(given: str) -> Path:
    if given.startswith(SQLITE):
        return Path(given.removeprefix(SQLITE)).expanduser().absolute()
    if "://" in given:
        scheme = given.split(":", 1)[0]
        raise DatabaseUnavailable(
            f"no database driver for `{scheme}` in this version",
            "use `sqlite:///path/to/outrider.db` or a path",
        )
    return Path(given).expanduser().absolute()


def read_only_uri(path: Path) -> str:
    """The SQLite URI of a connection that can neither write nor checkpoint."""
    return f"file:{quote(str(path))}?mode=ro{'&immutable=1' if state_at_rest(path) is not None else ''}"


def can_create_beside(path: Path) -> bool:
    """Whether this process may create the files beside a database that SQLite reads it with."""
    return os.access(path.parent, os.W_OK)


def state_at_rest(path: Path) -> tuple[int, ...] | None:
    """The state of a database that no process has open, where this one may create no files beside it; else None.

    Such a file is read alone and without locks, so what was read counts only while this stays the same.
    """
    if can_create_beside(path):
        return None
    log, index = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    try:
        if log.stat().st_size or index.exists():
            return None
    except FileNotFoundError:
        pass
    except OSError:
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
