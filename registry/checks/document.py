"""Checks across the document: every name exists, no two are alike, and settings fit together.

Owns: the checks of names, models and servers that need the whole file.
Must not know: how orchestrators, stages and catalogues work (`registry.checks.dispatch_rules` does).
Invariant: each check reads only parts without a problem, and reports everything it finds.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from registry.specs.agents import ReferenceEntry, Use
from registry.specs.chains import ChainEntry
from registry.specs.document import Document
from registry.specs.tool_filter import ToolFilterEntry
from registry.text.errors import TreePath
from registry.text.findings import Findings
from registry.text.names import (
    Directories,
    Directory,
    fold,
    listed,
    model_name_fault,
    name_fault,
    server_name_fault,
    suggestion,
)

_FAULTS = {"mcp_servers": server_name_fault, "models": model_name_fault}


def check_names(findings: Findings, tree_names: dict[str, list[str]], registered: Iterable[str]) -> None:
    """Check the form of names, and that no two names of one kind fold alike."""
    for section, names in tree_names.items():
        fault_of = _FAULTS.get(section, name_fault)
        for name in names:
            fault = fault_of(name)
            if fault is not None:
                findings.add((section, name), f"`{name}` cannot be a name here: {fault}", "rename it", key=True)
    for kind, paths in (
        ("agents and chains", [(each, name) for each in ("agents", "agent_chains") for name in tree_names[each]]),
        ("servers", [("mcp_servers", name) for name in tree_names["mcp_servers"]]),
        ("models", [("models", name) for name in tree_names["models"]]),
        ("users", [("users", name) for name in tree_names["users"]]),
    ):
        _refuse_alike(findings, kind, paths)
    taken = {fold(name): name for name in registered}
    for section in ("agents", "agent_chains"):
        for name in tree_names[section]:
            if fold(name) in taken:
                message = f"`{name}` is already the name of an agent that is registered in code"
                findings.add((section, name), message, "rename it", key=True)


def check_models(findings: Findings, document: Document, names: Directories, folder: Path) -> None:
    """Check the references of models and of the default model."""
    written = findings.located.tree.get("models")
    for path, default in ((("defaults", "model"), document.defaults.model), (("model",), document.model)):
        if default is not None:
            _known(findings, path, "model", default, names.models)
    several = isinstance(written, Mapping) and len(written.keys() & document.models.keys()) > 1
    if document.default_model is None and several and findings.sound("defaults") and findings.sound("model"):
        users = [name for name, agent in document.agents.items() if agent.model is None]
        message = f"no default model for {listed(users)}: there are several models"
        if users:
            findings.add(("models",), message, f"add `defaults: {{model: {next(iter(names.models))}}}`", key=True)
    for name, model in document.models.items():
        path = ("models", name)
        for index, other in enumerate(model.fallback):
            _known(findings, (*path, "fallback", index), "model", other, names.models)
        if model.rehearsal is not None and findings.sound(*path) and not (folder / model.rehearsal).is_file():
            here = (*path, "rehearsal")
            written = findings.written(here, model.rehearsal)
            findings.add(here, f"there is no file `{written}`", "paths are relative to this file")
    _refuse_fallback_cycles(findings, document, names)


def check_references(findings: Findings, document: Document, names: Directories) -> None:
    """Check that every named agent, server and model exists."""
    for path, use in uses(document):
        known = _known(findings, (*path, "name"), "agent", use.name, names.agents)
        if known and use.model is not None:
            _known(findings, (*path, "model"), "model", use.model, names.models)
        _servers(findings, path, use.mcp_servers or (), names)
    for name, agent in document.agents.items():
        if agent.model is not None:
            _known(findings, ("agents", name, "model"), "model", agent.model, names.models)
        _servers(findings, ("agents", name), agent.mcp_servers, names)
        _filter(findings, ("agents", name, "tools"), agent.tools, names)
    for name, chain in document.agent_chains.items():
        for index, stage in enumerate(chain.stages):
            if stage.synthesis is not None:
                path = ("agent_chains", name, "stages", index, "synthesis")
                _known(findings, (*path, "name"), "agent", stage.synthesis.name, names.agents)


def check_serving(findings: Findings, document: Document, names: Directories) -> None:
    """Check that offered agents exist, and that each token identifies one caller."""
    for index, agent in enumerate(document.serve.agents or ()):
        _known(findings, ("serve", "agents", index), "agent", agent, names.agents)
    owners: dict[str, str] = {}
    for name, entry in document.serve.http.tokens.items():
        path = ("serve", "http", "tokens", name)
        fault = name_fault(name)
        if fault is not None:
            findings.add(path, f"`{name}` cannot be a name here: {fault}", "rename it", key=True)
        owner = owners.setdefault(entry.token, name) if findings.sound(*path, "token") else name
        if owner != name:
            message = f"`{entry.token}` is already the token of `{owner}`"
            findings.add((*path, "token"), message, "give each caller a variable of its own")


def check_chat(findings: Findings, document: Document, names: Directories) -> None:
    """Check that the agent or chain that answers users exists."""
    if document.chat is not None:
        _known(findings, ("chat", "agent"), "agent or chain", document.chat.agent, subjects(document, names))
        if document.chat.memory.model is not None:
            _known(findings, ("chat", "memory", "model"), "model", document.chat.memory.model, names.models)


def subjects(document: Document, names: Directories) -> Directory:
    """Return the names that can be run: agents and chains."""
    return Directory([*names.agents, *document.agent_chains])


def uses(document: Document) -> Iterator[tuple[TreePath, Use]]:
    """Yield every use of an agent: in `sub_agents` lists and in stages."""
    for path, each in lists(document):
        for index, reference in enumerate(each):
            yield (*path, index), reference
    for name, chain in document.agent_chains.items():
        for stage_index, stage in enumerate(chain.stages):
            for index, agent in enumerate(stage.agents):
                yield ("agent_chains", name, "stages", stage_index, "agents", index), agent


def lists(document: Document) -> Iterator[tuple[TreePath, tuple[ReferenceEntry, ...]]]:
    """Yield every `sub_agents` list."""
    for name, agent in document.agents.items():
        if agent.sub_agents is not None:
            yield ("agents", name, "sub_agents"), agent.sub_agents
    for name, chain in document.agent_chains.items():
        if chain.sub_agents is not None:
            yield ("agent_chains", name, "sub_agents"), chain.sub_agents
        yield from _stage_lists(name, chain)


def _stage_lists(name: str, chain: ChainEntry) -> Iterator[tuple[TreePath, tuple[ReferenceEntry, ...]]]:
    for stage_index, stage in enumerate(chain.stages):
        path: TreePath = ("agent_chains", name, "stages", stage_index)
        if stage.sub_agents is not None:
            yield (*path, "sub_agents"), stage.sub_agents
        for index, agent in enumerate(stage.agents):
            if agent.sub_agents is not None:
                yield (*path, "agents", index, "sub_agents"), agent.sub_agents


def _known(findings: Findings, path: TreePath, kind: str, name: str, known: Directory) -> bool:
    if known.find(name) is not None:
        return True
    if isinstance(findings.located.value(path[:-1]), str):
        path = path[:-1]  # the short form: the name is written instead of the mapping
    if findings.sound(*path):
        written = findings.written(path, name)
        hint = suggestion(name, known) if written == name else f"known: {listed(known)}"
        findings.add(path, f"no {kind} named `{written}`", hint)
    return False


def _servers(findings: Findings, path: TreePath, servers: tuple[str, ...], names: Directories) -> None:
    seen: set[str] = set()
    for index, server in enumerate(servers):
        here = (*path, "mcp_servers", index)
        if _known(findings, here, "server", server, names.servers) and fold(server) in seen:
            findings.add(here, f"`{findings.written(here, server)}` is listed twice", "remove one")
        seen.add(fold(server))


def _filter(findings: Findings, path: TreePath, entry: ToolFilterEntry | None, names: Directories) -> None:
    """Report a pattern for an unknown server: it would silently deny nothing."""
    if entry is None:
        return
    for key, patterns in (("allow", entry.allow or ()), ("deny", entry.deny)):
        for index, pattern in enumerate(patterns):
            server, dot, _ = pattern.partition(".")
            if dot and not set(server) & set("*?["):
                _known(findings, (*path, key, index), "server", server, names.servers)


def _refuse_alike(findings: Findings, kind: str, paths: list[tuple[str, str]]) -> None:
    first: dict[str, tuple[str, str]] = {}
    for path in paths:
        other = first.setdefault(fold(path[1]), path)
        if other is not path:
            place = findings.located.position(other, key=True)
            line = f" in {place.file + ', ' if place.file else ''}line {place.line}" if place else ""
            message = f"`{path[1]}` is the same name as `{other[1]}`{line}: names of {kind} differ in letters or digits"
            findings.add(path, message, "case, `-` and `_` make no difference; rename one", key=True)


def _refuse_fallback_cycles(findings: Findings, document: Document, names: Directories) -> None:
    graph = {name: tuple(map(names.models.canonical, model.fallback)) for name, model in document.models.items()}
    reported: set[str] = set()
    for name in graph:
        way = _way_back(graph, name, (name,))
        if way and not reported.intersection(way):
            reported.update(way)
            text = " → ".join((*way, name))
            findings.add(("models", name, "fallback"), f"fallbacks form a cycle: {text}", "take one of them out")


def _way_back(graph: dict[str, tuple[str, ...]], start: str, trail: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names on a cycle through `start`, or nothing."""
    for following in graph.get(trail[-1], ()):
        if following == start:
            return trail
        if following not in trail and (way := _way_back(graph, start, (*trail, following))):
            return way
    return ()
