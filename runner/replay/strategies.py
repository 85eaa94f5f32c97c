"""Strategies of a replay: the loop in the pace of its recording, and a stand-in for work that has no recorded inputs.

Owns when a replayed loop takes its next step. The step itself, and everything that follows from it, is the loop's own.
"""

from __future__ import annotations

from dataclasses import replace

import anyio
from pydantic_core import to_json

from runner.core.history import History
from runner.core.inbox import Item
from runner.errors import Refusal
from runner.messages import Message
from runner.record import facts
from runner.replay.recording import RecordedDelivery, RecordedExecution
from runner.replay.track import STOPPED, Track, until, until_at_rest
from runner.result import Result
from runner.strategies.child_tracker import InboxReader
from runner.strategies.context import StrategyContext
from runner.strategies.loop.notes import LOW, REASON
from runner.strategies.loop.step import Action
from runner.strategies.loop.strategy import Loop
from runner.strategies.requests import again

PATIENCE = 0.5
"""Seconds in which a request to conclude is expected from the parent, before it is taken from the recording."""


class PacedLoop(Loop):
    """A loop that takes each step when its recording did."""

    __slots__ = ("_track",)

    def __init__(self, context: StrategyContext, track: Track) -> None:
        super().__init__(context)
        self._track = track

    async def _open(self) -> None:
        await super()._open()
        await self._keep_pace()

    async def _carry_out(self, action: Action) -> Result | None:
        accepted = await super()._carry_out(action)
        if accepted is None:
            await self._keep_pace()
        return accepted

    async def _keep_pace(self) -> None:
        """Wait for what the recording shows next, and do what came from outside."""
        track = self._track
        if self._talk.transcript.unanswered:
            return
        while (message := track.next) is not None:
            data = message.data or {}
            if message.kind == "note" and "seconds" in data.get(LOW, ()):
                await self._talk.repeat(Message(message.role, message.content, message.kind, data=data))
                continue
            if message.kind == "conclude":
                self._context.allowance.ask_to_wrap_up(data.get(REASON, "asked"))
            elif message.kind == "delivery":
                await deliver(track)
                if not await self._settles():
                    missing = [each.child_execution_id for each in track.inbox.missing()]
                    track.stands = any(
                        track.recording.by_id[each].cancel_requested_at for each in missing if each is not None
                    )
                    await until(lambda: bool(track.inbox.waiting))
            return
        if track.recorded.status in STOPPED:
            track.stands = True
            await anyio.sleep_forever()

    async def _settles(self) -> bool:
        """Whether it is about to stop its children, once they have come as far as they had."""
        track, allowance = self._track, self._context.allowance
        missing = [each.child_execution_id or "" for each in track.inbox.missing() if each.kind == "result"]
        stopped = [each for each in missing if track.recording.by_id[each].cancelled_by == track.recorded.agent]
        asked = any(each.kind == "wrap_up" for child in missing for each in track.recording.by_id[child].deliveries)
        if not stopped and not (asked and allowance.wrap_up is not None):
            return False
        later = track.recorded.messages[track.position :]
        conclusion = next((each for each in later if each.kind != "delivery"), None)
        if conclusion is not None and conclusion.kind == "conclude":
            allowance.ask_to_wrap_up((conclusion.data or {}).get(REASON, "asked"))
        for child in stopped:
            await until_at_rest(track.tracks, track.recording, child)
        return True


async def deliver(track: Track) -> None:
    """Deliver what came from outside of the tree and is due: messages, and requests to conclude."""
    for each in track.inbox.missing():
        if each.kind == "result":
            continue
        with anyio.move_on_after(PATIENCE if track.execution.parent is not None else 0):
            await until(lambda each=each: each not in track.inbox.missing())  # type: ignore[misc]
        if each in track.inbox.missing():
            await track.execution.take(item_of(each))


def item_of(recorded: RecordedDelivery) -> Item:
    """A recorded delivery as an inbox item."""
    said = recorded.payload or {}
    return Item(recorded.id, recorded.kind, said.get("text", ""), said.get("by", ""))


class StandIn:
    """In place of work whose inputs are not recorded, such as a function: spawns the recorded children, in order, and ends
    as the recording did.
    """

    def __init__(self, context: StrategyContext, track: Track) -> None:
        self._context, self._track = context, track
        self._reader = InboxReader(context)

    @property
    def partial_output(self) -> str:
        """The recorded output."""
        recorded = self._track.recorded.result or {}
        output = recorded.get("output")
        return output if isinstance(output, str) else ""

    def restore(self, history: History) -> None:
        """Continue after the last stored message."""
        self._reader.restore(history)

    async def run(self) -> Result:
        """Spawn, read and end as recorded."""
        track = self._track
        for child in track.spawns:
            await self._read_before(child.created_at)
            await self._spawn(child)
        await self._read_before(None)
        if track.recorded.status in STOPPED:
            track.stands = True
            await anyio.sleep_forever()
        assert track.recorded.result is not None
        return Result.of_json(to_json(track.recorded.result).decode())

    async def _read_before(self, time: str | None) -> None:
        """Read the deliveries that the recording had read before a time, or all."""
        track = self._track
        while (message := track.next) is not None and (time is None or message.created_at < time):
            await deliver(track)
            await until(lambda: bool(track.inbox.waiting))
            await self._reader.read()

    async def _spawn(self, child: RecordedExecution) -> None:
        context, row = self._context, self._row(child)
        request = again(context.settings, row, context.request, context.user)
        prompt = child.messages[0].content[0]["text"] if child.messages else None
        mode = {"status": "skipped", "reason": child.reason} if child.status == "skipped" and not child.messages else {}
        try:
            await context.children.spawn(replace(request, prompt=prompt).starting(**mode))
        except Refusal as refusal:
            problem = {"message": str(refusal)}
            context.recorder.record_nowait(facts.Noticed(context.place, "replay.refused", problem))

    def _row(self, child: RecordedExecution) -> dict[str, object]:
        """A recorded execution as a row."""
        row = {name: getattr(child, name) for name in type(child).model_fields}
        row["input"] = to_json(child.input).decode() if child.input is not None else None
        row["trace_context"] = None  # no caller's trace goes on in a replay
        return row
