"""Users: the people agents work for, and their names; and the `chat` section.

Owns: the shape of both sections, their checks and specs. Must not know: the work for a user, or the facts about one.
Invariant: a loaded user has an existing time zone, and no name means two users.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from registry.text.entry import Budget, Entry, Line
from registry.text.errors import TreePath
from registry.text.findings import Findings
from registry.text.names import Directory, built_in, fold, nearest

DEFAULT_TIMEZONE = "UTC"
DEFAULT_LOCALE = "en"

_LOCALE = re.compile(
    r"(?P<language>[a-z]{2,3})(?:-(?P<script>[a-z]{4}))?(?:-(?P<region>[a-z]{2}|[0-9]{3}))?"
    r"(?P<extension>-u(?:-[a-z0-9]{2,8})+)?",
    re.IGNORECASE,
)
"""Of the extensions of a tag only `u` matters to agents: it sets the first day of the week."""


def _locale(value: str) -> str:
    match = _LOCALE.fullmatch(value)
    if match is None:
        raise PydanticCustomError(
            "locale",
            "a locale is a language, optionally with a script or a region",
            {"hint": "write `en-US`, `zh-Hant-TW`, `de`, or `he-IL-u-fw-mon` for weeks that begin on Monday"},
        )
    parts = (match["language"].lower(), (match["script"] or "").title(), (match["region"] or "").upper())
    return "-".join(part for part in parts if part) + (match["extension"] or "").lower()


class UserEntry(Entry):
    """One entry of `users` as written."""

    name: Line | None = Field(default=None, description="the name that agents use; absent: the id")
    timezone: Line = Field(default=DEFAULT_TIMEZONE, description="an IANA name, such as `Europe/Berlin`")
    locale: Annotated[Line, AfterValidator(_locale)] = Field(
        default=DEFAULT_LOCALE, description="such as `en-US` or `he-IL`; `he-IL-u-fw-mon`: weeks begin on Monday"
    )
    capabilities: tuple[Line, ...] = Field(default=(), description="capabilities that agents may use for the user")
    connections: tuple[Line, ...] = Field(default=(), description="accounts the user has connected, such as `google`")
    aliases: tuple[Line, ...] = Field(default=(), description="other names: phone numbers, addresses")


@dataclass(frozen=True, slots=True)
class UserSpec:
    """A user that agents work for."""

    id: str
    name: str
    timezone: str = DEFAULT_TIMEZONE
    locale: str = DEFAULT_LOCALE
    capabilities: tuple[str, ...] = ()
    connections: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


def user_spec(identifier: str, entry: UserEntry) -> UserSpec:
    """Return the spec of a checked entry."""
    return UserSpec(
        id=identifier,
        name=entry.name or identifier,
        timezone=entry.timezone,
        locale=entry.locale,
        capabilities=entry.capabilities,
        connections=entry.connections,
        aliases=entry.aliases,
    )


def check_users(findings: Findings, users: Mapping[str, UserEntry]) -> None:
    """Check that time zones exist, and that an alias means one user only."""
    owners = {fold(identifier): identifier for identifier in users}
    for identifier, user in users.items():
        _check_timezone(findings, ("users", identifier, "timezone"), user.timezone)
        for index, alias in enumerate(user.aliases):
            path = ("users", identifier, "aliases", index)
            owner = owners.setdefault(fold(alias), identifier)
            again = owner == identifier and any(fold(alias) == fold(each) for each in (identifier, *user.aliases[:index]))
            if (owner != identifier or again) and findings.sound(*path):
                message = f"`{findings.written(path, alias)}` already means `{owner}`"
                findings.add(path, message, "remove one of the two: an alias belongs to one user")


def _check_timezone(findings: Findings, path: TreePath, name: str) -> None:
    if _exists(name) or not findings.sound(*path):
        return
    written = findings.written(path, name)
    near = nearest(name, available_timezones()) if written == name else None
    hint = f"did you mean `{near}`?" if near else "write an IANA name, such as `Europe/Berlin` or `UTC`"
    findings.add(path, f"no time zone named `{written}`", hint)


def _exists(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError):  # a folder of zones, such as `Europe`, is no zone
        return False
    return True


EXTRACTOR = "MemoryExtractor"
"""The built-in agent that extracts facts about a user from a conversation."""

Extract = Literal["never", "after_answer"]


class ChatMemoryEntry(Entry):
    """`memory` of the `chat` section as written."""

    extract: Extract = Field(
        default="never", description="`after_answer`: facts are extracted from the conversation in the background"
    )
    model: Line | None = Field(default=None, description="a name from `models`, a cheap one; absent: `defaults.model`")
    max_facts: Annotated[int, Field(ge=1, le=20)] = Field(default=5, description="the most facts stored at once")
    budget_usd: Budget | None = Field(
        default=None, description="the most US dollars of one extraction; absent: only tokens are limited"
    )


class ChatEntry(Entry):
    """The `chat` section as written."""

    agent: Line = Field(description="the agent or chain that answers users' messages")
    memory: ChatMemoryEntry = Field(default=ChatMemoryEntry(), description="which facts are extracted from users' messages")


@dataclass(frozen=True, slots=True)
class ChatMemorySpec:
    """The extraction of facts from users' messages."""

    extractor: str
    """The agent that extracts facts."""
    max_facts: int
    budget_usd: float | None


@dataclass(frozen=True, slots=True)
class ChatSpec:
    """The agent or chain that answers users."""

    agent: str
    memory: ChatMemorySpec | None = None
    """None: no facts are extracted."""


def chat_spec(entry: ChatEntry, subjects: Directory) -> ChatSpec:
    """Return the spec of a checked section; `subjects` are agents and chains."""
    memory = None
    if entry.memory.extract == "after_answer":
        extractor = subjects.canonical(built_in(EXTRACTOR, subjects))
        memory = ChatMemorySpec(extractor, entry.memory.max_facts, entry.memory.budget_usd)
    return ChatSpec(subjects.canonical(entry.agent), memory)
