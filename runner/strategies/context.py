"""StrategyContext: what a strategy is given. Everything it may use, and nothing it could break the tree with."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from db.rows.executions import Place
from db.rows.reads import Record
from registry import AgentSpec, CatalogueEntry, ChainSpec, Limits, Settings
from runner.approvals.gate import Permission
from runner.core.allowance import Allowance
from runner.core.children import ExecutionSubtree
from runner.core.inbox import Inbox
from runner.core.shutdown import Draining
from runner.core.spawn import Briefing, SpawnRequest
from runner.core.strategy import State
from runner.core.tree import Node
from runner.llm.protocol import Model
from runner.messages import clean
from runner.origin import User
from runner.prompt.user_parts import Personal
from runner.record import facts
from runner.record.recorder import Recorder
from runner.strategies.toolset import Toolbox
from runner.text import inert, language_of
from runner.users.profile import began
from runner.work_items.board import Board

log = logging.getLogger("outrider.strategies")

UNSETTLED = "dates could not be reckoned; they were passed on in the words they were given in"


@dataclass(frozen=True, slots=True)
class PromptSources:
    """Where a prompt gets its parts from that are not in the request."""

    personal: Callable[[], Awaitable[Personal]]
    """Loads what the prompt says of the user."""
    files: Callable[[Personal], Awaitable[str]]
    """Loads the files that the prompt shows beside that."""
    server_instructions: Callable[[], Awaitable[Mapping[str, str]]]
    mask: Callable[[str], str] = str
    """Takes secrets out of a text."""


@dataclass(frozen=True, slots=True)
class Lookups:
    """What a strategy may ask of its surroundings."""

    gate: Callable[[], Permission]
    """Asks a person where a call needs an approval."""
    tool_call: Callable[[str], Awaitable[Record | None]]
    """The row of a call of its own, if it has one."""
    board: Callable[[], Board]
    """The board of work items, to read and to write on; fresh for each attempt."""
    skills: Callable[[AgentSpec, Sequence[CatalogueEntry]], Awaitable[Sequence[Mapping[str, str]]]]
    """What a worker can do that may dispatch these agents: names and descriptions."""
    same_step: Callable[[str, str, float], Awaitable[Record | None]]
    """A step of an agent with the same first message that succeeded within so many seconds."""
    resumes_elsewhere: Callable[[], bool]
    """Whether it is being stopped without an end, so that another process resumes it."""


@dataclass(frozen=True, slots=True)
class Work:
    """One execution as its strategy sees it."""

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
    draining: Draining
    sources: PromptSources
    lookups: Lookups
    model: Model | None = None
    toolbox: Toolbox | None = None
    function: Callable[[], Awaitable[Any]] | None = None
    """Calls the Python function that it is, if it is one."""

    @property
    def place(self) -> Place:
        """Its ids, as every row and event has them."""
        return self.node.place

    @property
    def name(self) -> str:
        """The name it is shown by."""
        return self.node.name

    @property
    def limits(self) -> Limits:
        """Its limits."""
        return self.node.limits

    @property
    def user(self) -> User | None:
        """The user it works for."""
        return self.node.origin.user

    @property
    def session(self) -> str:
        """The session its whole tree works in."""
        return self.node.origin.session or ""

    @property
    def subject(self) -> AgentSpec | ChainSpec:
        """The agent or chain it is."""
        return self.request.agent

    @property
    def task(self) -> str:
        """Its task."""
        return self.request.task

    @property
    def role(self) -> str:
        """Its role in its tree."""
        return self.request.role

    @property
    def input(self) -> Any:
        """Its input."""
        return self.request.input

    @property
    def catalogue(self) -> Sequence[CatalogueEntry]:
        """The agents it may dispatch."""
        return self.request.catalogue

    @property
    def briefing(self) -> Briefing:
        """What it is shown beside its task."""
        return self.request.briefing

    @property
    def history(self) -> int | None:
        """Messages of the conversation that its planner is shown."""
        return self.request.briefing.history

    @property
    def prompt(self) -> str:
        """Its first user message."""
        return self.state.prompt

    @property
    def warnings(self) -> list[str]:
        """What the reader of its result should know."""
        return self.state.warnings

    @property
    def locale(self) -> str:
        """The language of its answer: that of the task, as far as its letters tell, else the user's."""
        return language_of(self.task, self.user.locale if self.user is not None else "en")

    @property
    def quoted(self) -> str:
        """Its first message as it stands beside blocks: a message that is the task alone is escaped."""
        return inert(self.task) if self.prompt == clean(self.task) else self.prompt

    def settle_dates(self, text: str) -> str:
        """The text without dates that depend on the day it is read. Without a user the day is unknown; where a date cannot
        be resolved the text stays as it is, with a warning.
        """
        if self.user is None:
            return text
        from runner.dates.dates import settled

        try:
            return settled(text, began(self.place, self.user), self.user.locale)
        except Exception:  # the words are as good as what a user would say
            log.exception("execution %s goes on with dates as they were written", self.place.id)
            if UNSETTLED not in self.warnings:
                self.warnings.append(UNSETTLED)
                told = {"layer": "dates", "message": UNSETTLED}
                self.recorder.record_nowait(facts.Noticed(self.place, "context.degraded", told))
            return text

    async def pause(self) -> None:
        """Stay here if the service is stopping: the next process goes on."""
        if self.draining.parking:
            await anyio.sleep_forever()

    def set_activity(self, activity: str) -> None:
        """Tell the current action, in words."""
        self.state.activity = activity
        self.recorder.publish_unstored(self.place, "execution.progress", {"action": activity})
