"""Profile: what an execution is told about its user besides its task: identity, memory and earlier conversation.

Loads these layers concurrently. A layer that cannot be loaded stays empty and the answer carries a warning: the user is
answered anyway. Must not know: who is shown which part.
Invariant: the profile is as of the moment the tree began, so a resumed tree sees the same conversation and clock.
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
from runner.users.users import Users

log = logging.getLogger("outrider.background")

Layer = TypeVar("Layer")

MATCHING = 20
"""The most facts that are matched to a task."""

LAYER_SECONDS = 5.0
"""A slower layer is left empty."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A user's identity, memory and conversation at the moment a tree began."""

    user: User
    facts: Sequence[Record]
    """The user's facts."""
    history: Sequence[ChatMessage]
    """The earlier conversation, oldest first."""
    now: datetime
    """That moment, in the user's time zone."""
    warnings: Sequence[str] = ()
    """The layers that could not be loaded."""


@dataclass(frozen=True, slots=True)
class ProfileQuery:
    """How much of a profile an execution is shown."""

    memory: MemoryShown = "full"
    history: Window | None = HISTORY
    task: str = ""
    """With `filtered` memory, the text that facts are matched to."""


@dataclass(frozen=True, slots=True)
class Layers:
    """The loader of each layer."""

    user: Callable[[User], Awaitable[User]]
    """The user as stored now; if it fails, the user as known when the tree began stays."""
    facts: Callable[[User], Awaitable[Sequence[Record]]]
    history: Callable[[User, datetime], Awaitable[Sequence[ChatMessage]]]
    """The conversation before a moment."""


def began(place: Place, user: User) -> datetime:
    """The start of a tree, in the user's time zone."""
    return made_at(place.root_execution_id).astimezone(user.zone)


async def load_profile(layers: Layers, user: User, place: Place, recorder: Recorder) -> Profile:
    """Load the profile of an execution's user. It never raises."""
    now, warnings = began(place, user), list[str]()
    people, remembered, said = [user], list[Record](), list[ChatMessage]()

    async def load_layer(name: str, load: Callable[[], Awaitable[Layer]], keep: Callable[[Layer], None]) -> None:
        try:
            with anyio.fail_after(LAYER_SECONDS):
                loaded = await load()
        except Exception as error:  # any failure: the user must still be answered
            log.warning("execution %s continues without the %s of its user: %r", place.id, name, error)
            warnings.append(f"the {name} of the user could not be loaded; this answer does not use it")
            recorder.record_nowait(facts.Noticed(place, "context.degraded", {"layer": name, "message": warnings[-1]}))
            return
        keep(loaded)

    async with anyio.create_task_group() as group:
        group.start_soon(load_layer, "profile", lambda: layers.user(user), people.append, name="load the user")
        group.start_soon(load_layer, "memory", lambda: layers.facts(user), remembered.extend, name="load the memory")
        group.start_soon(
            load_layer, "history", lambda: layers.history(user, now), said.extend, name="load the conversation"
        )
    known = people[-1]
    return Profile(known, remembered, said, now.astimezone(known.zone), warnings)


def layers_of(people: Users, reads: Reads, wanted: ProfileQuery) -> Layers:
    """The wanted layers, loaded from rows."""

    async def remembered(user: User) -> Sequence[Record]:
        if wanted.memory == "filtered":
            return await reads.facts.search(user.id, wanted.task, MATCHING)
        return await reads.facts.of(user.id) if wanted.memory == "full" else ()

    async def said(user: User, moment: datetime) -> Sequence[ChatMessage]:
        return await said_before(reads.people, user, moment, wanted.history) if wanted.history is not None else ()

    return Layers(people.today, remembered, said)


async def said_before(rows: UserReads, user: User, moment: datetime, window: Window = HISTORY) -> Sequence[ChatMessage]:
    """The messages of a user and their assistant before a moment, within the window, oldest first."""
    after = stamp(moment - window.max_age) if window.max_age is not None else ""
    said = [ChatMessage.of_row(row) for row in await rows.said(user.id, after, stamp(moment), window.max_entries)]
    return windowed(said, window, lambda each: each.tokens, lambda each: moment - each.at)
