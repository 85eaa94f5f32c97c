"""Playback: a recorded tree in a service of its own, execution by execution in its recorded place.

Owns which recorded execution a spawned one is, what its strategy is given, and the stops that came from outside. The ids
are those of the recording, so that texts with ids are the same. Must not know: how the service is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from pydantic_core import to_json

from db.ids import new_execution_id
from db.rows.reads import Record
from registry import AgentSpec, CatalogueEntry
from runner.approvals.gate import ApprovalGate, Kind
from runner.core.children import CancelChild
from runner.core.spawn import SpawnRequest
from runner.core.strategy import Strategy
from runner.core.verdict import Cause
from runner.messages import Tool, ToolCall
from runner.prompt.user_parts import UserParts
from runner.replay.models import RecordedModel
from runner.replay.recording import RecordedExecution, Recording
from runner.replay.strategies import PacedLoop, StandIn, deliver
from runner.replay.tools import RecordedTools, ReplayScope, as_recorded
from runner.replay.track import LOOPS, STOPPED, Track, TrackingRecorder, until, until_at_rest
from runner.strategies.context import StrategyContext
from runner.strategies.route.commands.parse import call_in
from runner.strategies.toolset import Toolbox
from runner.tools.protocol import ToolResult
from runner.work_items.board import Board

if TYPE_CHECKING:
    from runner.core.execution import Execution


class Playback:
    """Implements `PlaybackSeam` over a recording."""

    def __init__(self, recording: Recording, folder: Path, *, live: bool = False) -> None:
        self._recording, self._live = recording, live
        self._folder = folder
        """The folder that stands for the workspaces."""
        self._free = {parent: list(children) for parent, children in recording.children.items()}
        """Recorded executions that were not spawned yet, by parent."""
        self.tracks: dict[str, Track] = {}
        self.unfolded: list[str] = []
        """Executions whose own work is taken from the recording, because its inputs are not recorded."""

    # -- the seam ------------------------------------------------------------------------------------------------------

    def identify(self, parent: str | None, request: SpawnRequest) -> str:
        """The id of the recorded execution that this one is; a new id if there is none."""
        free = self._free.get(parent, [])
        for each in free:
            if self._is(each, request):
                free.remove(each)
                if parent in self.tracks:
                    self.tracks[parent].spawned.add(each.id)
                return each.id
        return new_execution_id()

    def _is(self, recorded: RecordedExecution, request: SpawnRequest) -> bool:
        call = request.dispatch.call
        if recorded.parent_execution_id is None:
            return True
        if call is not None or recorded.tool_call_id is not None:
            above = self._recording.by_id[recorded.parent_execution_id]
            started = next((each for each in above.all_calls if each.execution_id == recorded.id), None)
            return call is not None and started is not None and started.call_id == call.id
        stage = request.step.stage in (None, recorded.stage)
        return stage and (recorded.step_id, recorded.role, recorded.name) == (
            request.step.id, request.role, request.agent.name,
        )  # fmt: skip

    def arranged(self, execution: Execution, context: StrategyContext) -> tuple[StrategyContext, Strategy | None]:
        """The context over recorded replies, results and decisions; and the strategy, where it is another one."""
        recorded = self._recording.by_id.get(execution.id)
        if recorded is None:
            return context, None
        track = self.tracks.get(execution.id)
        if track is None:
            track = self.tracks[execution.id] = Track(self._recording, self.tracks, execution)
            for item in execution.children.inbox.waiting:
                track.inbox.put(item)
            execution.children.inbox = track.inbox
        lookups = RecordedLookups(context, track, live=self._live)
        context = replace(
            context,
            inbox=track.inbox,
            recorder=TrackingRecorder(context.recorder, self.tracks),
            sources=lookups,
            lookups=lookups,
            model=RecordedModel(track) if context.model is not None else None,
            toolbox=self._toolbox(context.toolbox, track),
        )
        return context, self._strategy(context, track)

    def _toolbox(self, box: Toolbox | None, track: Track) -> Toolbox | None:
        return (
            _Tools(RecordedTools(box, track, ReplayScope(self.tracks, self._folder, live=self._live)), box.upstream)
            if box is not None
            else None
        )

    def _strategy(self, context: StrategyContext, track: Track) -> Strategy | None:
        agent = context.subject
        if not isinstance(agent, AgentSpec):
            return None
        if agent.strategy == "loop":
            return PacedLoop(context, track)
        command = agent.strategy == "route" and call_in(agent, context.task) is not None
        skilled = agent.strategy == "iterate" and bool(agent.mcp_servers)
        if agent.strategy == "function" or command or skilled:
            self.unfolded.append(track.recorded.id)
            return StandIn(context, track)
        return None

    # -- what came from outside ----------------------------------------------------------------------------------------

    async def stop_as_recorded(self, cancel: CancelChild) -> None:
        """Stop each execution that was stopped from outside, once it has come as far as it had. Runs until cancelled."""
        async with anyio.create_task_group() as group:
            for each in self._recording.executions:
                if each.status == "timed_out":
                    group.start_soon(self._time_out, each, name=f"time out {each.id}")
                elif each.cancel_requested_at is not None and self._from_outside(each):
                    group.start_soon(self._cancel, cancel, each, name=f"cancel {each.id}")
                if each.strategy not in LOOPS and any(item.kind != "result" for item in each.deliveries):
                    group.start_soon(self._speak, each, name=f"speak to {each.id}")

    async def _speak(self, each: RecordedExecution) -> None:
        """Deliver what was said to an execution without a model, when it was shown."""
        await until(lambda: each.id in self.tracks)
        track = self.tracks[each.id]
        while track.next is not None:
            await until(lambda: any(item.kind != "result" for item in track.inbox.missing()) or track.next is None)
            await deliver(track)

    def _from_outside(self, each: RecordedExecution) -> bool:
        """Whether a cancel was neither its parent's nor one of an execution above."""
        above = self._recording.by_id.get(each.parent_execution_id or "")
        if above is None:
            return True
        return above.cancel_requested_at != each.cancel_requested_at and each.cancelled_by != above.agent

    async def _cancel(self, cancel: CancelChild, each: RecordedExecution) -> None:
        await until_at_rest(self.tracks, self._recording, each.id)
        await cancel(each.id, each.cancelled_by or "", each.cancel_reason or "")

    async def _time_out(self, each: RecordedExecution) -> None:
        await until_at_rest(self.tracks, self._recording, each.id)
        track = self.tracks[each.id]
        track.execution.cancel(Cause("deadline", seconds=track.execution.allowance.timeout))


class _Tools(Toolbox):
    """A toolbox over recorded results."""

    @property
    def unavailable(self) -> Mapping[str, str]:
        """Servers that were missing."""
        tools = self.tools
        return tools.missing if isinstance(tools, RecordedTools) else {}


class RecordedLookups:
    """What a strategy may look up, as recorded: decisions of people, reused results. Files and servers are not read."""

    def __init__(self, context: StrategyContext, track: Track, *, live: bool) -> None:
        self._lookups, self._sources, self._track, self._live = context.lookups, context.sources, track, live

    async def personal(self) -> UserParts:
        return await self._sources.personal()

    async def files(self, beside: UserParts) -> str:
        return ""

    async def server_instructions(self) -> Mapping[str, str]:
        return await self._sources.server_instructions() if self._live else {}

    def mask(self, text: str) -> str:
        return self._sources.mask(text)

    def gate(self) -> ApprovalGate:
        return RecordedGate(self._track)

    async def tool_call(self, row: str) -> Record | None:
        return await self._lookups.tool_call(row)

    def board(self) -> Board:
        return self._lookups.board()

    async def skills(self, worker: AgentSpec, catalogue: Sequence[CatalogueEntry]) -> Sequence[Mapping[str, str]]:
        return [{"name": entry.name, "description": entry.description} for entry in catalogue]

    async def same_step(self, agent: str, prompt: str, seconds: float) -> Record | None:
        """The recorded result that was reused."""
        for child in self._track.spawns:
            came_from = (child.result or {}).get("metadata", {}).get("cached_from")
            first = child.messages[0].content[0]["text"] if child.messages else None
            if came_from is not None and child.name == agent and first == prompt:
                return {"id": came_from, "result": to_json(child.result).decode()}
        return None

    def resumes_elsewhere(self) -> bool:
        return self._lookups.resumes_elsewhere()


class RecordedGate(ApprovalGate):
    """Answers as the recorded person did."""

    __slots__ = ("_track",)

    def __init__(self, track: Track) -> None:
        self._track = track

    async def allow(self, call: ToolCall, tool: Tool, kind: Kind = "gate") -> ToolResult | None:
        """None where the call was allowed; otherwise the recorded refusal."""
        recorded = self._track.call(call)
        if recorded is None or any(each.decision == "approved" for each in recorded.approvals):
            return None
        if recorded.error_type == "cancelled" and self._track.recorded.status in STOPPED:
            self._track.stands = True
            await anyio.sleep_forever()
        return as_recorded(recorded) if recorded.is_error else None
