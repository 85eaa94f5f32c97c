"""Models: an LLM, where it is served, what it costs and what stands in for it.

Owns: the shape of a `models` entry and ModelSpec. Must not know: how a model is called.
Invariant: a key is known only by the name of its environment variable, never by its value.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from registry.entry import Count, Entry, Flag, Line
from registry.names import Directories
from registry.pricing import Price, PriceEntry
from registry.variables import referenced

DEFAULT_KEY_VARIABLE = "ANTHROPIC_API_KEY"
DEFAULT_MAX_TOKENS = 8192

Provider = Literal["anthropic"]


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


class ModelEntry(Entry):
    """One entry of `models` as written."""

    model: Line = Field(description="the model's id at the provider")
    provider: Provider = Field(default="anthropic", description="who speaks for the model")
    base_url: Annotated[Line, AfterValidator(web_address)] | None = Field(default=None, description="another endpoint")
    api_key: Annotated[Line, AfterValidator(_reference)] | None = Field(
        default=None, description="`${NAME}` of the variable that holds the key; read when it is used"
    )
    max_tokens: Count = Field(default=DEFAULT_MAX_TOKENS, description="tokens one answer may have")
    thinking: Flag = Field(default=False, description="let the model think before it answers")
    fallback: tuple[Line, ...] = Field(default=(), description="models asked in turn when this one cannot answer")
    price: PriceEntry | None = Field(default=None, description="US dollars per million tokens")
    rehearsal: Line | None = Field(default=None, description="script that stands in without a key; relative to this file")


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model that agents may name."""

    name: str
    model: str
    provider: Provider = "anthropic"
    base_url: str | None = None
    api_key_env: str = DEFAULT_KEY_VARIABLE
    max_tokens: int = DEFAULT_MAX_TOKENS
    thinking: bool = False
    fallback: tuple[str, ...] = ()
    price: Price | None = None
    rehearsal: Path | None = None


BUILT_IN_MODEL = (
    "sonnet",
    {"model": "claude-sonnet-5-5", "price": {"input": 2, "output": 10, "cache_read": 0.2, "cache_write": 2.5}},
)
"""The model of a configuration without a `models` section, so that a file of agents alone can run."""


def model_spec(name: str, entry: ModelEntry, folder: Path, names: Directories) -> ModelSpec:
    """Return the spec of a checked entry; paths are relative to the folder of the configuration file."""
    price = entry.price
    return ModelSpec(
        name=name,
        model=entry.model,
        provider=entry.provider,
        base_url=entry.base_url,
        api_key_env=referenced(entry.api_key or "") or DEFAULT_KEY_VARIABLE,
        max_tokens=entry.max_tokens,
        thinking=entry.thinking,
        fallback=tuple(map(names.models.canonical, entry.fallback)),
        price=None if price is None else Price(price.input, price.output, price.cache_read, price.cache_write),
        rehearsal=None if entry.rehearsal is None else folder / entry.rehearsal,
    )
