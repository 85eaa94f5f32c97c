"""A client's file with Outrider's entry in it: what would change, and the change itself.

Owns: reading the file, merging the entry with one that is there, the difference shown to a person, the backup, the write.
Must not know: any one client. Invariant: a file is either left as it is, or replaced whole by one that holds everything it
held; what other entries say is never shown.
"""

from __future__ import annotations

import difflib
import os
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from server.cli.install.clients import ClientProgram, Entry
from server.cli.install.json_text import CannotKeep, JsonText, TreePath, UnreadableJson
from server.cli.terminal.exits import CommandError

MASK = "***"
MARK = b"\xef\xbb\xbf"
"""The byte order mark some editors put before UTF-8; it stays if it is there."""

TRANSPORT = ("type", "command", "args", "env", "url", "headers")
"""What an entry says about how its server is reached; everything else in it is the user's and stays."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A change that is ready to be made."""

    file: Path
    before: bytes | None
    """None if there is no file yet."""
    after: bytes
    difference: list[str]


def edit_of(file: Path, client: ClientProgram, name: str, entry: Entry) -> Edit | None:
    """What putting the entry into the file would change; None if it is there already."""
    before = _content(file)
    old = _read(file, before, client)
    there = old.tree.get(client.section, {})
    if not isinstance(there, dict):
        raise _broken(file, f"`{client.section}` is not an object")
    wanted = _merged(there.get(name), entry)
    if there.get(name) == wanted:
        return None
    path = (client.section, name)
    try:
        new = JsonText(old.put(path, wanted), client.comments)
    except CannotKeep as error:
        hint = "put in by hand what `--print` prints"
        raise CommandError(f"{file} is left as it is: {error}", hint) from error
    after = (MARK if before is not None and before.startswith(MARK) else b"") + new.text.encode()
    return Edit(file, before, after, _difference(file, old, new, path))


def write(edit: Edit) -> Path | None:
    """Make the change in one step; the file as it was is kept beside it, and its path returned."""
    file = edit.file.resolve()  # a link stays one
    if _content(file) != edit.before:
        raise CommandError(f"{edit.file} has changed in the meantime; nothing was written", "run the command again")
    backup = None
    if edit.before is not None:
        backup = file.with_name(f"{file.name}.{datetime.now():%Y%m%d-%H%M%S}.bak")
        shutil.copy2(file, backup)
    file.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}.", delete=False) as scratch:
        try:
            scratch.write(edit.after)
            scratch.flush()
            os.fsync(scratch.fileno())
            if backup is not None:
                shutil.copymode(backup, scratch.name)
            scratch.close()
            Path(scratch.name).replace(file)
        except BaseException:
            Path(scratch.name).unlink(missing_ok=True)
            raise
    return backup


def _content(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None


def _read(file: Path, content: bytes | None, client: ClientProgram) -> JsonText:
    try:
        return JsonText((content or b"").removeprefix(MARK).decode(), client.comments)
    except UnicodeDecodeError as error:
        raise _broken(file, "it is not UTF-8") from error
    except UnreadableJson as error:
        raise _broken(file, str(error)) from error


def _broken(file: Path, message: str) -> CommandError:
    return CommandError(f"{file} cannot be read: {message}", "correct it first, or take what `--print` prints")


def _merged(old: Any, entry: Entry) -> Entry:
    """The entry, with what a person added to the one that is there: preferences, and variables such as a key."""
    if not isinstance(old, dict):
        return entry
    kept = {key: value for key, value in old.items() if key in entry or key not in TRANSPORT}
    merged = {**kept, **entry}
    if "command" in entry and isinstance(old.get("env"), dict):
        merged["env"] = {**entry.get("env", {}), **old["env"]}
    if "headers" in entry and isinstance(old.get("headers"), dict):
        merged["headers"] = {**old["headers"], **entry["headers"]}
    return merged


def _difference(file: Path, old: JsonText, new: JsonText, ours: TreePath) -> list[str]:
    """The change line by line, without the contents of other entries and without keys that the user put into ours."""

    def hidden(path: TreePath, value: str) -> bool:
        return path[:2] != ours or (path[2:3] in (("env",), ("headers",)) and "${" not in value)

    before, after = (each.veiled(hidden, MASK).splitlines() for each in (old, new))
    return list(difflib.unified_diff(before, after, str(file), str(file), lineterm=""))
