"""The sandbox: a folder that no path leads out of, whatever its spelling and whatever links are in it.

Owns the syntax of paths, and every descriptor opened below the folder. Folders are opened one inside the other, each
relative to the one before and never through a link, so that nothing another process swaps in meanwhile can lead elsewhere.
It blocks: call it in a thread. Invariant: everything read or written is a file inside the folder.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
import time
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from runner.errors import RunnerError
from runner.workspace.reserved import ReservedFiles

LONGEST_NAME, LONGEST_PATH, DEEPEST = 255, 4_096, 64
"""Bytes of a name and of a path, and the number of folders in a path."""

WAIT_SECONDS, _LOOK_AGAIN = 10.0, 0.02
"""Seconds to wait for another process's lock, and between attempts."""

_ROOT = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
"""The root itself may be a link: the author of the configuration chose its target."""
_FOLDER = _ROOT | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH

_DRIVE = re.compile(r"[A-Za-z]:")
_INVISIBLE = ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")
"""Categories of invisible or meaningless characters: names with them could not be told apart."""

_KINDS = {
    errno.ENOENT: ("not_found", "no such file or folder", "call `list_files`"),
    errno.ELOOP: ("link", "it is a link or behind one; links are not followed", "use the path of its target"),
    errno.ENOTDIR: ("not_a_folder", "a part of the path is a file, not a folder", "call `list_files`"),
    errno.EISDIR: ("not_a_file", "it is a folder", "name a file in it"),
    errno.ENAMETOOLONG: ("invalid_path", "the name is too long", "choose a shorter name"),
    errno.EROFS: ("read_only", "the disk is read-only", "continue without writing there"),
    errno.EACCES: ("forbidden", "the service has no permission", "continue without it, and say so"),
    errno.EPERM: ("forbidden", "the service has no permission", "continue without it, and say so"),
    errno.ENOSPC: ("disk_full", "the disk is full", "continue without writing, and say so"),
    errno.EDQUOT: ("disk_full", "the disk is full", "continue without writing, and say so"),
}
_RESERVED = ("forbidden", "it belongs to Outrider, and no workspace includes it", "use another file")
_NO_FILE = ("not_a_file", "it is neither a file nor a folder", "use another")


class PathRefused(RunnerError):
    """An operation on a file was refused; nothing was changed."""

    def __init__(self, kind: str, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.kind = kind


def parts_of(path: str) -> tuple[str, ...]:
    """The names in a path; none for the folder itself. Raises PathRefused for any other kind of path."""
    if path.startswith(("/", "~")) or _DRIVE.match(path):
        raise _invalid("it is absolute", "write it relative to the workspace")
    if "\\" in path:
        raise _invalid("it contains a backslash", "write `/` between folders")
    if len(path.encode("utf-8", "surrogatepass")) > LONGEST_PATH:
        raise _invalid("it is too long", "choose shorter names")
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if len(parts) > DEEPEST:
        raise _invalid(f"it has more than {DEEPEST} folders", "choose a shorter path")
    for part in parts:
        _check_name(part)
    return parts


def _check_name(name: str) -> None:
    if name == "..":
        raise _invalid("`..` is not allowed", "write the path from the workspace down")
    if name.startswith("."):
        raise PathRefused("hidden", "names that begin with a dot are not in a workspace", "use another name")
    if any(unicodedata.category(letter) in _INVISIBLE for letter in name):
        raise _invalid("it contains a character that cannot be shown", "use plain letters")
    if len(name.encode()) > LONGEST_NAME:
        raise _invalid("a name in it is too long", "choose a shorter name")
    folded = unicodedata.normalize("NFKC", name)
    if folded.startswith(".") or "/" in folded or "\\" in folded:
        raise _invalid("it contains a character that looks like a dot or a slash", "use plain letters")


def is_path(found: str) -> bool:
    """Whether a path that was found can be shown to a model and used by it."""
    try:
        return "/".join(parts_of(found)) == found
    except PathRefused:
        return False


def _invalid(why: str, hint: str) -> PathRefused:
    return PathRefused("invalid_path", f"the path cannot be used: {why}", hint)


def _refused(error: OSError) -> PathRefused:
    known = _KINDS.get(error.errno or 0, ("tool_error", f"the operation failed ({error.strerror})", "continue without it"))
    return PathRefused(*known)


class OpenFolder:
    """An open folder; every operation is relative to it."""

    __slots__ = ("_descriptor", "_reserved")

    def __init__(self, descriptor: int, reserved: ReservedFiles) -> None:
        self._descriptor, self._reserved = descriptor, reserved

    def entries(self) -> Iterator[os.DirEntry[str]]:
        """Its entries, unordered, without reserved files."""
        with os.scandir(self._descriptor) as entries:
            yield from (each for each in entries if not self._reserved.holds_entry(self._descriptor, each))

    def _refuse_reserved(self, name: str, known: os.stat_result | None = None) -> None:
        if self._reserved.holds(self._descriptor, name, known):
            raise PathRefused(*_RESERVED)

    def file(self, name: str) -> os.stat_result | None:
        """The status of a file; None if the name is free. Raises PathRefused if it is not a file."""
        try:
            known = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            self._refuse_reserved(name)
            return None
        self._refuse_reserved(name, known)
        if stat.S_ISLNK(known.st_mode):
            raise PathRefused(*_KINDS[errno.ELOOP])
        if stat.S_ISDIR(known.st_mode):
            raise PathRefused(*_KINDS[errno.EISDIR])
        if not stat.S_ISREG(known.st_mode):
            raise PathRefused(*_NO_FILE)
        return known

    def read(self, name: str, most: int) -> bytes:
        """The first bytes of a file. It is checked before opening, since opening a device may have effects, and after."""
        if self.file(name) is None:
            raise PathRefused(*_KINDS[errno.ENOENT])
        descriptor = os.open(name, _FILE, dir_fd=self._descriptor)
        try:
            status = os.fstat(descriptor)
            self._refuse_reserved(name, status)
            if not stat.S_ISREG(status.st_mode):
                raise PathRefused(*_NO_FILE)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(most)
        finally:
            os.close(descriptor)

    def replace(self, name: str, data: bytes) -> None:
        """Write a file atomically: readers see the whole old or the whole new content, also after a crash."""
        before, draft = self.file(name), f".outrider-{secrets.token_hex(8)}.tmp"
        if before is not None and not before.st_mode & _WRITABLE:  # replacing the file would bypass its protection
            raise PathRefused("forbidden", "the file is write-protected", "write to another file")
        descriptor = os.open(draft, _NEW, 0o666, dir_fd=self._descriptor)
        try:
            try:
                with os.fdopen(descriptor, "wb", closefd=False) as file:
                    file.write(data)
                if before is not None:
                    os.fchmod(descriptor, before.st_mode & 0o777)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(draft, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft, dir_fd=self._descriptor)
            raise
        os.fsync(self._descriptor)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude other changes in this folder, in any process; closing the descriptor unlocks it."""
        until = time.monotonic() + WAIT_SECONDS
        while not self._lock():
            if time.monotonic() > until:
                raise PathRefused("busy", "another process is changing files in this folder", "try again later")
            time.sleep(_LOOK_AGAIN)
        yield

    def _lock(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # some network file systems have no locks
            return True
        return True

    def inside(self, name: str, *, make: bool) -> OpenFolder:
        """Open a folder in it; with `make`, create it if missing."""
        self._refuse_reserved(name)
        try:
            return self._opened(name)
        except FileNotFoundError:
            if not make:
                raise
        except NotADirectoryError:
            with suppress(OSError):
                if stat.S_ISLNK(os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mode):
                    raise PathRefused(*_KINDS[errno.ELOOP]) from None
            raise
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=self._descriptor)
            os.fsync(self._descriptor)
        return self._opened(name)

    def _opened(self, name: str) -> OpenFolder:
        folder = OpenFolder(os.open(name, _FOLDER, dir_fd=self._descriptor), self._reserved)
        try:
            self._refuse_reserved(name, os.fstat(folder._descriptor))
        except PathRefused:
            folder.close()
            raise
        return folder

    def close(self) -> None:
        os.close(self._descriptor)


@contextmanager
def opened(root: Path, parts: Sequence[str], *, make: bool = False, database: Path | None = None) -> Iterator[OpenFolder]:
    """The folder at the end of a path. OS errors, here or in the body, are raised as PathRefused.

    `database` is the database of this process.
    """
    folder: OpenFolder | None = None
    try:
        reserved = ReservedFiles.of(database)
        if reserved.contains(root):
            raise PathRefused(*_RESERVED)
        if make:
            root.mkdir(parents=True, exist_ok=True)
        folder = OpenFolder(os.open(root, _ROOT), reserved)
        for part in parts:
            outer, folder = folder, folder.inside(part, make=make)
            outer.close()
        yield folder
    except OSError as error:
        raise _refused(error) from error
    finally:
        if folder is not None:
            folder.close()
