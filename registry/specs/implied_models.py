"""Implied models: `provider/id` names a model that the file does not define.

Owns: the form of these names, and the entry of each. Must not know: the other settings of a model.
Invariant: a name in the file's own `models` is never one of them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from registry.specs.agents import SCHEMAS
from registry.text.names import fold, model_name_fault

_OURS = "anthropic/"
"""The prefix of an id that Anthropic itself knows; gateways know other models by the whole name."""


def implied_model(name: str) -> dict[str, str] | None:
    """Return the entry that a name implies; None for one that has to be defined."""
    if "/" not in name or model_name_fault(name) is not None:
        return None
    return {"model": name.removeprefix(_OURS)}


def implied_models(tree: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the models that a configuration names and does not define."""
    models = tree["models"]
    inside = [tree.get(section) for section in ("defaults", "agents", "agent_chains")]
    fallbacks = [entry.get("fallback") for entry in models.values() if isinstance(entry, Mapping)]
    known = {fold(name) for name in models}
    found: dict[str, dict[str, str]] = {}
    for name in (*_texts(tree.get("model")), *_named(inside), *_texts(fallbacks)):
        entry = implied_model(name)
        if entry is not None and fold(name) not in known:
            known.add(fold(name))
            found[name] = entry
    return found


def _named(value: Any) -> Iterator[str]:
    """Yield the values of all `model` keys outside of JSON schemas."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key not in SCHEMAS:
                yield from _texts(each) if key == "model" else _named(each)
    elif isinstance(value, list):
        for each in value:
            yield from _named(each)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield str(value)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
