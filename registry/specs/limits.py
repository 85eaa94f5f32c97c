"""Limits of an execution, and how the layers of the configuration resolve to them.

Owns: the names, ranges and built-in defaults of all limits, and their resolution. Must not know: how they are spent (the
runner's allowance does). Invariant: layers are built-in → defaults → agent → chain, stage, stage agent → call, and the
most specific one with a value wins; a layer never applies to an agent that its owner dispatches.
"""

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Literal

from pydantic import Field

from registry.text.durations import Seconds, SecondsOrZero
from registry.text.entry import Budget, Count, Entry, Flag

OnLimit = Literal["queue", "error"]
OnFinish = Literal["wait", "cancel"]
Wake = Literal["all", "any"]


RESERVE_SHARE = 0.2
"""The largest share of an execution's time that may be reserved for its conclusion."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one execution, every value decided. The defaults here are the built-in layer."""

    max_depth: int = 3
    max_concurrent_agents: int = 5
    max_iterations: int = 20
    timeout: float = 600.0
    agent_timeout: float = 300.0
    wrap_up_reserve: float = 60.0
    max_dispatches: int = 100
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    on_limit: OnLimit = "queue"
    on_finish: OnFinish = "wait"
    wake: Wake = "all"
    cycle_check: bool = True
    cancel_grace: float = 30.0
    model_timeout: float = 300.0
    tool_timeout: float = 60.0
    approval_timeout: float = 3600.0

    def reserve_of(self, allowed: float) -> float:
        """Return the seconds reserved for wrapping up: the reserve, but at most its share of the allowed time."""
        return min(self.wrap_up_reserve, allowed * RESERVE_SHARE)

    def capped(self, cost_usd: float) -> "Limits":
        """Return the same limits with at most this cost."""
        own = self.max_cost_usd if self.max_cost_usd is not None else cost_usd
        return replace(self, max_cost_usd=min(cost_usd, own))


MAX_CONCURRENT_ROOTS = 50
"""Top-level executions that run at once in one service, unless `defaults.limits` says otherwise."""


class LimitOverrides(Entry):
    """One layer: a `limits` block as written, or the limits of a call. None leaves a value to the layers below."""

    max_depth: Count | None = Field(default=None, description="how deep dispatches may nest")
    max_concurrent_agents: Count | None = Field(default=None, description="children of one parent that run at once")
    max_iterations: Count | None = Field(default=None, description="model turns before the agent must conclude")
    timeout: Seconds | None = Field(default=None, description="time for the agent itself")
    agent_timeout: Seconds | None = Field(default=None, description="time for each agent it dispatches")
    wrap_up_reserve: SecondsOrZero | None = Field(default=None, description="time reserved for the conclusion")
    max_dispatches: Count | None = Field(default=None, description="agents dispatched in the whole tree")
    max_tokens: Count | None = Field(default=None, description="tokens of the whole tree")
    max_cost_usd: Budget | None = Field(default=None, description="US dollars of the whole tree")
    on_limit: OnLimit | None = Field(default=None, description="whether a dispatch over the limit waits or is refused")
    on_finish: OnFinish | None = Field(
        default=None, description="whether the agent waits for open children at its end, or cancels them"
    )
    wake: Wake | None = Field(
        default=None, description="whether a waiting parent continues when all children have ended, or any"
    )
    cycle_check: Flag | None = Field(default=None, description="refuse an agent that is already in the path")
    cancel_grace: SecondsOrZero | None = Field(default=None, description="time for a cancelled agent to end by itself")
    model_timeout: Seconds | None = Field(default=None, description="time for one model call")
    tool_timeout: Seconds | None = Field(default=None, description="time for one upstream tool call")
    approval_timeout: Seconds | None = Field(default=None, description="time for a person to approve a call")

    def __hash__(self) -> int:
        """Hash the values: layers are the key of a cache."""
        return hash(tuple(self.__dict__.values()))

    def values(self) -> dict[str, object]:
        """Return the values that this layer sets, by name."""
        return {name: value for name in LIMIT_NAMES if (value := getattr(self, name)) is not None}

    def over(self, below: "LimitOverrides") -> "LimitOverrides":
        """Return one layer with this one's values and, where it has none, those of the layer below."""
        return below.model_copy(update=self.values())


class ServiceLimitOverrides(LimitOverrides):
    """`defaults.limits`: the layer under every agent, and the limits of the service as a whole."""

    __hash__ = LimitOverrides.__hash__

    max_concurrent_roots: Count | None = Field(default=None, description="top-level executions that run at once")
    max_concurrent_model_calls: Count | None = Field(default=None, description="model calls in flight at once")


LIMIT_NAMES = tuple(field.name for field in fields(Limits))

FLAT_LIMITS = ("max_iterations", "max_concurrent_agents", "agent_timeout", "timeout")
"""Limits that may also be set directly on an agent, as is common for orchestrators."""


@lru_cache(maxsize=1024)
def resolve_limits(*layers: LimitOverrides | None) -> Limits:
    """Resolve layers, most general first, over the built-in limits. Agents with the same layers share one value."""
    resolved = Limits()
    for layer in layers:
        if layer is not None:
            resolved = replace(resolved, **layer.values())  # type: ignore[arg-type]  # names and types are those of Limits
    return resolved
