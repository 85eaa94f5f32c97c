"""Models: an LLM, its endpoint, its price and its rehearsal.

Owns: the shape of a `models` entry and ModelSpec. Must not know: how a model is called.
Invariant: a key is known only by the name of its environment variable, never by its value.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from registry.specs.pricing import CacheWrites, Price, PriceEntry, price_of
from registry.text.durations import Seconds, SecondsOrZero
from registry.text.entry import Count, Entry, Flag, Line
from registry.text.names import Directories
from registry.text.variables import referenced

DEFAULT_KEY_VARIABLE = "ANTHROPIC_API_KEY"
DEFAULT_MAX_TOKENS = 8192
DEFAULT_CONTEXT_WINDOW = 200_000

Provider = Literal["anthropic"]
CacheLifetime = Literal["auto", "5m", "1h", "off"]
"""How long a prompt stays cached; `auto` is an hour for agents that wait for children, and five minutes for the rest."""


@dataclass(frozen=True, slots=True)
class StreamTimeouts:
    """The timeouts of one attempt: of silence, and of the whole reply. The defaults here are built in."""

    first_token: float = 120.0
    stall: float = 60.0
    total: float = 240.0


@dataclass(frozen=True, slots=True)
class Retry:
    """How a failed model call is retried. The defaults here are built in."""

    seconds: float = 60.0
    """From the first failure to the last attempt; 0: no retry."""
    first_wait: float = 0.5
    longest_wait: float = 15.0


def web_address(value: str) -> str:
    """Return the value if it is an http or https address."""
    if not value.startswith(("http://", "https://")) or not value.partition("://")[2].strip("/"):
        raise PydanticCustomError("address", "an `http://` or `https://` address is expected")
    return value


def _reference(value: str) -> str:
    if referenced(value) is None:
        raise PydanticCustomError(
            "key",
            "a key is given by the name of an environment variable, never by its value",
            {"hint": f"write `api_key: ${{{DEFAULT_KEY_VARIABLE}}}` and set that variable"},
        )
    return value


_BUILT_IN = StreamTimeouts()


class TimeoutsEntry(Entry):
    """`timeouts:` of a model as written."""

    first_token: Seconds = Field(default=_BUILT_IN.first_token, description="until a reply begins")
    stall: Seconds = Field(default=_BUILT_IN.stall, description="silence in the middle of a reply")
    total: Seconds = Field(default=_BUILT_IN.total, description="for one whole reply")


class RetryEntry(Entry):
    """`retry:` of a model, or of all models, as written. Absent values come from `defaults.retry`."""

    for_: SecondsOrZero | None = Field(
        default=None,
        alias="for",
        description="how long failed calls are retried, from the first failure; `0s`: never; built in: `60s`",
    )
    first_wait: Seconds | None = Field(
        default=None, description="longest wait before the second attempt; doubles with each attempt; built in: `500ms`"
    )
    longest_wait: Seconds | None = Field(default=None, description="longest wait between two attempts; built in: `15s`")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.first_wait is not None and self.longest_wait is not None and self.first_wait > self.longest_wait:
            raise PydanticCustomError(
                "waits",
                "`first_wait` is longer than `longest_wait`",
                {"at": "first_wait", "about": ("longest_wait",), "hint": "lower `first_wait` or raise `longest_wait`"},
            )
        return self


def retry_of(*entries: RetryEntry | None) -> Retry:
    """Return how calls of a model are retried: each setting from the first entry that has it, else built in."""
    said = [entry for entry in entries if entry is not None]

    def decided(settings: Iterable[float | None], built_in: float) -> float:
        return next((each for each in settings if each is not None), built_in)

    built_in = Retry()
    longest = decided((each.longest_wait for each in said), built_in.longest_wait)
    return Retry(
        seconds=decided((each.for_ for each in said), built_in.seconds),
        first_wait=min(longest, decided((each.first_wait for each in said), built_in.first_wait)),
        longest_wait=longest,
    )


class ModelEntry(Entry):
    """One entry of `models` as written."""

    model: Line = Field(description="the model's id at the provider")
    provider: Provider = Field(default="anthropic", description="the API of the model")
    base_url: Annotated[Line, AfterValidator(web_address)] | None = Field(default=None, description="another endpoint")
    api_key: Annotated[Line, AfterValidator(_reference)] | None = Field(
        default=None, description="`${NAME}` of the variable with the key; read at each use"
    )
    max_tokens: Count = Field(default=DEFAULT_MAX_TOKENS, description="the most tokens of one reply")
    context_window: Count = Field(
        default=DEFAULT_CONTEXT_WINDOW, description="the most tokens of a conversation and its next reply together"
    )
    thinking: Flag = Field(default=False, description="let the model think before it answers")
    accepts_temperature: Flag = Field(
        default=False, description="whether it accepts a temperature: plans and judgements then use 0"
    )
    timeouts: TimeoutsEntry = Field(default=TimeoutsEntry(), description="how long one attempt may take")
    retry: RetryEntry | None = Field(default=None, description="how a failed call is retried")
    cache: CacheLifetime = Field(default="auto", description="how long the provider caches prompts")
    fallback: tuple[Line, ...] = Field(default=(), description="models called in order when this one fails")
    price: PriceEntry | None = Field(default=None, description="US dollars per million tokens")
    rehearsal: Line | None = Field(
        default=None, description="script that replaces the model without a key; relative to this file"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.max_tokens >= self.context_window:
            raise PydanticCustomError(
                "window",
                "`max_tokens` {tokens} does not fit into a context window of {window}",
                {
                    "tokens": self.max_tokens,
                    "window": self.context_window,
                    "at": "max_tokens" if "max_tokens" in self.model_fields_set else "context_window",
                    "hint": "set `max_tokens` to a part of `context_window`: the conversation needs most of it",
                },
            )
        return self


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model that agents may name."""

    name: str
    model: str
    provider: Provider = "anthropic"
    base_url: str | None = None
    api_key_env: str = DEFAULT_KEY_VARIABLE
    max_tokens: int = DEFAULT_MAX_TOKENS
    context_window: int = DEFAULT_CONTEXT_WINDOW
    thinking: bool = False
    accepts_temperature: bool = False
    timeouts: StreamTimeouts = field(default_factory=StreamTimeouts)
    retry: Retry = field(default_factory=Retry)
    cache: CacheLifetime = "auto"
    fallback: tuple[str, ...] = ()
    price: Price | None = None
    rehearsal: Path | None = None

    def cache_writes(self, *, waits: bool) -> CacheWrites:
        """Return how long prompts are cached for an agent that waits for children between its calls, or does not."""
        return ("1h" if waits else "5m") if self.cache == "auto" else self.cache


BUILT_IN_MODEL = (
    "sonnet",
    {
        "model": "claude-sonnet-5-5",
        "price": {"input": 2, "output": 10, "cache_read": 0.2, "cache_write": 2.5, "cache_write_1h": 4},
    },
)
"""The model of a configuration without a `models` section, so that a file of agents alone can run."""


def model_spec(
    name: str, entry: ModelEntry, folder: Path, names: Directories, retry: RetryEntry | None = None
) -> ModelSpec:
    """Return the spec of a checked entry; `retry` is that of `defaults`, paths are relative to the configuration file."""
    limits = entry.timeouts
    return ModelSpec(
        name=name,
        model=entry.model,
        provider=entry.provider,
        base_url=entry.base_url,
        api_key_env=referenced(entry.api_key or "") or DEFAULT_KEY_VARIABLE,
        max_tokens=entry.max_tokens,
        context_window=entry.context_window,
        thinking=entry.thinking,
        accepts_temperature=entry.accepts_temperature,
        timeouts=StreamTimeouts(limits.first_token, limits.stall, limits.total),
        retry=retry_of(entry.retry, retry),
        cache=entry.cache,
        fallback=tuple(map(names.models.canonical, entry.fallback)),
        price=price_of(entry.price),
        rehearsal=None if entry.rehearsal is None else folder / entry.rehearsal,
    )
