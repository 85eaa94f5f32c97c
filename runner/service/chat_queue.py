"""Chat queue: accepts messages of users and has them answered, one message per user at a time, in order.

Owns the queue in front of the assistant. A message is stored with the execution that answers it, and the answer with the
end, so the queue itself need not survive a crash: an answer that a dead process left open is resumed here before the next
message of that user starts. Rows keep the order across processes, a lock keeps it within one.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from db.clock import loop_time
from db.errors import UnknownExecution
from db.store.writer import INTERVAL
from registry import Settings
from runner.errors import Refusal
from runner.resume.readiness import Unready
from runner.service.order import Order
from runner.snapshot import Snapshot
from runner.users.users import Users

log = logging.getLogger("outrider.reception")

PATIENCE_SECONDS = 60.0
"""How long a message waits for earlier ones."""
AGAIN = "send it again when the last one is answered"


class Starting(Protocol):
    """What the queue needs of the dispatcher."""

    async def start_once(self, order: Order) -> tuple[Snapshot, bool]: ...

    async def wait(self, execution: str) -> Snapshot: ...

    async def resume(self, execution: str) -> Snapshot: ...


class ChatQueue:
    """The queue of one service."""

    def __init__(self, settings: Settings, people: Users, dispatcher: Starting, group: TaskGroup) -> None:
        self._settings, self._people, self._dispatcher, self._group = settings, people, dispatcher, group
        self._turns: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)
        """By user; first in, first out."""

    @property
    def assistant(self) -> str:
        """The agent or chain that answers users; raises Refusal if none is configured."""
        chat = self._settings.chat
        if chat is None:
            hint = "name one in the configuration: `chat: {agent: NAME}`"
            raise Refusal("no_assistant", "no agent answers users", hint)
        return chat.agent

    async def accept(self, message: Order, patience: float = PATIENCE_SECONDS) -> tuple[Snapshot, bool]:
        """Accept a message (`task`) of a `user`. When this returns, it is stored and its execution has started.

        It waits while another message of the same user is being answered. True when its key was used before: then the
        message is not stored again. Raises Refusal (`busy` when the wait timed out) and NoModel.
        """
        user = self._people.identify(message.user or "")
        order = replace(message, name=self.assistant, chat=True)
        deadline = loop_time() + patience
        turn = self._turns[user]
        if not await _acquired(turn, deadline):
            raise Refusal("busy", f"earlier messages of `{user}` are still waiting", AGAIN)
        try:
            return await self._answer(order, deadline)
        finally:
            turn.release()

    async def _answer(self, order: Order, deadline: float) -> tuple[Snapshot, bool]:
        """Start it once no other message of its user is being answered, in any process."""
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
        """Wait for the end of an execution; resume it here if its process is dead."""
        while await self._is_open(execution):
            tried = _Try()
            self._group.start_soon(self._go_on, execution, tried, name=f"resume {execution}")
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
        """Resume in the service's task group: an adopted execution must get its task even if its waiter is cancelled."""
        try:
            await self._dispatcher.resume(execution)
        except Unready as error:
            tried.unready = error
        except Exception as error:  # another process was faster, or the resume failed for now: the waiter checks again
            log.info("execution %s is not resumed here: %s", execution, error)
            await anyio.sleep(INTERVAL)
        finally:
            tried.done.set()


@dataclass(slots=True)
class _Try:
    """An attempt to resume the answer of a dead process."""

    done: anyio.Event = field(default_factory=anyio.Event)
    unready: Unready | None = None
    """Why it cannot be resumed here, which also blocks the next message of the same user."""


async def _acquired(turn: anyio.Lock, deadline: float) -> bool:
    """Acquire the lock before the deadline; a free lock is taken even if the deadline has passed."""
    try:
        turn.acquire_nowait()
    except anyio.WouldBlock:
        with anyio.CancelScope(deadline=deadline) as waiting:
            await turn.acquire()
        return not waiting.cancelled_caught
    return True
