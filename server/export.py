"""Export: a whole tree as one file, for a replay, a page without a server, or another person.

Owns the bundle: the answers of the views, and the recording under its own key; and how a file is written and read. Must not
know: how a tree is replayed. Invariants: the same tree gives the same bytes; a file is complete or not there, and only its
owner may read it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio.to_thread

from db.errors import UnknownExecution
from db.rows.reads import Reads
from registry import RegistryError, restore
from runner.replay.extract import record_tree
from runner.replay.recording import BadRecording, Recording, read_recording
from runner.tools.secrets import Mask
from server.digests import DIGESTS, RECORDING, Alteration, alterations, digests_of
from server.views.records import BUNDLE_FORMAT, BUNDLE_VERSION
from server.views.views import Views

WRITE = "write one with `outrider export --json`"

LARGEST_BYTES = 2_000_000_000
"""Of a file that is read: more cannot be held in memory with its objects."""
SHORT = 40
"""Characters of a wrong value in an error."""


async def bundle_of(reads: Reads, database: Path, top: str, *, recorded: bool = True) -> dict[str, Any]:
    """The bundle of a tree, secrets masked; `recorded` adds the recording, for which the tree must have ended.

    Raises UnknownExecution, NotRecordable.
    """
    row = await reads.execution(top)
    if row is None:
        raise UnknownExecution(top)
    mask = await mask_of(reads, row["root_execution_id"])
    bundle = await Views(reads, database).bundle(top)
    recording = await record_tree(reads, top, mask.value) if recorded else None

    def made() -> dict[str, Any]:
        content: dict[str, Any] = mask.value(bundle.model_dump(mode="json", exclude={RECORDING, DIGESTS}))
        if recording is None:
            return content
        content[RECORDING] = recording.model_dump(mode="json")
        return {**content, DIGESTS: digests_of(content)}

    return await anyio.to_thread.run_sync(made)  # a big tree is megabytes, and a server has other callers


def shown_part(content: Mapping[str, Any]) -> dict[str, Any]:
    """What a page shows of a bundle."""
    return {name: value for name, value in content.items() if name not in (RECORDING, DIGESTS)}


async def recording_of(reads: Reads, top: str) -> Recording:
    """The recording of a tree of this database."""
    mask = await mask_of(reads, top)
    recording = await record_tree(reads, top, mask.value)
    return read_recording(recording.model_dump(mode="json"))


async def mask_of(reads: Reads, root: str) -> Mask:
    """Masks the secrets of the configurations of a tree, as far as this process knows them."""
    secrets: set[str] = set()
    for each in sorted({row["config_hash"] for row in await reads.tree_rows(root) if row["config_hash"]}):
        body = await reads.snapshot(each)
        with suppress(RegistryError, OSError, ValueError):
            secrets |= restore(body, os.environ).secrets(os.environ) if body is not None else set()
    return Mask(secrets)


# -- files -------------------------------------------------------------------------------------------------------------


def json_text(content: Mapping[str, Any]) -> Iterator[str]:
    """A bundle as JSON, piece by piece: one line for each small part, so that two bundles can be compared by eye."""
    yield from json.JSONEncoder(ensure_ascii=False, indent=1, allow_nan=False).iterencode(content)
    yield "\n"


def write_private(path: Path, pieces: Iterable[str]) -> None:
    """Write a file beside its place and put it there when it is complete; a file of that name is replaced.

    A link leads to its file. What is no file, such as a pipe or `/dev/null`, is written to and stays. Raises OSError.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
            file.writelines(_joined(pieces))
        return
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # its mode is 0600
    try:
        with os.fdopen(number, "w", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
            file.writelines(_joined(pieces))
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        raise


def _joined(pieces: Iterable[str], least: int = 65_536) -> Iterator[str]:
    """Fewer, longer pieces."""
    held: list[str] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= least:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)


def write_out(pieces: Iterable[str]) -> None:
    """Write to standard output."""
    for some in _joined(pieces):
        sys.stdout.write(some)
    sys.stdout.flush()


def read_bundle(path: Path) -> tuple[Recording, Sequence[Alteration]]:
    """The recording in a file, and what was changed in the file since it was exported.

    Raises BadRecording, naming the field, and OSError.
    """
    if path.stat().st_size > LARGEST_BYTES:
        raise BadRecording(f"`{path}` has more than {LARGEST_BYTES:,} bytes", "export a smaller tree")
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise BadRecording(f"`{path}` is not JSON{where}", "name a file that `outrider export --json` wrote") from error
    if not isinstance(content, dict) or content.get("format") != BUNDLE_FORMAT:
        raise BadRecording(f"`{path}` is no bundle: its `format` is not `{BUNDLE_FORMAT}`", WRITE)
    version = content.get("version")
    if type(version) is not int or version < BUNDLE_VERSION:  # a truth value is a number, too
        raise BadRecording(f"`{path}` is no bundle: its `version` is `{_short(version)}`, not `{BUNDLE_VERSION}`", WRITE)
    if version > BUNDLE_VERSION:
        raise BadRecording(f"`{path}` has version {version}, this Outrider reads {BUNDLE_VERSION}", "update Outrider")
    if content.get(RECORDING) is None:
        raise BadRecording(f"`{path}` has no `recording`", WRITE)
    recording = read_recording(content[RECORDING])
    try:
        return recording, alterations(content, recording)
    except RecursionError as error:
        raise BadRecording(f"`{path}` is nested too deeply", "export the tree again") from error


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= SHORT else f"{text[:SHORT]}…"
