"""Background: what an execution may know of its user besides its task: who they are, what is remembered, what was said.

Owns loading it, in layers that do not wait for each other. A layer that cannot be had is empty, and the answer says so: a
user is answered all the same. Must not know: who is shown what of it.
Invariant: it is the background of the moment the tree began, so whoever resumes it sees the same conversation and clock.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import anyio

from db.clock import stamp
from db.ids import made_at
from db.rows.executions import Place
from db.rows.reads import Reads, Record
from db.rows.users import UserReads
from registry import MemoryShown
from runner.chat import ChatMessage
from runner.origin import User
from runner.record import facts
from runner.record.recorder import Recorder
from runner.text import HISTORY, Window, windowed
from runner.users.users import People

log = logging.getLogger("outrider.background")

Layer = TypeVar("Layer")

MATCHING = 20
"""Facts that match a task, at most."""

LAYER_SECONDS = 5.0
"""A layer that takes longer is done without."""


@dataclass(frozen=True, slots=True)
class Background:
    """What there is to know of a user at the moment a tree began."""

    user: User
    facts: Sequence[Record]
    """What is remembered."""
    history: Sequence[ChatMessage]
    """What was said before this, oldest first."""
    now: datetime
    """That moment, in the user's time zone."""
    warnings: Sequence[str] = ()
    """What could not be had."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much of it somebody is to see."""

    memory: MemoryShown = "full"
    history: Window | None = HISTORY
    task: str = ""
    """What facts are to be about, where only those that match are wanted."""


@dataclass(frozen=True, slots=True)
class Layers:
    """Where each layer of a background comes from."""

    user: Callable[[User], Awaitable[User]]
    """The user as known today; without it, as known when the tree began here."""
    facts: Callable[[User], Awaitable[Sequence[Record]]]
    history: Callable[[User, datetime], Awaitable[Sequence[ChatMessage]]]
    """What was said before a moment."""


def began(place: Place, user: User) -> datetime:
    """When a tree began, on its user's clock."""
    return made_at(place.root_execution_id).astimezone(user.zone)


async def load_background(layers: Layers, user: User, place: Place, recorder: Recorder) -> Background:
    """The background of an execution that works for a user. It never fails."""
    now, warnings = began(place, user), list[str]()
    people, remembered, said = [user], list[Record](), list[ChatMessage]()

    async def lay(name: str, load: Callable[[], Awaitable[Layer]], keep: Callable[[Layer], None]) -> None:
        try:
            with anyio.fail_after(LAYER_SECONDS):
                loaded = await load()
        except Exception as error:  # whatever it is: somebody waits for an answer
            log.warning("execution %s goes on without the %s of its user: %r", place.id, name, error)
            warnings.append(f"the {name} of the user could not be read; this was answered without it")
            recorder.record_nowait(facts.Noticed(place, "context.degraded", {"layer": name, "message": warnings[-1]}))
            return
        keep(loaded)

    async with anyio.create_task_group() as group:
        group.start_soon(lay, "profile", lambda: layers.user(user), people.append, name="load the user")
        group.start_soon(lay, "memory", lambda: layers.facts(user), remembered.extend, name="load what is remembered")
        group.start_soon(lay, "history", lambda: layers.history(user, now), said.extend, name="load what was said")
    known = people[-1]
    return Background(known, remembered, said, now.astimezone(known.zone), warnings)


def layers_of(people: People, reads: Reads, wanted: Wanted) -> Layers:
    """The layers as rows have them, as far as they are wanted."""

    async def remembered(user: User) -> Sequence[Record]:
        if wanted.memory == "filtered":
            return await reads.facts.search(user.id, wanted.task, MATCHING)
        return await reads.facts.of(user.id) if wanted.memory == "full" else ()

    async def said(user: User, moment: datetime) -> Sequence[ChatMessage]:
        return await said_before(reads.people, user, moment, wanted.history) if wanted.history is not None else ()

    return Layers(people.today, remembered, said)


async def said_before(rows: UserReads, user: User, moment: datetime, window: Window = HISTORY) -> Sequence[ChatMessage]:
    """What a user and their assistant said before a moment, as far as the window reaches, oldest first."""
    after = stamp(moment - window.max_age) if window.max_age is not None else ""
    said = [ChatMessage.of_row(row) for row in await rows.said(user.id, after, stamp(moment), window.max_entries)]
    return windowed(said, window, lambda each: each.tokens, lambda each: moment - each.at)
