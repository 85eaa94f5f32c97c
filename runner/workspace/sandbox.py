"""An enclosure: a folder that no path leads out of, however it is spelt and whatever links lie in it.

Owns what a path may say, and every descriptor that is opened under the folder. Folders are opened one inside the other,
each relative to the one before it and never through a link, so that nothing another process swaps in the meantime can lead
elsewhere. It blocks: call it in a thread. Invariant: whatever is read or written lies in the folder, and is a file.
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
from runner.workspace.reserved import Reserved

LONGEST_NAME, LONGEST_PATH, DEEPEST = 255, 4_096, 64
"""Bytes of one name and of a whole path, and folders on the way to a file."""

PATIENCE, _LOOK_AGAIN = 10.0, 0.02
"""Seconds somebody waits for others to have changed their files, and between looks."""

_ROOT = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
"""The folder itself may be a link: whoever wrote the configuration chose where it leads."""
_FOLDER = _ROOT | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH

_DRIVE = re.compile(r"[A-Za-z]:")
_UNSPEAKABLE = ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")
"""Categories of characters that cannot be seen, or mean nothing: no name that is shown could be told from another."""

_KINDS = {
    errno.ENOENT: ("not_found", "there is no such file or folder", "look with `list_files`"),
    errno.ELOOP: ("link", "it is a link, or behind one, and links are not followed", "use the path it leads to"),
    errno.ENOTDIR: ("not_a_folder", "a part of the path is a file, not a folder", "look with `list_files`"),
    errno.EISDIR: ("not_a_file", "it is a folder", "name a file in it"),
    errno.ENAMETOOLONG: ("invalid_path", "the name is too long", "choose a shorter one"),
    errno.EROFS: ("read_only", "the disk is read-only", "go on without writing there"),
    errno.EACCES: ("forbidden", "the service may not do this", "go on without it, and say so"),
    errno.EPERM: ("forbidden", "the service may not do this", "go on without it, and say so"),
    errno.ENOSPC: ("disk_full", "there is no room left on the disk", "go on without writing, and say so"),
    errno.EDQUOT: ("disk_full", "there is no room left on the disk", "go on without writing, and say so"),
}
_RESERVED = ("forbidden", "it belongs to Outrider itself, and is part of no workspace", "use another file")
_NO_FILE = ("not_a_file", "it is neither a file nor a folder", "use another")


class Refused(RunnerError):
    """Something was not done to a file, and nothing was changed."""

    def __init__(self, kind: str, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.kind = kind


def parts_of(path: str) -> tuple[str, ...]:
    """The names a path is made of; none for the folder itself. Raises Refused for every path that says more than names."""
    if path.startswith(("/", "~")) or _DRIVE.match(path):
        raise _invalid("it is absolute", "write it relative to the workspace")
    if "\\" in path:
        raise _invalid("there is a backslash in it", "write `/` between folders")
    if len(path.encode("utf-8", "surrogatepass")) > LONGEST_PATH:
        raise _invalid("it is too long", "choose shorter names")
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if len(parts) > DEEPEST:
        raise _invalid(f"there are more than {DEEPEST} folders in it", "choose a shorter way")
    for part in parts:
        _check_name(part)
    return parts


def _check_name(name: str) -> None:
    if name == "..":
        raise _invalid("`..` leads out of a folder", "write the path from the workspace down")
    if name.startswith("."):
        raise Refused("hidden", "names that begin with a dot are no part of a workspace", "use another name")
    if any(unicodedata.category(letter) in _UNSPEAKABLE for letter in name):
        raise _invalid("there is a character in it that cannot be shown", "use plain letters")
    if len(name.encode()) > LONGEST_NAME:
        raise _invalid("a name in it is too long", "choose a shorter one")
    folded = unicodedata.normalize("NFKC", name)
    if folded.startswith(".") or "/" in folded or "\\" in folded:
        raise _invalid("there is a character in it that passes for a dot or a slash", "use plain letters")


def is_path(found: str) -> bool:
    """Whether the path of something that was found can be told to a model, and asked for by it."""
    try:
        return "/".join(parts_of(found)) == found
    except Refused:
        return False


def _invalid(why: str, hint: str) -> Refused:
    return Refused("invalid_path", f"the path cannot be used: {why}", hint)


def _refused(error: OSError) -> Refused:
    known = _KINDS.get(error.errno or 0, ("tool_error", f"it cannot be done ({error.strerror})", "go on without it"))
    return Refused(*known)


class OpenFolder:
    """A folder that is open: everything is done relative to it, to the names in it."""

    __slots__ = ("_descriptor", "_reserved")

    def __init__(self, descriptor: int, reserved: Reserved) -> None:
        self._descriptor, self._reserved = descriptor, reserved

    def entries(self) -> Iterator[os.DirEntry[str]]:
        """What is in it, in no order, without Outrider's own files."""
        with os.scandir(self._descriptor) as entries:
            yield from (each for each in entries if not self._reserved.holds_entry(self._descriptor, each))

    def _refuse_reserved(self, name: str, known: os.stat_result | None = None) -> None:
        if self._reserved.holds(self._descriptor, name, known):
            raise Refused(*_RESERVED)

    def file(self, name: str) -> os.stat_result | None:
        """What is known of a file; None when nothing has this name. Raises Refused when something else has."""
        try:
            known = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            self._refuse_reserved(name)
            return None
        self._refuse_reserved(name, known)
        if stat.S_ISLNK(known.st_mode):
            raise Refused(*_KINDS[errno.ELOOP])
        if stat.S_ISDIR(known.st_mode):
            raise Refused(*_KINDS[errno.EISDIR])
        if not stat.S_ISREG(known.st_mode):
            raise Refused(*_NO_FILE)
        return known

    def read(self, name: str, most: int) -> bytes:
        """The first bytes of a file. Looked at before it is opened, as opening a device may do something, and after."""
        if self.file(name) is None:
            raise Refused(*_KINDS[errno.ENOENT])
        descriptor = os.open(name, _FILE, dir_fd=self._descriptor)
        try:
            status = os.fstat(descriptor)
            self._refuse_reserved(name, status)
            if not stat.S_ISREG(status.st_mode):
                raise Refused(*_NO_FILE)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(most)
        finally:
            os.close(descriptor)

    def replace(self, name: str, data: bytes) -> None:
        """Write a file, or write it anew: whoever looks sees all of the old or all of the new, also after a crash."""
        before, draft = self.file(name), f".outrider-{secrets.token_hex(8)}.tmp"
        if before is not None and not before.st_mode & _WRITABLE:  # a new file in its place would get around that
            raise Refused("forbidden", "the file is write-protected", "write to another file")
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
        """Nobody else who asks changes a file in it meanwhile, in whichever process; closing it unlocks it."""
        until = time.monotonic() + PATIENCE
        while not self._lock():
            if time.monotonic() > until:
                raise Refused("busy", "somebody else is changing files in this folder", "try again in a while")
            time.sleep(_LOOK_AGAIN)
        yield

    def _lock(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # some network disks know no locks
            return True
        return True

    def inside(self, name: str, *, make: bool) -> OpenFolder:
        """A folder in it, which is made if it is missing."""
        self._refuse_reserved(name)
        try:
            return self._opened(name)
        except FileNotFoundError:
            if not make:
                raise
        except NotADirectoryError:
            with suppress(OSError):
                if stat.S_ISLNK(os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mode):
                    raise Refused(*_KINDS[errno.ELOOP]) from None
            raise
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=self._descriptor)
            os.fsync(self._descriptor)
        return self._opened(name)

    def _opened(self, name: str) -> OpenFolder:
        folder = OpenFolder(os.open(name, _FOLDER, dir_fd=self._descriptor), self._reserved)
        try:
            self._refuse_reserved(name, os.fstat(folder._descriptor))
        except Refused:
            folder.close()
            raise
        return folder

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)


@contextmanager
def opened(root: Path, parts: Sequence[str], *, make: bool = False, database: Path | None = None) -> Iterator[OpenFolder]:
    """The folder at the end of a path. What the system refuses, here or in the body, is raised as Refused.

    `database` is the one that this process has open.
    """
    folder: OpenFolder | None = None
    try:
        reserved = Reserved.of(database)
        if reserved.contains(root):
            raise Refused(*_RESERVED)
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
