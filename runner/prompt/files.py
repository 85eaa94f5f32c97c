"""Prompt files: files of the configuration's folder in a prompt, and the full text of one that was cut.

Owns how files share the available room; the registry decides which agent sees which. They are read in a thread when a
prompt is built, because a disk may be slow. Invariant: apart from the frame, the text never exceeds its room, whatever the
files contain or are called; no file can open or close an element; an unreadable file is a warning, never an error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape, unescape

import anyio
import anyio.to_thread

from registry import AgentSpec, Folder, UnreadableFile
from registry.text.folder import MOST_BYTES
from runner.core.execution import Execution
from runner.prompt.user_parts import UserParts, view_of
from runner.record import facts
from runner.text import BYTES_PER_TOKEN, cut_mark, escape_blocks, fitting, limit_of

log = logging.getLogger("outrider.files")

SECONDS = 5.0
"""Reading takes at most this long; then the prompt has no files."""

SCHEME = "file:"
"""Prefix of a file's id for `read_result`."""

ABOUT = "These are files of the project you work in. Follow what they say about how work is done here."

NAMED_FAULTS = 3
"""Files that a warning names; the others are only counted."""


@dataclass(frozen=True, slots=True)
class PromptFiles:
    """The files of a prompt."""

    text: str = ""
    cut: tuple[str, ...] = ()
    """Paths shown in part."""
    left_out: int = 0
    """Number of files without any room."""
    faults: tuple[str, ...] = ()
    """Unreadable files, with the reasons."""

    @property
    def warning(self) -> str:
        """The warning for the reader of the answer."""
        more = len(self.faults) - NAMED_FAULTS
        named = "; ".join(self.faults[:NAMED_FAULTS]) + (f"; and {more} more" if more > 0 else "")
        return f"context files could not be read: {named}; this was answered without them"


async def files_for(execution: Execution, beside: UserParts, *, readable: bool) -> str:
    """The files for a prompt, in the room that its user parts leave; `readable` says whether the execution has a tool to
    read the rest of one. It never raises.
    """
    agent, warnings, services = execution.request.agent, execution.state.warnings, execution.services
    if not isinstance(agent, AgentSpec) or not (patterns := _patterns(execution)):
        return ""
    told = len(f"{beside.memory}{beside.history}".encode())
    room = max(0, view_of(agent, execution.request.role).budget * BYTES_PER_TOKEN - told)
    folder = services.settings.context_files.folder
    try:
        with anyio.fail_after(SECONDS):
            made = partial(prompt_files, folder, patterns, room, readable=readable, clear=services.upstreams.mask.text)
            files_shown = await anyio.to_thread.run_sync(made, abandon_on_cancel=True)
    except Exception as error:  # an answer without files is better than none
        log.warning("execution %s continues without its files: %r", execution.id, error)
        files_shown = PromptFiles(
            faults=("reading them timed out" if isinstance(error, TimeoutError) else type(error).__name__,)
        )
    if files_shown.faults and files_shown.warning not in warnings:
        warnings.append(files_shown.warning)
        services.recorder.record_nowait(
            facts.Noticed(execution.place, "context.degraded", {"layer": "files", "message": files_shown.warning})
        )
    if files_shown.cut or files_shown.left_out:
        trimmed = {
            "cut": list(files_shown.cut),
            "left_out": {"files": files_shown.left_out},
            "budget": room // BYTES_PER_TOKEN,
        }
        services.recorder.record_nowait(facts.Noticed(execution.place, "context.trimmed", trimmed))
    return files_shown.text


async def file_text(execution: Execution, identifier: str) -> str | None:
    """The full text of a file that an execution may see, by id, or a list of all such files; None for any other id."""
    patterns = _patterns(execution)
    if not patterns:
        return None
    read = partial(_read, execution.services.settings.context_files.folder, patterns, identifier.removeprefix(SCHEME))
    text = await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
    return execution.services.upstreams.mask.text(text) if text is not None else None


def prompt_files(
    folder: Folder, patterns: Sequence[str], room: int, *, readable: bool, clear: Callable[[str], str] = str
) -> PromptFiles:
    """The files of these patterns within `room` bytes: the longest are cut so that all fit, then the last are left out.

    `readable` adds the way to read the rest; `clear` removes secrets.
    """
    faults: list[str] = []
    found = _found(folder, patterns, faults)
    shown, spent = list[tuple[str, str]](), 0
    for number, path in enumerate(found):
        spent += _size(_element(path, "", _mark(path, MOST_BYTES, MOST_BYTES, readable=readable)))
        if spent > room // 2:  # the other half is for their contents
            left_out = len(found) - number
            break
        try:
            shown.append((path, clear(folder.read(path))))
        except UnreadableFile as fault:
            faults.append(f"`{_name(path)}`: {fault}")
    else:
        left_out = 0
    elements, cut = _shared(shown, room, readable=readable)
    if not elements and not left_out:
        return PromptFiles(faults=tuple(faults))
    listed = f"; read_result(execution_id={SCHEME!r}) lists all" if readable else ""
    more = [f"[{left_out} more left out: there is no room for them{listed}]"] if left_out else []
    text = "\n".join([ABOUT, "<files>", *elements, *more, "</files>"])
    return PromptFiles(text, tuple(cut), left_out, tuple(faults))


def _shared(shown: Sequence[tuple[str, str]], room: int, *, readable: bool) -> tuple[list[str], list[str]]:
    """The elements of files that share `room` bytes, and the paths shown in part."""
    bodies = [escape_blocks(text.rstrip("\n")) for _, text in shown]
    whole = [_element(path, body) for (path, _), body in zip(shown, bodies, strict=True)]
    if sum(map(_size, whole)) <= room:
        return whole, []
    marked = [_element(path, "", _mark(path, len(text), len(text), readable=readable)) for path, text in shown]
    lengths = [len(body.encode()) for body in bodies]
    most = limit_of(lengths, sum(lengths) + sum(map(_size, marked)) - room)
    elements, cut = [], []
    for (path, text), length, element in zip(shown, lengths, whole, strict=True):
        if length <= most:
            elements.append(element)
            continue
        kept = fitting(text, most)
        elements.append(_element(path, escape_blocks(kept), _mark(path, len(kept), len(text), readable=readable)))
        cut.append(path)
    return elements, cut


def _element(path: str, text: str, mark: str = "") -> str:
    return f'<file path="{escape_blocks(escape(_name(path)))}">\n{text}{mark}\n</file>'


def _size(element: str) -> int:
    """The bytes of an element and the line break after it."""
    return len(element.encode()) + 1


def _mark(path: str, kept: int, length: int, *, readable: bool) -> str:
    return cut_mark(kept, length, escape_blocks(f"{SCHEME}{_name(path)}") if readable else None)


def _name(path: str) -> str:
    """A path in printable form."""
    return path if path.isprintable() else ascii(path)[1:-1]


def _read(folder: Folder, patterns: Sequence[str], wanted: str) -> str | None:
    found = _found(folder, patterns, [])
    if not wanted:
        return "\n".join(map(_name, found))
    try:
        return next((folder.read(path) for path in found if path in (wanted, unescape(wanted))), None)
    except UnreadableFile:
        return None


def _found(folder: Folder, patterns: Sequence[str], faults: list[str]) -> list[str]:
    """The files of all patterns, in order, each once."""
    found: dict[str, None] = {}
    for pattern in patterns:
        try:
            matched = folder.find(pattern)
        except UnreadableFile as fault:
            faults.append(f"`{pattern}`: {fault}")
            continue
        if not matched:
            faults.append(f"`{pattern}`: no file matches")
        found.update(dict.fromkeys(matched))
    return list(found)


def _patterns(execution: Execution) -> tuple[str, ...]:
    agent = execution.request.agent
    if not isinstance(agent, AgentSpec):
        return ()
    return execution.services.settings.context_files.patterns(agent.context.level, agent.context.language)
