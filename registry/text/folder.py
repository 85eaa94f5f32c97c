"""The folder of the configuration file: finds and reads text files in it.

Owns: the matching of patterns, and the confinement to the folder. Must not know: the purpose of the files.
Invariant: with any links, every file that is read lies in the folder, and every search ends.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PureWindowsPath

MOST_ENTRIES = 10_000
"""The most files and folders that one pattern may visit."""

MOST_BYTES = 1_000_000
"""The longest text."""

_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""A resolved path is not followed again, and opening a special file does not block."""


class UnreadableFile(Exception):
    """A file cannot be read; the message says why."""


def leads_out(pattern: str) -> bool:
    """Say whether the text of a pattern leads out of the folder, on this or another system."""
    path = PureWindowsPath(pattern)
    return bool(path.anchor) or ".." in path.parts


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder whose texts may be read."""

    path: Path

    def find(self, pattern: str) -> tuple[str, ...]:
        """Return the files that match a pattern, sorted, relative to the folder; raise Unreadable if there are too many.

        `*` and `?` match in one folder, `**` matches all folders below and follows no link. Only a dot matches a leading
        dot. A link to a folder elsewhere is not followed.
        """
        found: set[str] = set()
        waiting: list[tuple[str, Sequence[str]]] = [("", _steps(pattern))]
        looked = 0
        while waiting:
            at, steps = waiting.pop()
            if steps[0] == "**":
                waiting.append((at, steps[1:]))
            for entry in self._entries(at):
                looked += 1
                if looked > MOST_ENTRIES:
                    raise UnreadableFile(f"the pattern visits more than {MOST_ENTRIES:,} files")
                if not _fits(entry.name, steps[0]):
                    continue
                path = f"{at}{entry.name}"
                if len(steps) > 1 and self._opens(entry, path, deep=steps[0] == "**"):
                    waiting.append((f"{path}/", steps if steps[0] == "**" else steps[1:]))
                elif len(steps) == 1 and _is(entry.is_file):
                    found.add(path)
        return tuple(sorted(found))

    def read(self, path: str) -> str:
        """Return the text of a file; raise Unreadable."""
        if not path.isprintable():
            raise UnreadableFile("its name cannot be shown")
        place = self._inside(path)
        if place is None:
            raise UnreadableFile("it is a link that leads out of the folder of the configuration")
        try:
            data = _bytes(place)
        except OSError as error:
            raise UnreadableFile(f"it cannot be read ({error.strerror})") from error
        if len(data) > MOST_BYTES:
            raise UnreadableFile(f"it is longer than {MOST_BYTES:,} bytes")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UnreadableFile("it is not UTF-8 text") from error
        if "\0" in text:
            raise UnreadableFile("it is not a text file")
        return text

    def _opens(self, entry: os.DirEntry[str], path: str, *, deep: bool) -> bool:
        """Say whether an entry is a folder to search; a deep search follows no links, which may form a cycle."""
        if not entry.is_symlink() or deep:
            return entry.is_dir(follow_symlinks=False)
        return _is(entry.is_dir) and self._inside(path) is not None

    def _inside(self, path: str) -> str | None:
        """Return the real path, or None when it is outside of the folder."""
        root = os.path.realpath(self.path)
        place = os.path.realpath(Path(root, path))
        return place if Path(place).is_relative_to(root) else None

    def _entries(self, at: str) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(self.path / at) as entries:
                yield from entries
        except OSError:  # deleted or not permitted: then it matches nothing
            return


def _steps(pattern: str) -> tuple[str, ...]:
    steps = tuple(step for step in pattern.split("/") if step not in ("", "."))
    return (*steps, "*") if steps[-1:] == ("**",) else steps or ("",)


def _fits(name: str, step: str) -> bool:
    hidden = name.startswith(".") and not step.startswith(".")
    return fnmatchcase(name, step) and not hidden


def _is(kind: Callable[[], bool]) -> bool:
    try:
        return kind()
    except OSError:  # a cycle of links, for example
        return False


def _bytes(place: str) -> bytes:
    descriptor = os.open(place, _FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableFile("it is not a file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(MOST_BYTES + 1)
    finally:
        os.close(descriptor)
