"""The effective configuration: the file after defaults, merge and overrides, in the file's own form.

Owns: this tree, the origin of each of its values, and its canonical text (the snapshot). Must not know: how it is shown.
Invariant: it holds no value of a variable and no secret, only their sources and a mask; loading it again gives the same
specs.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from registry.load.reading import leaves, put
from registry.specs.agents import AgentEntry, Use, agent_behaviour, own_limits
from registry.specs.chains import SynthesisEntry
from registry.specs.document import Document
from registry.specs.implied_models import implied_model
from registry.specs.iterate import is_component
from registry.specs.limits import FLAT_LIMITS, MAX_CONCURRENT_ROOTS, resolve_limits
from registry.specs.secrets import MASK, may_be_secret
from registry.specs.strategies import strategy_name
from registry.specs.workspaces import WorkspaceUse
from registry.text.entry import Entry
from registry.text.errors import TreePath
from registry.text.locate import Located
from registry.text.sources import SourceEntry
from registry.text.variables import Expanded

_AGENT_SETTING_DEPTH = 3


def effective_tree(document: Document, located: Located, default_model: str) -> dict[str, Any]:
    """Return the effective configuration, ready to be shown or stored."""
    limits = document.defaults.limits
    whole = {"max_concurrent_roots": limits.max_concurrent_roots or MAX_CONCURRENT_ROOTS}
    if limits.max_concurrent_model_calls is not None:
        whole["max_concurrent_model_calls"] = limits.max_concurrent_model_calls
    tree: dict[str, Any] = {
        "defaults": {
            "model": default_model,
            "limits": {**_decided(asdict(resolve_limits(limits))), **whole},
            **({"retry": retry} if (retry := _plain(document.defaults.retry)) is not None else {}),
        },
        "models": {name: _plain(entry) for name, entry in document.models.items() if not _is_implied(name, located)},
        "mcp_servers": {name: _plain(entry) for name, entry in document.mcp_servers.items()},
        "agents": {name: _agent(document, name, default_model) for name in document.agents},
        "agent_chains": {name: _plain(entry) for name, entry in document.agent_chains.items()},
        **({"context_files": files} if (files := _plain(document.context_files)) else {}),
        **({"workspaces": _plain(document.workspaces)} if document.workspaces else {}),
        "users": {name: _plain(entry) for name, entry in document.users.items()},
        **({"chat": _plain(document.chat)} if document.chat is not None else {}),
        "serve": _plain(document.serve),
        **({"secrets": secrets} if (secrets := _plain(document.secrets)) else {}),
        **({"work_items": items} if (items := _plain(document.work_items)) else {}),
        **({"telemetry": traces} if (traces := _plain(document.telemetry)) else {}),
    }
    for path, value in list(leaves(tree)):
        put(tree, path, _safe(path, value, tree, located, document.secrets.plain))
    return tree


def origin(path: TreePath, located: Located) -> TreePath | None:
    """Return the path in the file that set a value of the effective tree, or None for a default."""
    return next((each for each in _candidates(path) if _is_scalar(located.value(each))), None)


def snapshot_text(tree: Mapping[str, Any], source: str, files: Mapping[str, str], agents: Sequence[str]) -> str:
    """Return the canonical text of the effective configuration, with its source and the files it names.

    `agents` are the files of agents: only their names are kept, because their texts may hold secrets.
    """
    more = {"files": files, "agent_files": list(agents)}
    return _canonical({"config": tree, "source": source, **{key: value for key, value in more.items() if value}})


def rehearsed_text(snapshot: str) -> str:
    """Return the snapshot of the same configuration with all models rehearsed."""
    return _canonical({**json.loads(snapshot), "rehearse": True})


def is_rehearsed(snapshot: str) -> bool:
    """Whether all models of a snapshot are rehearsed."""
    return bool(json.loads(snapshot).get("rehearse"))


def hash_of(snapshot: str) -> str:
    """Return the name of a snapshot: its SHA-256."""
    return hashlib.sha256(snapshot.encode()).hexdigest()


def _canonical(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, sort_keys=False, separators=(",", ":"))


def _agent(document: Document, name: str, default_model: str) -> dict[str, Any]:
    entry = document.agents[name]
    plain: dict[str, Any] = _plain(entry)
    for key in (*FLAT_LIMITS, "iteration_strategy"):
        plain.pop(key, None)
    plain["model"] = entry.model or default_model
    plain["strategy"] = strategy_name(agent_behaviour(entry))
    plain["limits"] = _decided(asdict(resolve_limits(document.defaults.limits, own_limits(entry))))
    if is_component(name, entry.description):  # it takes these from the agent it works for
        del plain["model"], plain["limits"]
    # In the order of the fields, so that the text does not depend on the order in the file.
    return {key: plain[key] for key in AgentEntry.model_fields if key in plain}


def _plain(value: Any) -> Any:
    """Return an entry as a file could write it, without empty defaults."""
    if isinstance(value, Entry):
        if isinstance(value, Use | SynthesisEntry | WorkspaceUse) and value.model_fields_set == {"name"}:
            return value.name
        if isinstance(value, SourceEntry) and value.model_fields_set == {"content"}:
            return value.content
        shape = type(value).model_fields
        pairs = {field.alias or key: (getattr(value, key), field.default) for key, field in shape.items()}
        return {key: _plain(each) for key, (each, default) in pairs.items() if each or each != default}
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _decided(limits: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in limits.items() if value is not None}


def _safe(path: TreePath, value: Any, tree: Any, located: Located, plain: Sequence[str]) -> Any:
    """Return a value for storage: one from a variable as its source, a literal secret as a mask."""
    came_from = origin(path, located)
    written = located.value(came_from) if came_from else None
    before = None
    if isinstance(path[-1], int) and path[-1] > 0:
        before = Located("", tree).value((*path[:-1], path[-1] - 1))
    if isinstance(written, Expanded):
        # A default value in the file is a literal like any other.
        literal = ":-" in written.source and may_be_secret(path, str(written), before, plain)
        return MASK if literal else written.source
    return MASK if may_be_secret(path, value, before, plain) else value


def _candidates(path: TreePath) -> list[TreePath]:
    found = [path, (*path, "name"), (*path, "content")]
    if path == ("defaults", "model"):
        found.append(("model",))
    if path and path[-1] == "name":
        found.append(path[:-1])
    if len(path) >= _AGENT_SETTING_DEPTH and path[0] == "agents":
        name, setting = path[1], path[2:]
        if setting[0] == "limits":
            found += [("agents", name, *setting[1:]), ("defaults", *setting)]
        if setting == ("model",):
            found += [("defaults", "model"), ("model",)]
        if setting == ("strategy",):
            found.append(("agents", name, "iteration_strategy"))
    return found


def _is_implied(model: str, located: Located) -> bool:
    """Say whether a model is implied by its name: it is left out, because reading the snapshot implies it again."""
    written = located.tree.get("models")
    return implied_model(model) is not None and not (isinstance(written, Mapping) and model in written)


def _is_scalar(value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping | list)
