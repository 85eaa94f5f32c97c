"""Finds the configuration file of a command, and by it the project folder.

Owns the search order. It imports nothing of Outrider, so that commands that only read a database start quickly. Must not
know: the content of the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

CONFIG_VARIABLE = "OUTRIDER_CONFIG"
NAME = "config.yaml"
_HOME = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class ProjectConfig:
    """The configuration file of a command."""

    path: Path
    is_project: bool = True
    """False for the packaged configuration."""

    @property
    def project(self) -> Path | None:
        """The folder of the project; None for the packaged configuration."""
        return self.path.parent if self.is_project else None


def find_config(
    explicit: Path | str | None = None, environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> ProjectConfig:
    """Find the configuration file.

    The first of: `explicit`, the file that `OUTRIDER_CONFIG` names, `config.yaml` in the current folder or the nearest
    folder above it, the packaged file.
    """
    chosen = explicit or (os.environ if environ is None else environ).get(CONFIG_VARIABLE)
    if chosen:
        path = (Path.cwd() if cwd is None else cwd) / Path(chosen).expanduser()
        return ProjectConfig(path, is_project=path != _in_package())
    found = next(_candidates(cwd), None)
    return ProjectConfig(found) if found is not None else ProjectConfig(packaged_config(), is_project=False)


def packaged_config() -> Path:
    """The configuration shipped with Outrider: the SRE example."""
    packaged = _in_package()
    # An editable install has no packaged copy; the file is beside the packages.
    return packaged if packaged.is_file() else _HOME / NAME


def _in_package() -> Path:
    return _HOME / "registry" / "default_config.yaml"


def _candidates(cwd: Path | None) -> Iterator[Path]:
    try:
        folder = (Path.cwd() if cwd is None else cwd).absolute()
    except FileNotFoundError:  # the current folder was deleted
        return
    here = folder / NAME
    if here.is_file():
        yield here
    # The user did not choose a file above. Below a folder shared with other users, it could be theirs and start commands.
    yield from (each for each in (above / NAME for above in folder.parents) if _is_trusted(each))


def _is_trusted(file: Path) -> bool:
    """Whether a file, and the link to it, belong to this user or to root."""
    try:
        if not file.is_file():
            return False
        owners = {file.lstat().st_uid, file.stat().st_uid}
    except OSError:
        return False
    return not hasattr(os, "getuid") or owners <= {os.getuid(), 0}
