"""What is remembered of people: facts enter, change and leave, and no person has the same one twice.

Owns what makes two facts the same, and the units that write them: each is fenced by its execution, and tells in an event
which fact it touched, never what it says. Does not know where a fact comes from or who may see it. Units are applied by
`db/store/writer.py`. Invariant: nobody's fact is changed or removed in the name of somebody else.
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
"""What writers of Hebrew and Arabic mostly leave out (points, accents, stretched lines), and marks of direction."""


def folded(text: str) -> str:
    """A text as it is compared and searched: without case, width, points, line breaks or punctuation around it."""
    heard = _UNHEARD.sub("", unicodedata.normalize("NFKC", text)).casefold()
    return " ".join(heard.split()).strip(" .,;:!")


class UserFact(NamedTuple):
    """A fact as a unit returns it; `known` if it was there before, and stays as it was."""

    known: int
    id: int
    category: str
    content: str


@dataclass(frozen=True, slots=True)
class Keeper:
    """In whose memory a unit writes, and which execution does it."""

    user: str
    place: Place
    attempt: int

    @property
    def fence(self) -> Statement:
        """Holds while the execution is this process's."""
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


def remember(keeper: Keeper, told: Sequence[tuple[str, str]]) -> Write:
    """Facts as category and content, each stored unless the person has it; touches the known ones, then the new ones."""
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


def amend(keeper: Keeper, fact: int, content: str, category: str | None) -> Write:
    """Let a fact say something else; refused unless it is the person's, and while another fact of theirs says that."""
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


def forget(keeper: Keeper, fact: int) -> Write:
    """Remove a fact; refused unless it is the person's."""
    parameters = {"fact": fact, "user": keeper.user}
    return Write([keeper.fence, Statement(_FORGET, parameters, guard=True, then=keeper.tell("memory.removed"))])


Row = Mapping[str, Any]

MOST_WORDS = 32
"""Of a search. A question has fewer, and each one costs."""
SHORTEST_BEGINNING = 3
"""Letters that a longer word must begin with to be found by them."""

_index = table("facts_text", column("rowid"), column("rank"))


def words_of(text: str) -> list[str]:
    """The different words of a text, as the index has them: letters, digits and the marks on them."""
    heard = "".join(letter if _belongs_to_word(letter) else " " for letter in folded(text))
    return list(dict.fromkeys(heard.split()))[:MOST_WORDS]


def _belongs_to_word(letter: str) -> bool:
    return letter.isalnum() or unicodedata.category(letter).startswith("M")


def _pattern(words: Sequence[str]) -> str:
    """Any of the words, in the index's own language; whole words count twice, once as the beginning of themselves."""
    quoted = [f'"{word}"' for word in words]  # a word has no quotation mark
    return " OR ".join([*quoted, *(f"{each}*" for each in quoted if len(each) - 2 >= SHORTEST_BEGINNING)])


def _within(words: Sequence[str]) -> list[str]:
    """The words that are worth finding inside of others: in Hebrew *in Jerusalem* is one word, in Chinese a sentence is."""
    return [word for word in words if len(word) >= (3 if word.isascii() else 2)]


def _of(user: str) -> Select[Any]:
    return select(facts).where(facts.c.user_id == user)


class Facts:
    """Queries over the memory of one database."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def of(self, user: str) -> list[Row]:
        """Everything known of a person, oldest first: what is new comes at the end, so that a prompt stays the same."""
        return await self._run(_of(user).order_by(facts.c.id))

    async def one(self, user: str, fact: int) -> Row | None:
        """A fact of a person, or None: also for somebody else's."""
        found = await self._run(_of(user).where(facts.c.id == fact))
        return found[0] if found else None

    async def saying(self, user: str, content: str) -> Row | None:
        """The fact of a person that says this already, or None."""
        found = await self._run(_of(user).where(facts.c.folded == folded(content)))
        return found[0] if found else None

    async def newest(self, user: str, limit: int) -> list[Row]:
        """What was learned or changed last."""
        return await self._run(_of(user).order_by(facts.c.updated_at.desc(), facts.c.id.desc()).limit(limit))

    async def search(self, user: str, words: str, limit: int) -> list[Row]:
        """Facts that have any of the words, best first; then those that have one inside of a longer word, newest first."""
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
