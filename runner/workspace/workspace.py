"""A workspace at work: files of one folder listed, read, searched, written and edited.

Owns the operations and their bounds. Where a path leads is `runner/workspace/sandbox.py`'s, what a model is told
`runner/workspace/tools.py`'s. It blocks: call it in a thread. Invariant: each operation is bounded in files, bytes and
time, and a file is changed as a whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from registry import WorkspaceSpec
from runner.workspace.sandbox import OpenFolder, Refused, is_path, opened, parts_of
from runner.workspace.search import BadPattern, Match, pattern_matches, plain_matches

MOST_BYTES = 2_000_000
"""Of one file."""
MOST_ENTRIES = 20_000
"""Files and folders that are looked at for one list or search."""
MOST_SEARCHED = 20_000_000
"""Characters of all files that one search reads."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file or folder."""

    path: str
    size: int | None = None
    """Bytes; None for a folder."""


@dataclass(slots=True)
class Listing:
    """Files and folders, in order."""

    entries: list[Found] = field(default_factory=list)
    whole: bool = True
    """Whether everything was looked at."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that matches."""

    path: str
    line: int
    offset: int
    """Where the line begins in its file, in characters."""
    column: int
    text: str


@dataclass(frozen=True, slots=True)
class Search:
    """What to look for, and where."""

    query: str
    path: str = ""
    pattern: str = ""
    regex: bool = False
    ignore_case: bool = False
    most: int = 100


@dataclass(slots=True)
class Hits:
    """What a search found."""

    found: list[Hit] = field(default_factory=list)
    unread: int = 0
    """Files that are too long, or no text."""
    whole: bool = True


class Workspace:
    """One folder as one agent has it."""

    def __init__(self, spec: WorkspaceSpec, protected: Sequence[Path] = (), database: Path | None = None) -> None:
        self.spec = spec
        self._protected = protected
        """Files that say what agents may do: no agent writes those."""
        self._database = database
        """The one that this process has open: neither it nor what belongs to it is seen here."""

    def _opened(self, parts: Sequence[str], *, make: bool = False) -> AbstractContextManager[OpenFolder]:
        return opened(self.spec.path, parts, make=make, database=self._database)

    def named(self, path: str) -> str:
        """A path in it as others tell it from those of other workspaces."""
        return "/".join((self.spec.name, *parts_of(path)))

    # -- look ----------------------------------------------------------------------------------------------------------

    def listing(self, path: str, pattern: str, *, recursive: bool) -> Listing:
        """The files and folders in a folder, or in all below it; with a pattern only those whose name or path fits it."""
        listing = Listing()
        try:
            for entry in self._walk(parts_of(path), listing, recursive=recursive):
                if _fits(entry.path, pattern):
                    listing.entries.append(entry)
        except Refused as refusal:
            if refusal.kind != "not_found" or parts_of(path):
                raise
        return listing  # of a workspace that nobody has written to: nothing

    def read(self, path: str) -> str:
        """The text of a file."""
        *above, name = _file(path)
        with self._opened(above) as folder:
            return _text(folder, name).removeprefix("\ufeff")

    def search(self, wanted: Search) -> Hits:
        """The lines that match, in the order of a list."""
        hits, paths, texts, length = Hits(), list[str](), list[str](), 0
        for path in self._searched(wanted, hits):
            try:
                text = self.read(path)
            except Refused:
                if path == "/".join(parts_of(wanted.path)):
                    raise
                hits.unread += 1  # no text, too long, or gone meanwhile
                continue
            length += len(text)
            if length > MOST_SEARCHED:
                hits.whole = False
                break
            paths.append(path)
            texts.append(text)
        for match in _matches(texts, wanted):
            line = texts[match.text][match.offset :].partition("\n")[0]
            hits.found.append(Hit(paths[match.text], match.line, match.offset, match.column, line))
            if len(hits.found) >= wanted.most:
                break
        return hits

    def _searched(self, wanted: Search, hits: Hits) -> Iterator[str]:
        """The files to search: the one that is named, or those of a folder and all below it."""
        parts, listing = parts_of(wanted.path), Listing()
        try:
            for entry in self._walk(parts, listing, recursive=True):
                if entry.size is not None and _fits(entry.path, wanted.pattern):
                    yield entry.path
        except Refused as refusal:
            if refusal.kind == "not_a_folder":
                yield "/".join(parts)
            elif refusal.kind != "not_found" or parts:
                raise
        hits.whole = hits.whole and listing.whole

    def _walk(self, parts: Sequence[str], listing: Listing, *, recursive: bool) -> Iterator[Found]:
        """A folder by name, then those in it. Each is opened from the top: however deep, few descriptors are open."""
        waiting, looked = [tuple(parts)], 0
        while waiting:
            at = waiting.pop()
            try:
                entries = self._entries(at, MOST_ENTRIES - looked)
            except Refused:
                if at == tuple(parts):
                    raise
                continue  # gone, or swapped for a link meanwhile
            looked += len(entries)
            if looked >= MOST_ENTRIES:
                listing.whole, waiting = False, []
            yield from entries
            if recursive:
                waiting += [parts_of(each.path) for each in reversed(entries) if each.size is None]

    def _entries(self, at: Sequence[str], most: int) -> list[Found]:
        found: list[Found] = []
        with self._opened(at) as folder:
            for entry in folder.entries():
                if len(found) >= most:
                    break
                path = "/".join((*at, entry.name))
                if not is_path(path) or entry.is_symlink():
                    continue
                with suppress(FileNotFoundError):  # gone meanwhile
                    if entry.is_dir(follow_symlinks=False):
                        found.append(Found(path))
                    elif entry.is_file(follow_symlinks=False):
                        found.append(Found(path, entry.stat(follow_symlinks=False).st_size))
        return sorted(found, key=lambda each: each.path)

    # -- change --------------------------------------------------------------------------------------------------------

    def write(self, path: str, text: str) -> bool:
        """Write a file, and the folders it is in; whether it is new."""
        *above, name = self._writable(path)
        data = _bytes(text)
        with self._opened(above, make=True) as folder, folder.locked():
            self._spare(folder, name)
            new = folder.file(name) is None
            folder.replace(name, data)
        return new

    def edit(self, path: str, old: str, new: str, *, everywhere: bool) -> int:
        """Put another text in the place of one that is there; how often."""
        *above, name = self._writable(path)
        with self._opened(above) as folder, folder.locked():
            self._spare(folder, name)
            text = _text(folder, name)
            if "\r\n" in text and _windows(old) in text:  # models write one end of line where the file has two characters
                old, new = _windows(old), _windows(new)
            count = text.count(old)
            if not count:
                raise Refused("no_match", "the old text is not in the file", "read the file, and copy the text exactly")
            if count > 1 and not everywhere:
                hint = "give more of the text around it, or set `all`"
                raise Refused("ambiguous", f"the old text is in the file {count} times", hint)
            if len(text) + count * (len(new) - len(old)) > MOST_BYTES:  # before memory is spent on it
                raise _too_large()
            folder.replace(name, _bytes(text.replace(old, new)))
        return count

    def _writable(self, path: str) -> tuple[str, ...]:
        if self.spec.read_only:
            raise Refused("read_only", f"the workspace `{self.spec.name}` is read-only", "write to another, or not at all")
        return _file(path)

    def _spare(self, folder: OpenFolder, name: str) -> None:
        """Refuse to change what the service itself lives by, under whatever name it is found."""
        known = folder.file(name)
        if known is None:
            return
        for each in self._protected:
            with suppress(FileNotFoundError):
                if os.path.samestat(known, each.stat()):
                    message = "it belongs to the configuration of the service"
                    raise Refused("forbidden", message, "write to another file")


def _file(path: str) -> tuple[str, ...]:
    parts = parts_of(path)
    if not parts:
        raise Refused("not_a_file", "the path names no file", "name a file in the workspace")
    return parts


def _text(folder: OpenFolder, name: str) -> str:
    data = folder.read(name, MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise Refused("too_large", f"it is longer than {MOST_BYTES:,} bytes", "use a smaller file")
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


def _too_large() -> Refused:
    return Refused("too_large", f"a file has at most {MOST_BYTES:,} bytes", "write several files")


def _no_text() -> Refused:
    return Refused("no_text", "it is no text in UTF-8", "these tools are for texts only")


def _windows(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _fits(path: str, pattern: str) -> bool:
    """A pattern without `/` is one for names."""
    return not pattern or fnmatchcase(path if "/" in pattern else path.rpartition("/")[2], pattern)


def _matches(texts: Sequence[str], wanted: Search) -> Iterator[Match]:
    if not wanted.regex:
        return plain_matches(texts, wanted.query, ignore_case=wanted.ignore_case)
    try:
        return iter(pattern_matches(texts, wanted.query, wanted.most, ignore_case=wanted.ignore_case))
    except BadPattern as fault:
        hint = "write it more simply, or look for a plain text"
        raise Refused("bad_pattern", f"the regular expression cannot be used: {fault}", hint) from fault
