"""Reception: takes what users say and has it answered, one message of a user at a time, in order.

Owns the queue in front of the assistant. A message is stored with the execution that answers it, and the answer with its
end, so nothing here has to survive a crash: what a process that is gone was answering goes on here before anything new of
the same user. Across processes rows decide whose turn it is, inside one a lock keeps the order.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from db.errors import UnknownExecution
from db.store.writer import INTERVAL
from registry import Settings
from runner.errors import Refusal
from runner.resume.readiness import Unready
from runner.service.order import Order
from runner.snapshot import Child
from runner.users.users import People

log = logging.getLogger("outrider.reception")

PATIENCE_SECONDS = 60.0
"""How long a message waits for those before it."""
AGAIN = "send it again when the last one is answered"


class Starting(Protocol):
    """What the queue needs of the dispatcher."""

    async def start_once(self, order: Order) -> tuple[Child, bool]: ...

    async def wait(self, execution: str) -> Child: ...

    async def resume(self, execution: str) -> Child: ...


class Reception:
    """The queue of one service."""

    def __init__(self, settings: Settings, people: People, dispatcher: Starting, group: TaskGroup) -> None:
        self._settings, self._people, self._dispatcher, self._group = settings, people, dispatcher, group
        self._turns: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)
        """By user: whoever comes first is answered first."""

    @property
    def assistant(self) -> str:
        """The agent or chain that answers users; raises Refusal where none is configured."""
        chat = self._settings.chat
        if chat is None:
            hint = "name one in the configuration: `chat: {agent: NAME}`"
            raise Refusal("no_assistant", "no agent answers users", hint)
        return chat.agent

    async def accept(self, message: Order, patience: float = PATIENCE_SECONDS) -> tuple[Child, bool]:
        """Take what a user says: `task`, by `user`. It is stored, and being answered, when this returns.

        While another message of the same user is being answered it waits. True when its key was used before: then nothing
        is said twice. Raises Refusal, `busy` when the others took too long, and NoModel.
        """
        user = self._people.identify(message.user or "")
        order = replace(message, name=self.assistant, chat=True)
        deadline = anyio.current_time() + patience
        turn = self._turns[user]
        if not await _acquired(turn, deadline):
            raise Refusal("busy", f"earlier messages of `{user}` are still waiting", AGAIN)
        try:
            return await self._answer(order, deadline)
        finally:
            turn.release()

    async def _answer(self, order: Order, deadline: float) -> tuple[Child, bool]:
        """Start it, as soon as no other message of its user is being answered, in whichever process."""
        while True:
            try:
                return await self._dispatcher.start_once(order)
            except Refusal as refusal:
                if refusal.kind != "busy":
                    raise
                with anyio.CancelScope(deadline=deadline) as waiting:
                    await self._until_answered(refusal.context["execution_id"])
                if waiting.cancelled_caught:
                    raise

    async def _until_answered(self, execution: str) -> None:
        """Wait for the end of an execution; where its process is gone, it goes on here."""
        while await self._is_open(execution):
            tried = _Try()
            self._group.start_soon(self._go_on, execution, tried, name=f"go on with {execution}")
            await tried.done.wait()
            if tried.unready is not None:
                hint = f"{tried.unready.hint}, or cancel execution {execution}"
                raise Refusal("unavailable", f"the last message was not answered: {tried.unready}", hint)

    async def _is_open(self, execution: str) -> bool:
        try:
            return not (await self._dispatcher.wait(execution)).ended
        except UnknownExecution:  # deleted since
            return False

    async def _go_on(self, execution: str, tried: _Try) -> None:
        """In the service's own group: what was taken over must get its task, whether or not anybody still waits for it."""
        try:
            await self._dispatcher.resume(execution)
        except Unready as error:
            tried.unready = error
        except Exception as error:  # somebody else was quicker, or cannot be had at the moment: whoever waits looks again
            log.info("execution %s does not go on here: %s", execution, error)
            await anyio.sleep(INTERVAL)
        finally:
            tried.done.set()


@dataclass(slots=True)
class _Try:
    """An attempt to go on with what a process that is gone was answering."""

    done: anyio.Event = field(default_factory=anyio.Event)
    unready: Unready | None = None
    """Why it cannot go on in this process, and nothing new of the same user can begin."""


async def _acquired(turn: anyio.Lock, deadline: float) -> bool:
    """Whether it is one's turn in time; one that nobody holds is had at once, also by whoever cannot wait."""
    try:
        turn.acquire_nowait()
    except anyio.WouldBlock:
        with anyio.CancelScope(deadline=deadline) as waiting:
            await turn.acquire()
        return not waiting.cancelled_caught
    return True
