"""Loading: from `config.yaml`, or from a snapshot of it, to Settings.

Owns: the order of reading, checking and building. Must not know: how the file was found, or who uses it.
Invariant: loading returns Settings without a problem, or raises one ConfigError with every problem.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from registry.checks.component_rules import check_components
from registry.checks.dispatch_rules import Rules
from registry.checks.document import check_chat, check_models, check_names, check_references, check_serving, subjects
from registry.checks.input_schema import check_input_schemas
from registry.checks.output_schema import check_output_schemas
from registry.checks.strategy_rules import check_callers, check_functions
from registry.load.agent_files import gather
from registry.load.effective import effective_tree, hash_of, snapshot_text
from registry.load.reading import is_reference, leaves, put, read_document
from registry.load.settings import Defaults, Settings
from registry.specs.agents import AgentSpec, agent_spec, as_entry
from registry.specs.chains import chain_spec
from registry.specs.context_files import check_context_files, context_files_spec
from registry.specs.document import Document, with_built_ins
from registry.specs.limits import MAX_CONCURRENT_ROOTS
from registry.specs.models import model_spec
from registry.specs.secrets import MASK
from registry.specs.serve import serve_spec
from registry.specs.telemetry import telemetry_spec
from registry.specs.upstreams import upstream_spec
from registry.specs.users import chat_spec, check_users, user_spec
from registry.specs.work_items import check_work_items, work_items_spec
from registry.specs.workspaces import check_workspaces, workspace_specs
from registry.text.errors import ConfigError, ConfigProblem
from registry.text.findings import Findings
from registry.text.locate import Located, locate
from registry.text.names import Directories, Directory
from registry.text.sources import Texts, check_templates
from registry.text.variables import built_in_variables, needed


def load(path: Path | str, environ: Mapping[str, str] | None = None, registered: Iterable[AgentSpec] = ()) -> Settings:
    """Return the settings of a file; `registered` are agents that exist in code. Raise ConfigError with every problem."""
    file = Path(path).absolute()
    located, problems = _read(file)
    reading = _Loading(file, Findings(located, problems), Texts(file.parent), tuple(registered), located.others())
    return _settled(reading, os.environ if environ is None else environ)


def restore(snapshot: str, environ: Mapping[str, str] | None = None, registered: Iterable[AgentSpec] = ()) -> Settings:
    """Return the settings of a snapshot; variables are read again, masked secrets from the file itself."""
    content = json.loads(snapshot)
    file, tree = Path(content["source"]), content["config"]
    findings = Findings(Located(f"{file.name} (snapshot)", tree), [], stored=True)
    masked = [path for path, value in leaves(tree) if value == MASK]
    if masked:
        today, _ = _read(file)
        for where in masked:
            secret = today.value(where)
            if isinstance(secret, str):
                put(tree, where, secret)
            else:
                findings.add(where, f"its secret is no longer in `{file.name}`", "put it back, or start a new execution")
    texts, agents = Texts(file.parent, content.get("files", {})), content.get("agent_files", [])
    reading = _Loading(file, findings, texts, tuple(registered), agents)
    settings = _settled(reading, os.environ if environ is None else environ)
    return settings.rehearsed() if content.get("rehearse") else settings


def missing_variables(snapshot: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the unset environment variables that a snapshot needs, in order."""
    content = json.loads(snapshot)
    given = {**built_in_variables(Path(content["source"]).parent), **environ}
    texts = (value for path, value in leaves(content["config"]) if isinstance(value, str) and not is_reference(path))
    return tuple(dict.fromkeys(name for text in texts for name in needed(text) if name not in given))


def _read(file: Path) -> tuple[Located, list[ConfigProblem]]:
    try:
        located, problems = locate(file.read_bytes(), file.name)
        return located, [*problems, *gather(located, file.parent)]
    except OSError as error:
        hint = "give another with `--config` or `OUTRIDER_CONFIG`"
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else "it cannot be read"
        return Located(file.name), [ConfigProblem(str(file), 0, 0, "", reason, hint)]


@dataclass(frozen=True, slots=True)
class _Loading:
    """A configuration being loaded."""

    file: Path
    findings: Findings
    texts: Texts
    registered: tuple[AgentSpec, ...]
    agent_files: Sequence[str]


def _settled(reading: _Loading, environ: Mapping[str, str]) -> Settings:
    findings, folder = reading.findings, reading.file.parent
    document = read_document(findings, {**built_in_variables(folder), **environ}, reading.texts)
    names = _names(findings.located, reading.registered)
    _check(findings, document, names, folder, reading.registered)
    if findings.problems:
        raise ConfigError(findings.problems)
    return _build(document, names, reading)


def _names(located: Located, registered: Iterable[AgentSpec]) -> Directories:
    """Return all defined names, also of faulty entries: a reference to a faulty entry is no further problem."""
    tree = with_built_ins(located.tree)
    agents = [*_keys(tree, "agents"), *(agent.name for agent in registered)]
    return Directories(Directory(agents), Directory(_keys(tree, "mcp_servers")), Directory(_keys(tree, "models")))


def _keys(tree: Mapping[str, Any], section: str) -> list[str]:
    entries = tree.get(section)
    return list(entries) if isinstance(entries, Mapping) else []


def _check(
    findings: Findings, document: Document, names: Directories, folder: Path, registered: Iterable[AgentSpec]
) -> None:
    sections = ("agents", "agent_chains", "mcp_servers", "models", "users")
    written = {section: _keys(findings.located.tree, section) for section in sections}
    check_names(findings, written, [agent.name for agent in registered])
    check_models(findings, document, names, folder)
    check_references(findings, document, names)
    check_templates(findings, document)
    check_serving(findings, document, names)
    check_users(findings, document.users)
    check_chat(findings, document, names)
    check_work_items(findings, document.work_items)
    everyone = {**document.agents, **{agent.name: as_entry(agent) for agent in registered}}
    whole = document.model_copy(update={"agents": everyone})
    check_output_schemas(findings, whole)
    check_input_schemas(findings, whole)
    Rules(findings, whole, names).apply()
    check_callers(findings, document, names)
    check_components(findings, document, names)
    check_functions(findings, document)
    contexts = {name: agent.context for name, agent in document.agents.items()}
    check_context_files(findings, document.context_files, contexts, folder)
    uses = {name: agent.workspaces for name, agent in document.agents.items()}
    check_workspaces(findings, document.workspaces, uses, folder)


def _build(document: Document, names: Directories, reading: _Loading) -> Settings:
    file, located = reading.file, reading.findings.located
    limits = document.defaults.limits
    default = names.models.canonical(document.default_model or next(iter(document.models)))
    agents = {name: agent_spec(name, entry, default, names) for name, entry in document.agents.items()}
    for name, entry in document.agents.items():
        if entry.workspaces:
            specs = workspace_specs(entry.workspaces, document.workspaces, file.parent)
            agents[name] = replace(agents[name], workspaces=specs)
    agents.update({agent.name: replace(agent, model=agent.model or default) for agent in reading.registered})
    retry = document.defaults.retry
    models = {name: model_spec(name, entry, file.parent, names, retry) for name, entry in document.models.items()}
    upstreams = {name: upstream_spec(name, entry, file.parent) for name, entry in document.mcp_servers.items()}
    chains = {name: chain_spec(name, entry, names) for name, entry in document.agent_chains.items()}
    users = {name: user_spec(name, entry) for name, entry in document.users.items()}
    tree = effective_tree(document, located, default)
    snapshot = snapshot_text(tree, str(file), reading.texts.read, reading.agent_files)
    return Settings(
        models=MappingProxyType(models),
        upstreams=MappingProxyType(upstreams),
        agents=MappingProxyType(agents),
        chains=MappingProxyType(chains),
        defaults=Defaults(
            default, limits, limits.max_concurrent_roots or MAX_CONCURRENT_ROOTS, limits.max_concurrent_model_calls
        ),
        context_files=context_files_spec(document.context_files, file.parent),
        users=MappingProxyType(users),
        chat=chat_spec(document.chat, subjects(document, names)) if document.chat is not None else None,
        serve=serve_spec(document.serve, names),
        source=file,
        snapshot=snapshot,
        hash=hash_of(snapshot),
        located=located,
        work_items=work_items_spec(document.work_items),
        telemetry=telemetry_spec(document.telemetry),
        plain=document.secrets.plain,
        parts=tuple(file.parent / each for each in (*reading.agent_files, *reading.texts.read)),
    )
