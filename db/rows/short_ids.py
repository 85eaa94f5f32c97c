"""What an id that a person or a client gives may mean: the whole of it, its beginning, or its end.

Owns the one rule, for rows of every kind. Must not know: what the rows are.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import ColumnElement, and_, func

from db.ids import ALPHABET, LAST, LEAST_ENDING, PATTERN, RANDOM_DIGITS, TIME_DIGITS


def meanings(identifiers: ColumnElement[str], given: str) -> Iterator[ColumnElement[bool]]:
    """The conditions to try, the likelier first; of these, only the last needs a look at every row."""
    if not 0 < len(given) <= TIME_DIGITS + RANDOM_DIGITS or not set(given) <= set(ALPHABET):
        return
    if PATTERN.fullmatch(given):
        yield identifiers == given
        return
    yield and_(identifiers >= given, identifiers < given + LAST)
    if len(given) >= LEAST_ENDING:
        yield func.substr(identifiers, -len(given)) == given
