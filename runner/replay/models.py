"""Recorded replies as a model: what was answered is answered again, in its place, without a provider.

Owns the reply for a request. Must not know: tools, or how replies are compared.
"""

from __future__ import annotations

import anyio
import anyio.lowlevel

from registry import ModelSpec
from runner.llm.protocol import Model, ModelError, OnText, Reply, Request, Usage
from runner.replay.recording import REPLIES, RecordedExecution, RecordedMessage
from runner.replay.track import STOPPED, Track
from runner.result import Result
from runner.strategies.loop.model_calls import WrapUpWanted
from runner.strategies.loop.notes import REASON

SAID = "the model could not answer: "
"""How the problem of a failed model call begins, before the error's own text."""


class RecordedModel:
    """The model of one execution."""

    def __init__(self, track: Track) -> None:
        self._track = track

    @property
    def rehearses(self) -> bool:
        """Whether the recorded replies were rehearsed."""
        return any(each.reply is not None and each.reply.rehearsed for each in self._track.recorded.replies)

    async def complete(self, request: Request, on_text: OnText) -> Reply:
        """The recorded reply that comes next. Raises ModelError where the recorded call failed."""
        await anyio.lowlevel.checkpoint()
        message = self._track.next
        if message is not None and message.reply is not None and message.kind in REPLIES:
            return _reply(message, on_text)
        if message is None:
            return await self._end()
        if message.kind == "conclude":  # the call was cut off for it
            reason = (message.data or {}).get(REASON, "asked")
            self._track.execution.allowance.ask_to_wrap_up(reason)
            raise WrapUpWanted
        if message.kind == "compaction":
            raise ModelError("too_large", "the request was too long")
        if message.kind == "task":
            number = sum(each.kind == "task" for each in self._track.recorded.messages[: self._track.position]) - 1
            errors = self._track.recorded.retries
            told = errors[number] if number < len(errors) else "the attempt failed"
            raise ModelError("server", told.removeprefix(SAID), recoverable=True)
        raise ModelError("rehearsal", f"the recording has a `{message.kind}` here, and no reply", "see the difference")

    async def _end(self) -> Reply:
        """Beyond the recorded replies: stand until it is stopped, or fail as the recorded call did."""
        recorded = self._track.recorded
        if recorded.status in STOPPED:
            self._track.stands = True
            await anyio.sleep_forever()
        if recorded.result is not None and (error := _failure(recorded)) is not None:
            raise error
        raise ModelError("rehearsal", "the recording has no further reply", "see the difference")

    async def close(self) -> None:
        """Nothing is open."""


class RecordedModels:
    """Chooses for every model the recording; needs no key."""

    def choose(self, spec: ModelSpec) -> Model:
        """A stand-in; the model of each execution takes its place when it is assembled."""
        return _Nothing()


class _Nothing:
    rehearses = True

    async def complete(self, request: Request, on_text: OnText) -> Reply:
        raise ModelError("rehearsal", f"`{request.agent}` is not in the recording")

    async def close(self) -> None:
        """Nothing is open."""


def _reply(message: RecordedMessage, on_text: OnText) -> Reply:
    reply = message.reply
    assert reply is not None
    for block in message.content:
        if block.get("type") == "text":
            on_text(block["text"])
    usage = Usage(
        reply.input_tokens,
        reply.output_tokens,
        reply.cache_read_tokens,
        reply.cache_write_tokens,
        reply.cache_write_1h_tokens,
    )
    content = [dict(block) for block in message.content]
    return Reply(content, reply.stop_reason or "end_turn", usage, reply.model, reply.request_id, reply.rehearsed)


def _failure(recorded: RecordedExecution) -> ModelError | None:
    """The error of the recorded model call that ended an execution, from its result."""
    from pydantic_core import to_json

    result = Result.of_json(to_json(recorded.result).decode())
    for problem in result.errors:
        if problem.type == "model":
            kind = problem.code if problem.code in ModelError.KINDS else "unknown"
            hint = problem.recommendation or ""
            return ModelError(kind, problem.message.removeprefix(SAID), hint, recoverable=problem.recoverable)
    return None
