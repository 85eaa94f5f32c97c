"""Where each effective value came from, and what limits hold at each place of a chain.

Owns: the words for an origin (`config.yaml:14`, `built-in`, `default`). Must not know: how it is shown.
Invariant: a value that stands in the file is never called a default, and no value here is a secret.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields

from registry.load.effective import origin
from registry.load.reading import leaves
from registry.load.settings import Settings
from registry.specs.chains import ChainSpec, Place
from registry.specs.document import with_built_ins
from registry.specs.limits import Limits
from registry.text.errors import TreePath, dotted
from registry.text.locate import Located

BUILT_IN, DEFAULT = "built-in", "default"


@dataclass(frozen=True, slots=True)
class Value:
    """One value that holds."""

    path: str
    value: object
    origin: str


@dataclass(frozen=True, slots=True)
class PlaceLimits:
    """The limits of whoever stands at one place: a chain as a whole, or an agent in one of its stages."""

    place: str
    limits: tuple[Value, ...]


def values(settings: Settings) -> list[Value]:
    """Return every value of the effective configuration, in the order of the file."""
    tree = json.loads(settings.snapshot)["config"]
    return [Value(dotted(path), value, origin_of(path, settings)) for path, value in leaves(tree)]


def origin_of(path: TreePath, settings: Settings) -> str:
    """Return the line that decided the value at this path of the effective configuration, or why there is none."""
    came_from = origin(path, settings.located)
    if came_from is not None:
        return settings.defined_at(*came_from)
    return BUILT_IN if _built_in.value(path) is not None and _is_ours(path, settings) else DEFAULT


_built_in = Located("", with_built_ins({}))


def _is_ours(path: TreePath, settings: Settings) -> bool:
    """Whether the built-in models hold: they do only where the file names none."""
    return path[0] != "models" or not settings.located.tree.get("models")


def chain_limits(settings: Settings, chain: ChainSpec) -> list[PlaceLimits]:
    """Return the limits of a chain, then those of each agent in its stages."""
    base: TreePath = ("agent_chains", chain.name)
    found = [_limits(settings, chain.name, settings.limits_for_chain(chain), [base])]
    for stage_index, stage in enumerate(chain.stages):
        for agent_index, agent in enumerate(stage.agents):
            own = (*base, "stages", stage_index)
            above: list[TreePath] = [(*own, "agents", agent_index), own, base, ("agents", agent.name)]
            limits = settings.limits_for(settings.agent(agent.name), Place(chain, stage, agent))
            found.append(_limits(settings, f"{chain.name}.{stage.name}.{agent.name}", limits, above))
    return found


def _limits(settings: Settings, place: str, limits: Limits, layers: list[TreePath]) -> PlaceLimits:
    decided = [(each.name, getattr(limits, each.name)) for each in fields(Limits)]
    return PlaceLimits(
        place,
        tuple(
            Value(name, value, next(_lines(settings, name, layers), DEFAULT))
            for name, value in decided
            if value is not None
        ),
    )


def _lines(settings: Settings, name: str, layers: list[TreePath]) -> Iterator[str]:
    """Where a limit is written, most specific first; it may stand in a `limits` block or beside one."""
    for layer in [*layers, ("defaults",)]:
        for path in ((*layer, "limits", name), (*layer, name)):
            if settings.located.value(path) is not None:
                yield settings.defined_at(*path)
