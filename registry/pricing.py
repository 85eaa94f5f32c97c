"""Prices of models, and what a usage costs by them.

Owns: the price book entry and the arithmetic. Must not know: where a usage came from.
Invariant: a cost says how complete it is; tokens without a price are never counted as free in silence.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from registry.entry import Amount, Entry

Completeness = Literal["priced", "partly", "unpriced"]

_TOKENS_PER_PRICE = 1_000_000


class PriceEntry(Entry):
    """`price:` as written: US dollars per million tokens."""

    input: Amount | None = Field(default=None, description="US dollars per million input tokens")
    output: Amount | None = Field(default=None, description="US dollars per million output tokens")
    cache_read: Amount | None = Field(default=None, description="US dollars per million tokens read from the cache")
    cache_write: Amount | None = Field(default=None, description="US dollars per million tokens written to the cache")


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens of each kind; None where the price is not known."""

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one or more model calls."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """What tokens cost in US dollars, as far as prices are known."""

    usd: float
    completeness: Completeness


def cost_of(tokens: Tokens, price: Price | None) -> Cost:
    """Return the cost of the tokens at the price; only kinds that were used need one."""
    book = price if price is not None else Price()
    pairs = (
        (tokens.input, book.input),
        (tokens.output, book.output),
        (tokens.cache_read, book.cache_read),
        (tokens.cache_write, book.cache_write),
    )
    used = [(count, each) for count, each in pairs if count]
    known = [(count, each) for count, each in used if each is not None]
    usd = sum(count * each for count, each in known) / _TOKENS_PER_PRICE
    if len(known) == len(used) and (used or price is not None):
        return Cost(usd, "priced")
    return Cost(usd, "partly" if known else "unpriced")
