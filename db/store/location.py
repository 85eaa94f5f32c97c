"""The location of the database: a given URL or path, the project's folder, or the user's application data."""

from __future__ import annotations

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
    return f"file:{quote(str(path))}?mode=ro"
