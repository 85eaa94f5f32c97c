"""Extraction: after an answer, a separate execution reads the conversation and stores facts about the user.

Owns when that happens and which part of the conversation is read: the messages since the last extraction, within the window
an assistant sees. The user never waits for it: it starts after the answer is stored, uses its own slots, and its errors are
only logged. Invariant: each answer is extracted from at most once, across processes. `runner/users/extraction_tool.py`
checks that facts are in the words of the user.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import anyio
from pydantic_core import from_json

from db.clock import moment, stamp
from db.rows.reads import Record
from db.rows.users import USER
from db.status import ExecutionStatus
from registry import ChatMemorySpec
from runner.chat import ChatMessage
from runner.core.execution import Environment, Execution
from runner.core.spawn import DispatchInfo, RootInfo, SpawnRequest
from runner.core.views import is_gone
from runner.errors import RunnerError
from runner.messages import clean
from runner.prompt.user_parts import conversation
from runner.roles import EXTRACTOR
from runner.strategies.requests import top_level
from runner.text import HISTORY, windowed

log = logging.getLogger("outrider.learning")

TASK = "store what is worth remembering about the user"


class Extraction:
    """The extractions of one service; `start` runs an execution in the service's task group."""

    def __init__(self, environment: Environment, start: Callable[[Execution], None]) -> None:
        self._environment, self._start = environment, start
        self._busy: set[str] = set()
        """Roots that answer a user, and their extractions."""
        self._rested = anyio.Event()

    def expect(self, root: Execution) -> None:
        """Register a root about to run, if it works for a user."""
        if self._memory is not None and root.origin.user is not None:
            self._busy.add(root.id)

    async def live(self, root: Execution) -> None:
        """Run a root, then start an extraction if it answered a user."""
        try:
            await root.environment.live(root)
            memory, answered = self._memory, root.status is ExecutionStatus.COMPLETED
            if memory is not None and root.id in self._busy and answered and root.request.role != EXTRACTOR:
                await self._learn(root, memory)
        finally:
            self._busy.discard(root.id)
            if not self._busy:
                self._rested.set()

    async def quiet(self) -> None:
        """Wait until no extraction is pending or running."""
        while self._busy:
            if self._rested.is_set():
                self._rested = anyio.Event()
            await self._rested.wait()

    @property
    def _memory(self) -> ChatMemorySpec | None:
        chat = self._environment.services.settings.chat
        return chat.memory if chat is not None else None

    async def _learn(self, root: Execution, memory: ChatMemorySpec) -> None:
        services = self._environment.services
        if services.shutdown.stopping:
            return  # the next extraction covers this answer too
        try:
            request = await self._request(root, memory)
            if request is None:
                return
            services.model_for(request.agent)
            learner = Execution(self._environment, request, None)
            if await learner.enter():
                self._start(learner)
        except RunnerError as error:
            log.warning("no extraction from execution %s: %s", root.id, error)
        except Exception:  # the user already has the answer, so the service must keep running
            log.exception("no extraction from execution %s", root.id)

    async def _request(self, root: Execution, memory: ChatMemorySpec) -> SpawnRequest | None:
        """The request for an extraction, if the user wrote a message since the last one."""
        people, user = self._environment.services.database.reads.people, root.origin.user
        assert user is not None
        if not await people.was_said_to(root.id):
            return None
        now, since = datetime.now(UTC), await self._since(user.id, memory.extractor)
        said = await people.said(user.id, since, stamp(now), HISTORY.max_entries)
        rows = [row for row in said if row["created_at"] > since]
        kept = windowed(rows, HISTORY, _tokens, lambda row: now - moment(row["created_at"]))
        if not any(row["role"] == USER for row in kept):
            return None
        settings = self._environment.services.settings
        told: dict[str, Any] = {"answered_execution_id": root.id, "messages": [row["id"] for row in kept]}
        request = top_level(settings, memory.extractor, TASK, {**told, "until": kept[-1]["created_at"]})
        limits = request.limits.capped(memory.budget_usd) if memory.budget_usd is not None else request.limits
        shown = conversation([ChatMessage.of_row(row) for row in kept], user.zone)
        return replace(
            request,
            role=EXTRACTOR,
            prompt=clean(f"{TASK[0].upper()}{TASK[1:]}, from this part of their conversation.\n\n{shown}"),
            dispatch=DispatchInfo(key=f"memory:{root.id}"),
            limits=limits,
            root=RootInfo(root.origin),
        )

    async def _since(self, user: str, agent: str) -> str:
        """The time up to which a user's messages were extracted; an extraction of a dead process does not count."""
        for row in await self._environment.services.database.reads.people.extractions(user, agent):
            if not is_gone(row, self._environment.services.database.path):
                return str(from_json(row["input"])["until"])
        return ""


def _tokens(row: Record) -> int:
    return ChatMessage.of_row(row).tokens
