"""Functions that configurations of tests name, and what is left of their calls."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import anyio.to_thread
import pydantic

from runner.functions.context import Context
from runner.result import Outcome, Result


@dataclass
class Seen:
    """What functions left behind; tests begin with an empty one."""

    calls: list[Any] = field(default_factory=list)
    contexts: list[Context] = field(default_factory=list)
    started: threading.Event = field(default_factory=threading.Event)
    gate: threading.Event = field(default_factory=threading.Event)
    stopped: threading.Event = field(default_factory=threading.Event)


seen = Seen()


def begin_anew() -> Seen:
    """Forget what was called."""
    global seen  # noqa: PLW0603 - functions of a configuration have nowhere else to write to
    seen = Seen()
    return seen


class Price(pydantic.BaseModel):
    """A pydantic model."""

    day: date
    cents: int


@dataclass
class Place:
    """A dataclass."""

    path: Path
    names: frozenset[str] = frozenset({"one"})


def add(a: int, b: Annotated[int, pydantic.Field(ge=0)] = 1) -> dict[str, int]:
    """Typed, with a default."""
    seen.calls.append((a, b))
    return {"sum": a + b}


async def price(day: date, currency: Literal["EUR", "USD"] = "EUR", **rest: Any) -> Price:
    """Asynchronous; takes all other fields."""
    await anyio.lowlevel.checkpoint()
    seen.calls.append((day, currency, rest))
    return Price(day=day, cents=5)


def shout(task: str) -> str:
    """Text in, text out."""
    return task.upper()


def find(prices: list[Price], context: Context) -> Place:
    """Nested types, and the context, used from a thread."""
    context.progress(f"looking at {len(prices)} prices")
    seen.contexts.append(context)
    return Place(Path("here"))


def half(task: str) -> Result:
    """A whole result of its own."""
    return Result(Outcome.PARTIAL, f"half of {task}", {"half": 1}, "asked")


def nothing() -> None:
    """Returns nothing."""


def leave() -> None:
    """Wants to end the program."""
    raise SystemExit("bye")


def later() -> Any:
    """Not declared as asynchronous, but returns something to wait for."""
    return price(date(2026, 1, 2))


class Doubler:
    """Callable objects are functions, too."""

    async def __call__(self, number: float) -> Mapping[str, float]:
        """Twice as much."""
        await anyio.lowlevel.checkpoint()
        return {"number": 2 * number}


double = Doubler()


def block(context: Context) -> str:
    """Blocks its thread until it is told that nobody waits."""
    seen.started.set()
    while not context.cancelled:
        seen.gate.wait(0.02)
    context.progress("nobody hears this")
    seen.stopped.set()
    return "too late"


async def wait() -> str:
    """Waits in the event loop for ever."""
    seen.started.set()
    try:
        await anyio.sleep_forever()
    finally:
        seen.stopped.set()
    return "never"


async def number_two(context: Context) -> list[int]:
    """Adds two items, and waits before it returns."""
    numbers = [(await context.board.add(title)).number for title in ("Same", "Same")]
    seen.calls.append(numbers)
    seen.started.set()
    await anyio.to_thread.run_sync(seen.gate.wait, abandon_on_cancel=True)
    return numbers
