"""Reserved files: Outrider's databases with their logs and locks, the owner locks, and the folder `.outrider`.

Owns how they are recognised: by location, by inode under another name, and by the files beside them. Must not know: what is
done to files. Invariant: no workspace reads, lists or changes one of them, also one that does not exist yet, such as a
journal that SQLite would replay.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from db.store.location import FOLDER
from db.store.owners import OWNERS

LOCK = "-lock"
_SUFFIXES = ("-wal", "-shm", "-journal", LOCK, OWNERS)

Identity = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ReservedFiles:
    """The files reserved now. They come and go, so this is made for each operation."""

    folder: Identity | None = None
    """The folder of this process's database."""
    name: str = ""
    """The case-folded name of the database."""
    identities: frozenset[Identity] = field(default_factory=frozenset)
    """The inodes of the files, whatever other names they have."""

    @classmethod
    def of(cls, database: Path | None) -> ReservedFiles:
        """The files of this process's database; without one, only those of other processes."""
        if database is None:
            return cls()
        owners = database.with_name(database.name + OWNERS)
        files = [database, *(database.with_name(database.name + end) for end in _SUFFIXES)]
        with suppress(OSError):
            files += owners.iterdir()
        found = (_identity(each) for each in files)
        identities = frozenset(each for each in found if each is not None)
        return cls(_identity(database.parent), _folded(database.name), identities)

    def holds(self, folder: int, name: str, known: os.stat_result | None = None) -> bool:
        """Whether a name in an open folder is a reserved file, or would become one."""
        if known is not None and (known.st_dev, known.st_ino) in self.identities:
            return True
        folded = _folded(name)
        if folded == FOLDER:
            return True
        if self.folder is not None and (folded == self.name or folded.startswith(f"{self.name}-")):
            status = os.fstat(folder)
            if (status.st_dev, status.st_ino) == self.folder:
                return True
        return _is_of_a_database(folder, name)

    def holds_entry(self, folder: int, entry: os.DirEntry[str]) -> bool:
        """The same for a directory entry, without a stat where its inode is enough."""
        if any(entry.inode() == number for _, number in self.identities):
            with suppress(OSError):
                return self.holds(folder, entry.name, entry.stat(follow_symlinks=False))
        return self.holds(folder, entry.name)

    def contains(self, root: Path) -> bool:
        """Whether a whole folder is reserved."""
        place = root.resolve()
        for each in (place, *place.parents):
            if _folded(each.name) == FOLDER or _identity(each) in self.identities:
                return True
            base = each.name.removesuffix(OWNERS)
            if base != each.name and each.with_name(base + LOCK).exists():
                return True
        return False


def _is_of_a_database(folder: int, name: str) -> bool:
    """Whether a lock file and owner locks are beside it: then it belongs to some process's database."""
    base = next((name.removesuffix(end) for end in _SUFFIXES if name.endswith(end)), name)
    try:
        os.stat(base + LOCK, dir_fd=folder, follow_symlinks=False)
        return stat.S_ISDIR(os.stat(base + OWNERS, dir_fd=folder, follow_symlinks=False).st_mode)
    except (OSError, ValueError):
        return False


def _identity(path: Path) -> Identity | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _folded(name: str) -> str:
    """A name as case-insensitive file systems compare it."""
    return unicodedata.normalize("NFKC", name).casefold()
