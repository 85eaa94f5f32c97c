"""Prices of models, and the cost of a usage.

Owns: the `price` entry and the arithmetic. Must not know: where a usage comes from.
Invariant: a cost says how complete it is; tokens without a price never count as free without notice.
"""

from dataclasses import dataclass, replace
from typing import Literal

from pydantic import Field

from registry.text.entry import Amount, Count, Entry

Completeness = Literal["priced", "partly", "unpriced"]
CacheWrites = Literal["5m", "1h", "off"]
"""How long the prompt of a call is cached, if at all."""

_TOKENS_PER_PRICE = 1_000_000


class RateEntry(Entry):
    """Rates as written: US dollars per million tokens."""

    input: Amount | None = Field(default=None, description="US dollars per million input tokens")
    output: Amount | None = Field(default=None, description="US dollars per million output tokens")
    cache_read: Amount | None = Field(default=None, description="US dollars per million tokens read from the cache")
    cache_write: Amount | None = Field(default=None, description="US dollars per million tokens cached for 5 minutes")
    cache_write_1h: Amount | None = Field(default=None, description="US dollars per million tokens cached for an hour")


class TierEntry(RateEntry):
    """`price.above`: the rates of a call whose prompt is longer than `tokens`; absent rates are unknown."""

    tokens: Count = Field(description="the longest prompt, in tokens with cached ones, at the lower rates")


class PriceEntry(RateEntry):
    """`price:` as written."""

    above: TierEntry | None = Field(default=None, description="other rates for a call with a long prompt")


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens of each kind; None if unknown."""

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    above_tokens: int | None = None
    above: "Price | None" = None
    """The price of all tokens of a call whose prompt is longer than `above_tokens`."""

    def of_call(self, tokens: "Tokens") -> "Price":
        """Return the price of a call, by the length of its prompt."""
        if self.above is None or self.above_tokens is None or tokens.prompt <= self.above_tokens:
            return self
        return self.above

    def at_worst(self, prompt: int, writes: CacheWrites) -> "Rates":
        """Return the highest cost of a token in a call with a prompt of this length; kinds without a price count 0."""
        book = self.of_call(Tokens(input=prompt))
        written = {"5m": book.cache_write, "1h": book.cache_write_1h, "off": None}[writes]
        read = max(each or 0.0 for each in (book.input, book.cache_read, written))
        return Rates(read / _TOKENS_PER_PRICE, (book.output or 0.0) / _TOKENS_PER_PRICE)

    def unknown(self, writes: CacheWrites) -> tuple[str, ...]:
        """Return the kinds of tokens a call may use that have no price."""
        cached = {"5m": ("cache_read", "cache_write"), "1h": ("cache_read", "cache_write_1h"), "off": ()}[writes]
        return tuple(kind for kind in ("input", "output", *cached) if getattr(self, kind) is None)


@dataclass(frozen=True, slots=True)
class Rates:
    """US dollars for one token of a prompt and for one of an answer."""

    prompt: float = 0.0
    answer: float = 0.0


def price_of(entry: PriceEntry | None) -> Price | None:
    """Return the price of a checked entry."""
    if entry is None:
        return None
    plain = Price(**entry.model_dump(exclude={"above"}))
    if entry.above is None:
        return plain
    above = Price(**entry.above.model_dump(exclude={"tokens"}))
    return replace(plain, above_tokens=entry.above.tokens, above=above)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one model call, each counted once."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0

    @property
    def prompt(self) -> int:
        """All tokens that the model read."""
        return self.input + self.cache_read + self.cache_write + self.cache_write_1h

    @property
    def total(self) -> int:
        """All tokens that the model read and wrote."""
        return self.prompt + self.output


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of tokens in US dollars, as far as prices are known."""

    usd: float
    completeness: Completeness


def cost_of(tokens: Tokens, price: Price | None) -> Cost:
    """Return the cost of a call; only the kinds of tokens that it used need a price."""
    book = price.of_call(tokens) if price is not None else Price()
    pairs = (
        (tokens.input, book.input),
        (tokens.output, book.output),
        (tokens.cache_read, book.cache_read),
        (tokens.cache_write, book.cache_write),
        (tokens.cache_write_1h, book.cache_write_1h),
    )
    used = [(count, each) for count, each in pairs if count]
    known = [(count, each) for count, each in used if each is not None]
    usd = sum(count * each for count, each in known) / _TOKENS_PER_PRICE
    if len(known) == len(used) and (used or price is not None):
        return Cost(usd, "priced")
    return Cost(usd, "partly" if known else "unpriced")
