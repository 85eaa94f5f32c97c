"""Recorded results as tools: a call gets the result that it got, unless its effect is the tree itself.

Owns which calls are carried out: a dispatch, a cancel and a report are, because the tree follows from them; calls of
servers only when asked for, and only those that may be repeated. Must not know: the transcript.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
from pydantic_core import from_json

from registry import AgentSpec
from runner.messages import Tool, ToolCall
from runner.replay.recording import RecordedCall
from runner.replay.track import STOPPED, Track, until, until_at_rest
from runner.result import TOOL_UNAVAILABLE, WRITING, file_artifact
from runner.snapshot import DISPATCH
from runner.strategies.toolset import Toolbox
from runner.tools.builtin import SERVER, OwnTools
from runner.tools.composite import CompositeTools
from runner.tools.dispatch import CANCEL, GET_RESULT, WAIT_FOR
from runner.tools.effects import NOT_BEGUN, may_repeat
from runner.tools.finish import NAME as FINISH
from runner.tools.protocol import ToolExecutor, ToolResult

CARRIED_OUT = (DISPATCH, CANCEL, FINISH)
"""Built-in tools whose effect is the tree itself."""

NOT_RECORDED = ToolResult(
    "error: the recording has no such call\nhint: see the difference", is_error=True, error_type="replay", ran=False
)


@dataclass(frozen=True, slots=True)
class ReplayScope:
    """What the tools of all executions of a replay share."""

    tracks: Mapping[str, Track]
    folder: Path
    """Stands for the workspaces."""
    live: bool
    """Whether tools of servers that only read are called."""


class RecordedTools(CompositeTools):
    """The tools of one execution."""

    def __init__(self, box: Toolbox, track: Track, around: ReplayScope) -> None:
        super().__init__([])
        self._box, self._track, self._around = box, track, around
        self._known: dict[str, Tool] = {}

    async def list_tools(self, wanted: Callable[[ToolExecutor], bool] | None = None) -> Sequence[Tool]:
        """The built-in tools, and those that the recording has calls of; with live tools all."""
        listed = await self._box.tools.list_tools(
            wanted or (lambda layer: self._around.live or isinstance(layer, OwnTools))
        )
        self._known = {tool.name: tool for tool in listed}
        for message in self._track.recorded.messages:
            names = {block["id"]: block["name"] for block in message.content if block.get("type") == "tool_use"}
            for call in message.calls:
                name = names.get(call.call_id)
                if name is not None and call.server:
                    self._known.setdefault(name, _recorded_tool(name, call))
        return [*self._known.values(), *([] if self._around.live else self._stand_ins())]

    def _stand_ins(self) -> list[Tool]:
        """A tool of each required server without a recorded call: the server was there."""
        agent = self._track.execution.request.agent
        if not isinstance(agent, AgentSpec):
            return []
        there = {tool.server for tool in self._known.values()} | set(self.missing)
        names = [name for name in agent.mcp_servers if name not in there]
        return [Tool(f"{name}__not_called", "", {}, f"{name}.not_called", name) for name in names]

    @property
    def missing(self) -> Mapping[str, str]:
        """Required servers that were missing from the start, and why."""
        recorded = self._track.recorded
        if recorded.error_type != TOOL_UNAVAILABLE or recorded.replies or recorded.result is None:
            return {}
        problems = [each for each in recorded.result.get("errors") or () if "server" in each.get("context", {})]
        return {each["context"]["server"]: each["message"].partition(", which ")[2] for each in problems}

    def tool(self, name: str) -> Tool | None:
        """The tool that a call of that name would reach."""
        return self._known.get(name) or (self._box.tools.tool(name) if self._around.live else None)

    async def call(self, call: ToolCall) -> ToolResult:
        """The recorded result, or that of the call where it is carried out."""
        recorded = self._track.call(call)
        call.flight.sent = True
        if recorded is None:
            return NOT_RECORDED
        if recorded.error_type == "cancelled" and self._track.recorded.status in STOPPED and self._track.next is None:
            self._track.stands = True  # it was under way, or about to start, when its execution was stopped
            call.flight.sent = recorded.result != NOT_BEGUN.text
            await anyio.sleep_forever()
        if recorded.server == SERVER:
            return await self._own(call, recorded)
        tool = self.tool(call.name)
        if self._around.live and tool is not None and may_repeat(tool.effect):
            return await self._box.tools.call(call)
        return as_recorded(recorded, ran=recorded.id in self._track.ran)

    async def _own(self, call: ToolCall, recorded: RecordedCall) -> ToolResult:
        """A built-in tool."""
        if recorded.tool == CANCEL:
            await self._until_there(recorded)
        if recorded.tool in CARRIED_OUT:
            return await self._box.tools.call(call)
        result = as_recorded(recorded, ran=recorded.id in self._track.ran)
        if recorded.tool in (GET_RESULT, WAIT_FOR):
            return replace(result, consumed=await self._collected(recorded))
        if (written := written_by(recorded)) is not None:
            self._track.execution.state.artifacts.append(file_artifact(written))
            create_file(self._around.folder, written)
        return result

    async def _until_there(self, recorded: RecordedCall) -> None:
        """Wait until the execution to be cancelled has come as far as it had."""
        wanted = _object_in(recorded.arguments).get("execution_id")
        for child in self._track.spawns:
            if isinstance(wanted, str) and wanted and (child.id.endswith(wanted) or child.id.startswith(wanted)):
                await until_at_rest(self._around.tracks, self._track.recording, child.id)

    async def _collected(self, recorded: RecordedCall) -> tuple[str, ...]:
        """Collect the ends that the recorded call collected, once they are there."""
        taken = [each for each in self._track.recorded.deliveries if each.consumed_by == recorded.id]
        children = [each.child_execution_id for each in taken if each.child_execution_id is not None]
        inbox = self._track.inbox
        await until(lambda: all(inbox.find(child) is not None for child in children))
        return tuple(claim for claim in map(inbox.claim, children) if claim is not None)

    async def close(self) -> None:
        """Close what was used."""
        await self._box.tools.close()


def written_by(call: RecordedCall) -> str | None:
    """The file of a workspace that a recorded call wrote."""
    if call.server != SERVER or call.tool not in WRITING or call.status != "completed" or not call.result:
        return None
    written = _object_in(call.result).get("written")
    return written if isinstance(written, str) else None


def _object_in(text: str) -> Mapping[str, Any]:
    """The JSON object of a recorded text; an empty one for any other text."""
    try:
        found = from_json(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def create_file(folder: Path, path: str) -> None:
    """Create an empty file in a folder; nothing where the path would leave it, or cannot be one."""
    with suppress(OSError, ValueError):
        file = (folder / path).resolve()
        if file.is_relative_to(folder.resolve()) and not file.is_dir():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()


def _recorded_tool(name: str, call: RecordedCall) -> Tool:
    gate = "ask" if any(each.kind == "gate" for each in call.approvals) else "none"
    return Tool(name, "", {}, call.tool, call.server, call.effect, gate)


def as_recorded(call: RecordedCall, *, ran: bool = False) -> ToolResult:
    """The recorded result, exactly as it was shown: marked as ours, because it was escaped and cut before it was stored."""
    text = call.result or ""
    return ToolResult(
        text,
        is_error=call.is_error,
        error_type=call.error_type,
        ran=ran,
        uncertain=call.status == "unknown",
        full_text=call.whole,
        mark=text,
    )
