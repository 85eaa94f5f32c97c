"""StrategyContext: what a strategy is given. It may use all of it, and can break nothing in the tree with it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import anyio

from db.rows.executions import Place
from db.rows.reads import Record
from registry import AgentSpec, CatalogueEntry, ChainSpec, Limits, Settings
from runner.approvals.gate import ApprovalGate
from runner.core.allowance import Allowance
from runner.core.children import ExecutionSubtree
from runner.core.inbox import Inbox
from runner.core.shutdown import Shutdown
from runner.core.spawn import Briefing, SpawnRequest
from runner.core.strategy import State
from runner.core.tree import Node
from runner.llm.protocol import Model
from runner.messages import clean
from runner.origin import User
from runner.prompt.user_parts import UserParts
from runner.record import facts
from runner.record.recorder import Recorder
from runner.strategies.toolset import Toolbox
from runner.text import escape_blocks, language_of
from runner.users.profile import began
from runner.work_items.board import Board

log = logging.getLogger("outrider.strategies")

UNSETTLED = "dates were not resolved: they were passed on as written"


class PromptSources(Protocol):
    """Sources of those parts of a prompt that are not in the request."""

    async def personal(self) -> UserParts:
        """Load what the prompt says about the user."""
        ...

    async def files(self, beside: UserParts) -> str:
        """Load the files that the prompt shows, in the room that the user's part leaves."""
        ...

    async def server_instructions(self) -> Mapping[str, str]:
        """The instructions of its servers, by name."""
        ...

    def mask(self, text: str) -> str:
        """Replace secrets in a text."""
        ...


class Lookups(Protocol):
    """Queries and services of the surroundings that a strategy may use."""

    def gate(self) -> ApprovalGate:
        """Asks a person to approve a call where that is required."""
        ...

    async def tool_call(self, row: str) -> Record | None:
        """Find one of its own tool calls by row id."""
        ...

    def board(self) -> Board:
        """Open the board of work items; a fresh one for each attempt."""
        ...

    async def skills(self, worker: AgentSpec, catalogue: Sequence[CatalogueEntry]) -> Sequence[Mapping[str, str]]:
        """Names and descriptions of what a worker with this catalogue can do."""
        ...

    async def same_step(self, agent: str, prompt: str, seconds: float) -> Record | None:
        """Find a successful execution of an agent with the same first message within a number of seconds."""
        ...

    def resumes_elsewhere(self) -> bool:
        """Whether it is being stopped without a terminal status, so that another process resumes it."""
        ...


@dataclass(frozen=True, slots=True)
class StrategyContext:
    """An execution as its strategy sees it."""

    node: Node
    request: SpawnRequest
    state: State
    epoch: int
    """The fencing token of its writes."""
    allowance: Allowance
    inbox: Inbox
    children: ExecutionSubtree
    settings: Settings
    recorder: Recorder
    shutdown: Shutdown
    sources: PromptSources
    lookups: Lookups
    model: Model | None = None
    toolbox: Toolbox | None = None
    function: Callable[[], Awaitable[Any]] | None = None
    """Calls the Python function of a function agent."""

    @property
    def place(self) -> Place:
        """Its ids, as rows and events carry them."""
        return self.node.place

    @property
    def name(self) -> str:
        """Its display name."""
        return self.node.name

    @property
    def limits(self) -> Limits:
        return self.node.limits

    @property
    def user(self) -> User | None:
        return self.node.origin.user

    @property
    def session(self) -> str:
        """The session of its tree."""
        return self.node.origin.session or ""

    @property
    def subject(self) -> AgentSpec | ChainSpec:
        return self.request.agent

    @property
    def task(self) -> str:
        return self.request.task

    @property
    def role(self) -> str:
        return self.request.role

    @property
    def input(self) -> Any:
        return self.request.input

    @property
    def catalogue(self) -> Sequence[CatalogueEntry]:
        """The agents it may dispatch."""
        return self.request.catalogue

    @property
    def briefing(self) -> Briefing:
        """Instructions and history beside its task."""
        return self.request.briefing

    @property
    def history(self) -> int | None:
        """The number of conversation messages that its planner is shown."""
        return self.request.briefing.history

    @property
    def prompt(self) -> str:
        """Its first message."""
        return self.state.prompt

    @property
    def warnings(self) -> list[str]:
        """Warnings for the reader of its result."""
        return self.state.warnings

    @property
    def locale(self) -> str:
        """The language of its answer: detected from the script of the task, else the user's."""
        return language_of(self.task, self.user.locale if self.user is not None else "en")

    @property
    def quoted(self) -> str:
        """Its first message for use beside blocks; a message that is only the task is escaped."""
        return escape_blocks(self.task) if self.prompt == clean(self.task) else self.prompt

    def settle_dates(self, text: str) -> str:
        """Replace relative dates in a text by absolute ones. Without a user the current day is unknown; a text whose dates
        cannot be resolved stays as it is, with a warning.
        """
        if self.user is None:
            return text
        from runner.dates.dates import settled

        try:
            return settled(text, began(self.place, self.user), self.user.locale)
        except Exception:  # the text is still usable as the user wrote it
            log.exception("execution %s: dates were not resolved", self.place.id)
            if UNSETTLED not in self.warnings:
                self.warnings.append(UNSETTLED)
                told = {"layer": "dates", "message": UNSETTLED}
                self.recorder.record_nowait(facts.Noticed(self.place, "context.degraded", told))
            return text

    async def pause(self) -> None:
        """Block here while the service is stopping; the next process continues."""
        if self.shutdown.parking:
            await anyio.sleep_forever()

    def set_activity(self, activity: str) -> None:
        """Publish the current action."""
        self.state.activity = activity
        self.recorder.publish_unstored(self.place, "execution.progress", {"action": activity})
