"""Work: what a strategy is given. Everything it may use, and nothing it could break the tree with."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from db.rows.executions import Place
from db.rows.reads import Record
from registry import AgentSpec, CatalogueEntry, ChainSpec, Limits, Settings
from runner.approvals.gate import Permission
from runner.core import facts
from runner.core.allowance import Allowance
from runner.core.ending import Dismissal
from runner.core.inbox import Inbox, Item
from runner.core.recorder import Recorder
from runner.core.shutdown import Draining
from runner.core.spawn import Spawn
from runner.llm.protocol import Model
from runner.messages import clean
from runner.origin import User
from runner.prompt.user_parts import Personal
from runner.result import Result
from runner.snapshot import Child
from runner.strategies.loop.toolset import Toolbox
from runner.text import inert, language_of
from runner.users.profile import began
from runner.work_items.board import Board

log = logging.getLogger("outrider.work")

UNSETTLED = "dates could not be reckoned; they were passed on in the words they were given in"


@dataclass(slots=True)
class Work:
    """One execution as its strategy sees it."""

    place: Place
    path: tuple[str, ...]
    """The agents from the top to itself."""
    delegation_path: tuple[str, ...]
    """The same with the commands that agents were sent for."""
    depth: int
    """How many agents sent one another down to here."""
    name: str
    subject: AgentSpec | ChainSpec
    task: str
    prompt: str
    input: Any
    role: str
    attempt: int
    limits: Limits
    allowance: Allowance
    inbox: Inbox
    ended: Mapping[str, Child]
    """Its children that are over, by id, also those whose end it has not read."""
    user: User | None
    session: str
    """The session its whole tree works in."""
    catalogue: Sequence[CatalogueEntry]
    roster: Sequence[CatalogueEntry]
    """Agents it is shown and cannot dispatch."""
    brief: str
    """The instructions of whoever it works for."""
    history: int | None
    """Messages of the conversation that its planner is shown."""
    settings: Settings
    recorder: Recorder
    draining: Draining
    toolbox: Toolbox | None
    model: Model | None
    function: Callable[[], Awaitable[Any]] | None
    """Calls the Python function that it is, if it is one."""
    spawn: Spawn
    admit: Callable[[str], CatalogueEntry]
    """The agent of a name, if this execution may start it now; raises Refusal."""
    release: Callable[[str, str, Result | None], None]
    """Lets a child begin that was held, with its first message, or end at once with a result that is known; raises Refusal
    when no answer of it can be paid."""
    dismiss: Callable[[str, Dismissal], None]
    """Says of a child that was held that it will never begin."""
    settle_children: Callable[..., Awaitable[None]]
    """Stop children: those that wait are cancelled, those that run wrap up (or are cancelled), and all are waited for."""
    children: Callable[[], Awaitable[Sequence[Child]]]
    """All its children, in order."""
    pass_on: Callable[[Item], Awaitable[None]]
    """Say to all children at work what was said to this execution."""
    personal: Callable[[], Awaitable[Personal]]
    """Loads what its prompt says of the user."""
    files: Callable[[Personal], Awaitable[str]]
    """Loads the files its prompt shows beside that."""
    server_instructions: Callable[[], Awaitable[Mapping[str, str]]]
    goes_on_elsewhere: Callable[[], bool]
    """Whether it is being stopped without an end, so that another process goes on with it."""
    permission: Callable[[], Permission]
    """Asks a person where a call needs one."""
    asked_before: Callable[[str], Awaitable[Record | None]]
    """The row of a call of its own, if it has one."""
    skills: Callable[[AgentSpec, Sequence[CatalogueEntry]], Awaitable[Sequence[Mapping[str, str]]]]
    """What somebody of its staff can do who may dispatch these agents: names and descriptions."""
    board: Callable[[], Board]
    """The board of work items, to read and to write on, as nobody has written on it yet in this attempt."""
    same_step: Callable[[str, str, float], Awaitable[Record | None]]
    """A step of an agent with the same first message that succeeded within so many seconds."""
    clear: Callable[[str], str] = str
    """Takes secrets out of what its model is told."""
    activity: str = "starting"
    asking: bool = False
    """Whether its model is being asked."""
    rehearsed: bool = False
    final: Result | None = None
    """What `finish` reported."""
    warnings: list[str] = field(default_factory=list)
    """What whoever reads the result should know about how it came about."""
    artifacts: list[Mapping[str, Any]] = field(default_factory=list)
    """The files it has written."""

    @property
    def locale(self) -> str:
        """The language an answer is given in: that of the task, as far as its letters tell, else the user's."""
        return language_of(self.task, self.user.locale if self.user is not None else "en")

    @property
    def quoted(self) -> str:
        """Its first message as it stands beside blocks: where it is the task alone, nothing in it is one."""
        return inert(self.task) if self.prompt == clean(self.task) else self.prompt

    def settle_dates(self, text: str) -> str:
        """A text in which no date is left that depends on the day it is read; without a user nobody knows the day. Where
        days cannot be reckoned it stays as it is, and that is told.
        """
        if self.user is None:
            return text
        from runner.dates.dates import settled

        try:
            return settled(text, began(self.place, self.user), self.user.locale)
        except Exception:  # whatever it is: the words are as good as what a user would say
            log.exception("execution %s goes on with dates as they were said", self.place.id)
            if UNSETTLED not in self.warnings:
                self.warnings.append(UNSETTLED)
                told = {"layer": "dates", "message": UNSETTLED}
                self.recorder.record_nowait(facts.Noticed(self.place, "context.degraded", told))
            return text

    async def pause(self) -> None:
        """Stay here if the service is stopping: the next process goes on."""
        if self.draining.parking:
            await anyio.sleep_forever()

    def now(self, activity: str) -> None:
        """Say what the execution does at the moment, in words."""
        self.activity = activity
        self.recorder.publish_unstored(self.place, "execution.progress", {"action": activity})
