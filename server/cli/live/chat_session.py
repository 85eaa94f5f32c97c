"""A conversation: what one user says at this keyboard or in one message, and how the answers are told.

Owns the order of reading, answering and leaving, and the signals in between. Must not know: options, or how an answer comes
about. Invariant: a message that cannot be answered ends no conversation.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio

from registry import UserSpec
from runner.chat import LONGEST, refusal_phrase, spoken
from runner.errors import Refusal
from runner.service.dispatcher import Dispatcher
from runner.service.order import Order
from runner.snapshot import Snapshot
from runner.text import language_of
from server.app import Blueprint, open_service
from server.cli.live.live_run import Afterwards, LiveRun, Signals
from server.cli.show import report
from server.cli.show.tree_view import tree_view
from server.cli.terminal.exits import CommandError, Exit, explain
from server.cli.terminal.keyboard import Keyboard
from server.cli.terminal.output import note, tell
from server.shutdown import polite_stops

LINGER_SECONDS = 10.0
"""How long the process stays after the last answer, for what is learned from it; what takes longer goes on elsewhere."""


async def _learned(service: Dispatcher) -> None:
    with anyio.move_on_after(LINGER_SECONDS):
        await service.extraction.quiet()


async def _first_of(*waits: Callable[[], Awaitable[Any]]) -> None:
    async with anyio.create_task_group() as group:

        async def wait(each: Callable[[], Awaitable[Any]]) -> None:
            await each()
            group.cancel_scope.cancel()

        for each in waits:
            group.start_soon(wait, each, name="wait for what is learned")


class ChatSession:
    """One user and their assistant."""

    def __init__(self, user: UserSpec, *, as_json: bool) -> None:
        self._user, self._as_json = user, as_json

    async def line_by_line(self, blueprint: Blueprint) -> int:
        """Until there is nothing more to read; the exit of the last message."""
        keyboard, code = Keyboard(), int(Exit.DONE)
        # One receiver for all of it: where one ends, the interpreter's own handler would tear the event loop.
        with anyio.open_signal_receiver(signal.SIGINT, *polite_stops()) as signals:
            async with open_service(blueprint) as service:
                while isinstance(said := await self._next(keyboard, signals), str):
                    if said.strip():
                        code = await self._answered(service, said, signals)
                if said is None:
                    await _first_of(partial(_learned, service), partial(anext, signals))
        return code if said is None else said

    async def _next(self, keyboard: Keyboard, signals: Signals) -> str | Exit | None:
        """The next line; None at the end of the input, or when the user wants to leave."""
        leave: list[Exit] = []
        line: str | None = None

        async def mind() -> None:
            leave.append(Exit.INTERRUPTED if await anext(signals) is signal.SIGINT else Exit.STOPPED)
            group.cancel_scope.cancel("left")

        async with anyio.create_task_group() as group:
            group.start_soon(mind, name="mind signals")
            line = await keyboard.line(f"{self._user.id}> ")
            group.cancel_scope.cancel("a line came")
        return leave[0] if leave else line

    async def _answered(self, service: Dispatcher, text: str, signals: Signals) -> int:
        """A message that cannot be answered ends no conversation."""
        try:
            return report.exit_of(await self._launch(service, text).run_minding(signals, self._tell))
        except CommandError as error:
            if error.code in (Exit.INTERRUPTED, Exit.STOPPED):
                raise
            failure = explain(error)
        except Exception as error:
            self._excuse(error, text)
            failure = explain(error)
        tell(failure)
        return failure.code

    async def say(self, blueprint: Blueprint, text: str) -> int:
        """One message and its answer; the exit."""
        try:
            return report.exit_of(await self._launch(blueprint, text, _learned).run(self._tell))
        except Exception as error:
            self._excuse(error, text)
            raise

    def _excuse(self, error: Exception, text: str) -> None:
        """Tell a user whose message was not taken, in their language; the error itself is for the operator."""
        kind = error.kind if isinstance(error, Refusal) else ""
        if (sentence := refusal_phrase(kind, language_of(text, self._user.locale))) is not None:
            note(sentence)

    def _launch(self, at: Blueprint | Dispatcher, text: str, afterwards: Afterwards | None = None) -> LiveRun:
        said = text.strip()
        if not said:
            raise CommandError("the message is empty", 'say something: `outrider chat "…"`')
        if len(said) > LONGEST:
            raise CommandError(f"the message is longer than {LONGEST:,} characters", "shorten it")

        async def begin(service: Dispatcher) -> Snapshot:
            child, _ = await service.chat_queue.accept(Order("", said, user=self._user.id))
            return child

        return LiveRun(at, begin, tree_view(), afterwards)

    def _tell(self, ended: report.EndedRun) -> None:
        report.tell(ended, as_json=self._as_json, answer=spoken(ended.child, self._user.locale))
