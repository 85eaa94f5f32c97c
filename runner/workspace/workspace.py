"""A workspace: files of one folder listed, read, searched, written and edited.

Owns the operations and their bounds; `sandbox.py` resolves paths, `tools.py` has the texts for models. It blocks: call it
in a thread. Invariants: each operation is bounded in files, bytes and time; a file is changed as a whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from registry import WorkspaceSpec
from runner.workspace.sandbox import OpenFolder, PathRefused, is_path, opened, parts_of
from runner.workspace.search import BadPattern, Match, pattern_matches, plain_matches

MOST_BYTES = 2_000_000
"""Of one file."""
MOST_ENTRIES = 20_000
"""Files and folders visited by one list or search."""
MOST_SEARCHED = 20_000_000
"""Characters read by one search."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file or folder."""

    path: str
    size: int | None = None
    """Bytes; None for a folder."""


@dataclass(slots=True)
class FileListing:
    """Files and folders, in order."""

    entries: list[FileEntry] = field(default_factory=list)
    whole: bool = True
    """Whether all entries were visited."""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A matching line."""

    path: str
    line: int
    offset: int
    """Where the line begins in its file, in characters."""
    column: int
    text: str


@dataclass(frozen=True, slots=True)
class FileSearch:
    """The query and the scope of a search."""

    query: str
    path: str = ""
    pattern: str = ""
    regex: bool = False
    ignore_case: bool = False
    most: int = 100


@dataclass(slots=True)
class SearchHits:
    """The result of a search."""

    found: list[SearchHit] = field(default_factory=list)
    unread: int = 0
    """Files that are too long or not text."""
    whole: bool = True


class Workspace:
    """One folder, as configured for one agent."""

    def __init__(self, spec: WorkspaceSpec, protected: Sequence[Path] = (), database: Path | None = None) -> None:
        self.spec = spec
        self._protected = protected
        """Configuration files that grant permissions: no agent writes them."""
        self._database = database
        """The database of this process: its files are invisible here."""

    def _opened(self, parts: Sequence[str], *, make: bool = False) -> AbstractContextManager[OpenFolder]:
        return opened(self.spec.path, parts, make=make, database=self._database)

    def named(self, path: str) -> str:
        """A path with the name of its workspace."""
        return "/".join((self.spec.name, *parts_of(path)))

    # -- look ----------------------------------------------------------------------------------------------------------

    def listing(self, path: str, pattern: str, *, recursive: bool) -> FileListing:
        """The entries of a folder, or of all below it; with a pattern only those whose name or path matches."""
        listing = FileListing()
        try:
            for entry in self._walk(parts_of(path), listing, recursive=recursive):
                if _fits(entry.path, pattern):
                    listing.entries.append(entry)
        except PathRefused as refusal:
            if refusal.kind != "not_found" or parts_of(path):
                raise
        return listing  # empty for a workspace that was never written to

    def read(self, path: str) -> str:
        *above, name = _file(path)
        with self._opened(above) as folder:
            return _text(folder, name).removeprefix("\ufeff")

    def search(self, wanted: FileSearch) -> SearchHits:
        """The matching lines, in the order of a list."""
        hits, paths, texts, length = SearchHits(), list[str](), list[str](), 0
        for path in self._searched(wanted, hits):
            try:
                text = self.read(path)
            except PathRefused:
                if path == "/".join(parts_of(wanted.path)):
                    raise
                hits.unread += 1  # not text, too long, or deleted meanwhile
                continue
            length += len(text)
            if length > MOST_SEARCHED:
                hits.whole = False
                break
            paths.append(path)
            texts.append(text)
        for match in _matches(texts, wanted):
            line = texts[match.text][match.offset :].partition("\n")[0]
            hits.found.append(SearchHit(paths[match.text], match.line, match.offset, match.column, line))
            if len(hits.found) >= wanted.most:
                break
        return hits

    def _searched(self, wanted: FileSearch, hits: SearchHits) -> Iterator[str]:
        """The files to search: the named one, or those of a folder and all below it."""
        parts, listing = parts_of(wanted.path), FileListing()
        try:
            for entry in self._walk(parts, listing, recursive=True):
                if entry.size is not None and _fits(entry.path, wanted.pattern):
                    yield entry.path
        except PathRefused as refusal:
            if refusal.kind == "not_a_folder":
                yield "/".join(parts)
            elif refusal.kind != "not_found" or parts:
                raise
        hits.whole = hits.whole and listing.whole

    def _walk(self, parts: Sequence[str], listing: FileListing, *, recursive: bool) -> Iterator[FileEntry]:
        """A folder in order of names, then its subfolders. Each is opened from the root, to hold few descriptors."""
        waiting, looked = [tuple(parts)], 0
        while waiting:
            at = waiting.pop()
            try:
                entries = self._entries(at, MOST_ENTRIES - looked)
            except PathRefused:
                if at == tuple(parts):
                    raise
                continue  # deleted, or swapped for a link meanwhile
            looked += len(entries)
            if looked >= MOST_ENTRIES:
                listing.whole, waiting = False, []
            yield from entries
            if recursive:
                waiting += [parts_of(each.path) for each in reversed(entries) if each.size is None]

    def _entries(self, at: Sequence[str], most: int) -> list[FileEntry]:
        found: list[FileEntry] = []
        with self._opened(at) as folder:
            for entry in folder.entries():
                if len(found) >= most:
                    break
                path = "/".join((*at, entry.name))
                if not is_path(path) or entry.is_symlink():
                    continue
                with suppress(FileNotFoundError):  # deleted meanwhile
                    if entry.is_dir(follow_symlinks=False):
                        found.append(FileEntry(path))
                    elif entry.is_file(follow_symlinks=False):
                        found.append(FileEntry(path, entry.stat(follow_symlinks=False).st_size))
        return sorted(found, key=lambda each: each.path)

    # -- change --------------------------------------------------------------------------------------------------------

    def write(self, path: str, text: str) -> bool:
        """Write a file and create its folders; returns whether it is new."""
        *above, name = self._writable(path)
        data = _bytes(text)
        with self._opened(above, make=True) as folder, folder.locked():
            self._refuse_protected(folder, name)
            new = folder.file(name) is None
            folder.replace(name, data)
        return new

    def edit(self, path: str, old: str, new: str, *, everywhere: bool) -> int:
        """Replace a text; returns the number of replacements."""
        *above, name = self._writable(path)
        with self._opened(above) as folder, folder.locked():
            self._refuse_protected(folder, name)
            text = _text(folder, name)
            if "\r\n" in text and _windows(old) in text:  # models write LF where the file has CRLF
                old, new = _windows(old), _windows(new)
            count = text.count(old)
            if not count:
                raise PathRefused("no_match", "the old text is not in the file", "read the file, and copy the text exactly")
            if count > 1 and not everywhere:
                hint = "include more of the surrounding text, or set `all`"
                raise PathRefused("ambiguous", f"the old text is in the file {count} times", hint)
            if len(text) + count * (len(new) - len(old)) > MOST_BYTES:  # before memory is spent on it
                raise _too_large()
            folder.replace(name, _bytes(text.replace(old, new)))
        return count

    def _writable(self, path: str) -> tuple[str, ...]:
        if self.spec.read_only:
            raise PathRefused(
                "read_only", f"the workspace `{self.spec.name}` is read-only", "write to another workspace, or not at all"
            )
        return _file(path)

    def _refuse_protected(self, folder: OpenFolder, name: str) -> None:
        """Refuse to change files that the service depends on, under any name."""
        known = folder.file(name)
        if known is None:
            return
        for each in self._protected:
            with suppress(FileNotFoundError):
                if os.path.samestat(known, each.stat()):
                    message = "it is part of the service's configuration"
                    raise PathRefused("forbidden", message, "write to another file")


def _file(path: str) -> tuple[str, ...]:
    parts = parts_of(path)
    if not parts:
        raise PathRefused("not_a_file", "the path names no file", "name a file in the workspace")
    return parts


def _text(folder: OpenFolder, name: str) -> str:
    data = folder.read(name, MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise PathRefused("too_large", f"it is longer than {MOST_BYTES:,} bytes", "use a smaller file")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise _no_text() from None
    if "\0" in text:
        raise _no_text()
    return text


def _bytes(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise _no_text() from None
    if b"\0" in data:
        raise _no_text()
    if len(data) > MOST_BYTES:
        raise _too_large()
    return data


def _too_large() -> PathRefused:
    return PathRefused("too_large", f"a file has at most {MOST_BYTES:,} bytes", "write several files")


def _no_text() -> PathRefused:
    return PathRefused("no_text", "it is not UTF-8 text", "use these tools for text only")


def _windows(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _fits(path: str, pattern: str) -> bool:
    """A pattern without `/` matches names."""
    return not pattern or fnmatchcase(path if "/" in pattern else path.rpartition("/")[2], pattern)


def _matches(texts: Sequence[str], wanted: FileSearch) -> Iterator[Match]:
    if not wanted.regex:
        return plain_matches(texts, wanted.query, ignore_case=wanted.ignore_case)
    try:
        return iter(pattern_matches(texts, wanted.query, wanted.most, ignore_case=wanted.ignore_case))
    except BadPattern as fault:
        hint = "simplify it, or search for plain text"
        raise PathRefused("bad_pattern", f"the regular expression cannot be used: {fault}", hint) from fault
