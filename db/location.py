"""Where the database is: a URL or a path, an environment variable, or the platform's place for application data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from db.errors import DatabaseUnavailable

VARIABLE = "OUTRIDER_DATABASE_URL"
SQLITE = "sqlite:///"


def locate(explicit: str | None, environ: Mapping[str, str]) -> Path:
    """The file to use: `explicit` (from `--db`), else the environment, else the default of the platform."""
    given = explicit or environ.get(VARIABLE)
    if given:
        return _from_url(given)
    if data := environ.get("XDG_DATA_HOME"):
        return Path(data) / "outrider" / "outrider.db"
    import platformdirs

    return Path(platformdirs.user_data_dir("outrider", appauthor=False)) / "outrider.db"


def _from_url(given: str) -> Path:
    if given.startswith(SQLITE):
        return Path(given.removeprefix(SQLITE)).expanduser().absolute()
    if "://" in given:
        scheme = given.split(":", 1)[0]
        raise DatabaseUnavailable(
            f"no database driver for `{scheme}` is part of this version",
            "use `sqlite:///path/to/outrider.db` or a path",
        )
    return Path(given).expanduser().absolute()


def read_only_uri(path: Path) -> str:
    """The SQLite URI of a connection that can neither write nor checkpoint."""
    return f"file:{quote(str(path))}?mode=ro"
