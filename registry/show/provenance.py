"""The origin of each effective value, and the limits at each place of a chain.

Owns: the names of origins (`config.yaml:14`, `built-in`, `default`). Must not know: how they are shown.
Invariant: a value from the file is never called a default, and no value here is a secret.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields

from registry.load.effective import origin
from registry.load.reading import leaves
from registry.load.settings import Settings
from registry.specs.chains import ChainSpec, StagePlace
from registry.specs.document import with_built_ins
from registry.specs.limits import Limits
from registry.text.errors import TreePath, dotted
from registry.text.locate import Located

BUILT_IN, DEFAULT = "built-in", "default"


@dataclass(frozen=True, slots=True)
class Value:
    """One effective value."""

    path: str
    value: object
    origin: str


@dataclass(frozen=True, slots=True)
class PlaceLimits:
    """The limits at one place: of a chain as a whole, or of an agent in one of its stages."""

    place: str
    limits: tuple[Value, ...]


def values(settings: Settings) -> list[Value]:
    """Return every value of the effective configuration, in the order of the file."""
    tree = json.loads(settings.snapshot)["config"]
    return [Value(dotted(path), value, origin_of(path, settings)) for path, value in leaves(tree)]


def origin_of(path: TreePath, settings: Settings) -> str:
    """Return the line that set the effective value at this path, or `built-in` or `default`."""
    came_from = origin(path, settings.located)
    if came_from is not None:
        return settings.defined_at(*came_from)
    return BUILT_IN if _built_in.value(path) is not None and _is_ours(path, settings) else DEFAULT


_built_in = Located("", with_built_ins({}))


def _is_ours(path: TreePath, settings: Settings) -> bool:
    """Whether a built-in value applies: built-in models do only if the file defines none."""
    return path[0] != "models" or not settings.located.tree.get("models")


def chain_limits(settings: Settings, chain: ChainSpec) -> list[PlaceLimits]:
    """Return the limits of a chain, then those of each agent in its stages."""
    base: TreePath = ("agent_chains", chain.name)
    found = [_limits(settings, chain.name, settings.limits_for_chain(chain), [base])]
    for stage_index, stage in enumerate(chain.stages):
        for agent_index, agent in enumerate(stage.agents):
            own = (*base, "stages", stage_index)
            above: list[TreePath] = [(*own, "agents", agent_index), own, base, ("agents", agent.name)]
            limits = settings.limits_for(settings.agent(agent.name), StagePlace(chain, stage, agent))
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
    """The lines that set a limit, most specific first; inside a `limits` block or beside it."""
    for layer in [*layers, ("defaults",)]:
        for path in ((*layer, "limits", name), (*layer, name)):
            if settings.located.value(path) is not None:
                yield settings.defined_at(*path)
