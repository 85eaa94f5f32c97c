"""What is known of people, to be read: all facts of one, or those that fit some words, best first.

Read models, as in `db/reads.py`, which runs them. Invariants: no words are ever a syntax error, and nobody's search finds a
fact of somebody else.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Executable, Select, column, func, literal_column, or_, select, table

from db.memory import folded
from db.tables import facts

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
