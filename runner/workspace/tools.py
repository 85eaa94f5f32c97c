"""The workspace tools: list, read, search, write and edit files of named folders.

Owns their arguments and answers; `runner/workspace/workspace.py` reads and writes the files.
Invariant: a call that changes a file is never abandoned: it ends with a known outcome before its execution ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from pydantic import Field

from registry import fold
from runner.messages import ToolCall
from runner.result import WRITING
from runner.tools.builtin import Arguments, OwnTool, answer, refuse
from runner.tools.protocol import ToolResult
from runner.tools.read_result import MOST, page_of
from runner.tools.secrets import Mask
from runner.workspace.sandbox import LONGEST_PATH, PathRefused
from runner.workspace.workspace import MOST_BYTES, FileSearch, SearchHit, Workspace

LIST, READ, SEARCH = "list_files", "read_file", "search_files"
WRITE, EDIT = WRITING

MOST_LISTED, MOST_HITS = 1_000, 200
LONGEST_LINE = 300
"""Characters shown of a matching line."""
SECONDS = 30.0
"""A slower read is given up."""

T = TypeVar("T")


class InWorkspace(Arguments):
    """Arguments that name a workspace."""

    workspace: str = Field(description="The workspace, by its name.")


class InFile(InWorkspace):
    """Arguments that name a file."""

    path: str = Field(max_length=LONGEST_PATH, description="The file, relative to the workspace: `notes/plan.md`.")


class ListFilesArguments(InWorkspace):
    path: str = Field(default="", max_length=LONGEST_PATH, description="The folder; absent: the whole workspace.")
    recursive: bool = Field(default=False, description="Whether to list subfolders too.")
    pattern: str = Field(default="", max_length=200, description="Only matching entries, such as `*.md` or `docs/*.md`.")
    offset: int = Field(default=0, ge=0, description="Entries to skip.")
    limit: int = Field(default=200, ge=1, le=MOST_LISTED, description="Entries to return.")


class ReadFileArguments(InFile):
    offset: int = Field(default=0, ge=0, description="First character.")
    limit: int = Field(default=MOST, ge=1, le=MOST, description="Characters to return.")


class SearchFilesArguments(InWorkspace):
    query: str = Field(min_length=1, max_length=500, description="The text to find in a line.")
    path: str = Field(default="", max_length=LONGEST_PATH, description="A file or folder; absent: the whole workspace.")
    pattern: str = Field(default="", max_length=200, description="Only in matching files, such as `*.md`.")
    regex: bool = Field(default=False, description="Whether the query is a regular expression (Python's).")
    ignore_case: bool = Field(default=False, description="Whether to ignore case.")
    offset: int = Field(default=0, ge=0, le=10_000, description="Matches to skip.")
    limit: int = Field(default=50, ge=1, le=MOST_HITS, description="Matches to return.")


class WriteFileArguments(InFile):
    content: str = Field(max_length=MOST_BYTES, description="The whole text of the file.")


class EditFileArguments(InFile):
    old_text: str = Field(min_length=1, max_length=MOST_BYTES, description="The exact text to replace.")
    new_text: str = Field(max_length=MOST_BYTES, description="The replacement.")
    all: bool = Field(default=False, description="Whether to replace every occurrence; otherwise it must occur once.")


@dataclass(frozen=True, slots=True)
class WorkspaceScope:
    """The workspaces of an execution, and what their tools need."""

    workspaces: Sequence[Workspace]
    wrote: Callable[[str], None]
    """Called with each written file, as `workspace/path`."""
    mask: Mask


def workspace_tools(desk: WorkspaceScope) -> list[OwnTool[Any]]:
    """The tools over some workspaces; those that change files only if one of them is writable."""
    tools = _WorkspaceTools(desk)
    reading: list[OwnTool[Any]] = [
        OwnTool(
            LIST,
            "List files and folders of a workspace. Hidden files and links are left out.",
            ListFilesArguments,
            tools.list,
        ),
        OwnTool(READ, "Read a text file of a workspace, long ones in parts.", ReadFileArguments, tools.read),
        OwnTool(
            SEARCH,
            "Find lines in the files of a workspace. The `offset` of a match is for `read_file`.",
            SearchFilesArguments,
            tools.search,
        ),
    ]
    if all(each.spec.read_only for each in desk.workspaces):
        return reading
    return [
        *reading,
        OwnTool(
            WRITE,
            "Write a whole file of a workspace. Replaces an existing file; creates folders.",
            WriteFileArguments,
            tools.write,
            effect="idempotent",
        ),
        OwnTool(
            EDIT,
            "Replace a text in a file of a workspace.",
            EditFileArguments,
            tools.edit,
            effect="at_most_once",
        ),
    ]


class _WorkspaceTools:
    """The handlers of the tools."""

    def __init__(self, desk: WorkspaceScope) -> None:
        self._desk = desk
        self._by_name: Mapping[str, Workspace] = {fold(each.spec.name): each for each in desk.workspaces}

    async def list(self, _call: ToolCall, arguments: ListFilesArguments) -> ToolResult:
        async def run(workspace: Workspace) -> ToolResult:
            listed = partial(workspace.listing, arguments.path, arguments.pattern, recursive=arguments.recursive)
            listing = await _run_reading(listed)
            end = arguments.offset + arguments.limit
            shown: dict[str, Any] = {
                "entries": [
                    {"path": each.path, "type": "folder"}
                    if each.size is None
                    else {"path": each.path, "type": "file", "size": each.size}
                    for each in listing.entries[arguments.offset : end]
                ],
                "total": len(listing.entries),
                "next_offset": end if end < len(listing.entries) else None,
            }
            note = {} if listing.whole else {"note": "not all entries were listed; name a folder"}
            return await self._desk.mask.result(answer({**shown, **note}))

        return await self._in(arguments, run)

    async def read(self, _call: ToolCall, arguments: ReadFileArguments) -> ToolResult:
        async def run(workspace: Workspace) -> ToolResult:
            text = await _run_reading(partial(workspace.read, arguments.path))
            page = page_of(text, arguments.offset, arguments.limit)
            end = arguments.offset + len(page["text"])
            return answer({**page, "text": self._desk.mask.page(text, arguments.offset, end)})

        return await self._in(arguments, run)

    async def search(self, _call: ToolCall, arguments: SearchFilesArguments) -> ToolResult:
        async def run(workspace: Workspace) -> ToolResult:
            end = arguments.offset + arguments.limit
            wanted = FileSearch(
                query=arguments.query,
                path=arguments.path,
                pattern=arguments.pattern,
                regex=arguments.regex,
                ignore_case=arguments.ignore_case,
                most=end + 1,
            )
            hits = await _run_reading(partial(workspace.search, wanted))
            shown: dict[str, Any] = {
                "matches": [_shown(hit, self._desk.mask) for hit in hits.found[arguments.offset : end]],
                "next_offset": end if len(hits.found) > end else None,
            }
            if hits.unread:
                shown["unread_files"] = hits.unread
            if not hits.whole:
                shown["note"] = "not all files were searched; name a folder or a pattern"
            return await self._desk.mask.result(answer(shown))

        return await self._in(arguments, run)

    async def write(self, call: ToolCall, arguments: WriteFileArguments) -> ToolResult:
        async def run(workspace: Workspace) -> ToolResult:
            created = await _run_changing(call, partial(workspace.write, arguments.path, arguments.content))
            return answer({"written": self._wrote(workspace, arguments.path), "created": created})

        return await self._in(arguments, run)

    async def edit(self, call: ToolCall, arguments: EditFileArguments) -> ToolResult:
        async def run(workspace: Workspace) -> ToolResult:
            edited = partial(
                workspace.edit, arguments.path, arguments.old_text, arguments.new_text, everywhere=arguments.all
            )
            count = await _run_changing(call, edited)
            return answer({"written": self._wrote(workspace, arguments.path), "replaced": count})

        return await self._in(arguments, run)

    async def _in(self, arguments: InWorkspace, run: Callable[[Workspace], Any]) -> ToolResult:
        workspace = self._by_name.get(fold(arguments.workspace))
        if workspace is None:
            known = ", ".join(f"`{each.spec.name}`" for each in self._desk.workspaces)
            return refuse("unknown_workspace", "you have no workspace with this name", f"yours: {known}")
        try:
            result: ToolResult = await run(workspace)
        except PathRefused as refusal:
            return refuse(refusal.kind, str(refusal), refusal.hint)
        return result

    def _wrote(self, workspace: Workspace, path: str) -> str:
        written = workspace.named(path)
        self._desk.wrote(written)
        return written


async def _run_reading(operation: Callable[[], T]) -> T:
    """Run a read-only operation; a disk that does not answer is given up."""
    try:
        with anyio.fail_after(SECONDS):
            return await anyio.to_thread.run_sync(operation, abandon_on_cancel=True)
    except TimeoutError:
        raise PathRefused("timeout", f"it took longer than {SECONDS:g} s", "ask for less, or continue without it") from None


async def _run_changing(call: ToolCall, operation: Callable[[], T]) -> T:
    """Run an operation that changes a file: once started it is waited for, also when cancelled."""

    def begun() -> T:
        call.flight.sent = True
        return operation()

    call.flight.sent = False
    return await anyio.to_thread.run_sync(begun)


def _shown(hit: SearchHit, mask: Mask) -> dict[str, Any]:
    start = max(0, min(hit.column - LONGEST_LINE // 3, len(hit.text) - LONGEST_LINE))
    text = mask.page(hit.text, start, start + LONGEST_LINE).rstrip("\r")
    return {"path": hit.path, "line": hit.line, "offset": hit.offset + start, "text": text}
