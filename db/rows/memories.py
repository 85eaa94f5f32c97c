"""Facts about users: added, changed and removed; no user has the same fact twice.

Owns the comparison of facts and the units that write them. Each unit is fenced by its execution; its event names the fact,
never its content. Does not know where a fact comes from or which agent may read it. Units are applied by
`db/store/writer.py`. Invariant: a unit changes or removes facts of its own user only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    Executable,
    Select,
    bindparam,
    column,
    delete,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
    table,
    update,
)
from sqlalchemy.dialects.sqlite import insert

from db.clock import stamp
from db.rows.executions import Place, event
from db.rows.transcript import fenced
from db.store.unit import Added, Statement, Write
from db.tables import events, facts

_UNHEARD = re.compile(
    r"[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u0652"
    r"\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""Marks that Hebrew and Arabic writers mostly leave out (points, accents, stretched lines), and marks of direction."""


def folded(text: str) -> str:
    """A text normalised for comparison and search: without case, width, points, line breaks or surrounding punctuation."""
    heard = _UNHEARD.sub("", unicodedata.normalize("NFKC", text)).casefold()
    return " ".join(heard.split()).strip(" .,;:!")


class UserFact(NamedTuple):
    """A fact that a unit returns; `known` if it existed before and is unchanged."""

    known: int
    id: int
    category: str
    content: str


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """The user whose facts a unit writes, and the execution that writes."""

    user: str
    place: Place
    attempt: int

    @property
    def fence(self) -> Statement:
        """The guard that this process still owns the execution."""
        return fenced(self.place.id, self.attempt)

    def tell(self, kind: str) -> Callable[[Sequence[Any]], Iterable[Added]]:
        """The events of the facts that a statement touched."""
        return lambda rows: [
            Added(events, event(self.place, kind, {"fact": row.id, "category": row.category})) for row in rows
        ]


_SHOWN = (facts.c.id, facts.c.category, facts.c.content)
_NEW, _KNOWN = literal(0).label("known"), literal(1).label("known")

_SAME = select(_KNOWN, *_SHOWN).where(
    facts.c.user_id == bindparam("user"), facts.c.folded.in_(bindparam("texts", expanding=True))
)
_REMEMBER = insert(facts).on_conflict_do_nothing(index_elements=["user_id", "folded"]).returning(_NEW, *_SHOWN)


def remember(keeper: MemoryScope, told: Sequence[tuple[str, str]]) -> Write:
    """Store facts (category, content) that the user does not have; touches the known ones, then the new ones."""
    at = stamp()
    new: dict[str, tuple[str, str]] = {}
    for category, content in told:
        new.setdefault(folded(content), (category, content))
    rows = [
        {
            "user_id": keeper.user,
            "category": category,
            "content": content,
            "folded": key,
            "created_at": at,
            "updated_at": at,
            "source_execution_id": keeper.place.id,
        }
        for key, (category, content) in new.items()
    ]
    known = Statement(_SAME, {"user": keeper.user, "texts": list(new)}, looks_around=True)
    return Write([keeper.fence, known, *(Statement(_REMEMBER, row, then=keeper.tell("memory.stored")) for row in rows)])


_MINE = (facts.c.id == bindparam("fact"), facts.c.user_id == bindparam("user"))
_another = facts.alias("another")
_AMEND = (
    update(facts)
    .where(
        *_MINE,
        ~exists().where(
            _another.c.user_id == bindparam("user"),
            _another.c.folded == bindparam("key"),
            _another.c.id != bindparam("fact"),
        ),
    )
    .values(
        category=func.coalesce(bindparam("kind"), facts.c.category),
        content=bindparam("says"),
        folded=bindparam("key"),
        updated_at=bindparam("at"),
        source_execution_id=bindparam("source"),
    )
    .returning(_NEW, *_SHOWN)
)


def amend(keeper: MemoryScope, fact: int, content: str, category: str | None) -> Write:
    """Change a fact; refused unless it belongs to the user, and while another fact of the user says the same."""
    parameters = {
        "fact": fact,
        "user": keeper.user,
        "says": content,
        "key": folded(content),
        "kind": category,
        "at": stamp(),
        "source": keeper.place.id,
    }
    change = Statement(_AMEND, parameters, guard=True, looks_around=True, then=keeper.tell("memory.updated"))
    return Write([keeper.fence, change])


_FORGET = delete(facts).where(*_MINE).returning(_NEW, *_SHOWN)


def forget(keeper: MemoryScope, fact: int) -> Write:
    """Remove a fact; refused unless it belongs to the user."""
    parameters = {"fact": fact, "user": keeper.user}
    return Write([keeper.fence, Statement(_FORGET, parameters, guard=True, then=keeper.tell("memory.removed"))])


Row = Mapping[str, Any]

MOST_WORDS = 32
"""The most words of a search: a question has fewer, and each one costs."""
SHORTEST_BEGINNING = 3
"""The shortest prefix that finds a longer word."""

_index = table("facts_text", column("rowid"), column("rank"))


def words_of(text: str) -> list[str]:
    """The distinct words of a text, as the index splits them: letters, digits and their marks."""
    heard = "".join(letter if _belongs_to_word(letter) else " " for letter in folded(text))
    return list(dict.fromkeys(heard.split()))[:MOST_WORDS]


def _belongs_to_word(letter: str) -> bool:
    return letter.isalnum() or unicodedata.category(letter).startswith("M")


def _pattern(words: Sequence[str]) -> str:
    """A full-text query for any of the words; whole words count twice, once as their own prefix."""
    quoted = [f'"{word}"' for word in words]  # a word contains no quotation mark
    return " OR ".join([*quoted, *(f"{each}*" for each in quoted if len(each) - 2 >= SHORTEST_BEGINNING)])


def _within(words: Sequence[str]) -> list[str]:
    """The words to find inside of others: in Hebrew *in Jerusalem* is one word, in Chinese a whole sentence is."""
    return [word for word in words if len(word) >= (3 if word.isascii() else 2)]


def _of(user: str) -> Select[Any]:
    return select(facts).where(facts.c.user_id == user)


class Facts:
    """Queries over the facts of one database."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def of(self, user: str) -> list[Row]:
        """All facts about a user, oldest first: new ones come last, so that a cached prompt stays valid."""
        return await self._run(_of(user).order_by(facts.c.id))

    async def one(self, user: str, fact: int) -> Row | None:
        """A fact of a user, or None; also None for another user's fact."""
        found = await self._run(_of(user).where(facts.c.id == fact))
        return found[0] if found else None

    async def saying(self, user: str, content: str) -> Row | None:
        """The user's fact with this content, or None."""
        found = await self._run(_of(user).where(facts.c.folded == folded(content)))
        return found[0] if found else None

    async def newest(self, user: str, limit: int) -> list[Row]:
        """The facts that were added or changed last."""
        return await self._run(_of(user).order_by(facts.c.updated_at.desc(), facts.c.id.desc()).limit(limit))

    async def search(self, user: str, words: str, limit: int) -> list[Row]:
        """Facts with any of the words, best first; then facts with one inside of a longer word, newest first."""
        wanted = words_of(words)
        if not wanted:
            return []
        matches = literal_column("facts_text").op("MATCH")(_pattern(wanted))
        ranked = _of(user).join(_index, _index.c.rowid == facts.c.id).where(matches)
        found = await self._run(ranked.order_by(_index.c.rank, facts.c.id.desc()).limit(limit))
        inside = [func.instr(facts.c.folded, word) > 0 for word in _within(wanted)]
        if len(found) < limit and inside:
            others = _of(user).where(or_(*inside), facts.c.id.not_in([row["id"] for row in found]))
            found += await self._run(others.order_by(facts.c.id.desc()).limit(limit - len(found)))
        return found
