"""Rules about agents that plan, route, iterate or are a function: what they need, and what has no effect on them.

Owns: these checks. Must not know: how a strategy works, or how a function is found and called.
Invariant: as in `registry.checks.dispatch_rules`, a setting without effect is a problem, never ignored.
"""

import re
from collections.abc import Mapping
from typing import Literal

from registry.checks.command_rules import check_commands
from registry.specs.agents import AgentEntry, agent_behaviour
from registry.specs.builtin_agents import ON_DEMAND, staff_of
from registry.specs.document import Document
from registry.specs.route import RouteEntry
from registry.specs.strategies import COMPOSITE, ROUTING_OR_PLAN
from registry.text.errors import TreePath
from registry.text.findings import Findings
from registry.text.names import Directories, fold, suggestion

_BLOCKS: Mapping[str, tuple[str, ...]] = {
    "plan": ("planner", "composer"),
    "route": ("classifier", "planner", "respondent"),
    "iterate": (),  # its agents are components: `registry/checks/component_rules.py`
}
"""The blocks of an agent, and the agents they name."""


_TOOLS = ("mcp_servers", "utilities", "memory", "workspaces", "output_schema", "require_tool_call", "returns")
"""Settings that only an agent with its own model can use."""


def check_callers(findings: Findings, document: Document, names: Directories) -> None:
    """Check every agent's `plan`, `route` and `iterate`."""
    for name, agent in document.agents.items():
        if findings.sound("agents", name) and not _takes_a_name(findings, name, agent):
            _check_blocks(findings, ("agents", name), agent, StaffRule(findings, document, names))
            if agent_behaviour(agent).strategy in COMPOSITE:
                _check_caller(findings, ("agents", name), agent, is_built_in=name in ON_DEMAND)
            if agent.route is not None and agent_behaviour(agent).strategy == "route":
                check_commands(findings, ("agents", name, "route", "commands"), agent.route.commands, names)
                _check_command_agents(findings, name, agent.route, document)


def _takes_a_name(findings: Findings, name: str, agent: AgentEntry) -> bool:
    """Report an agent with the name of a built-in agent of another kind: one calls a model itself, the other does not."""
    meant = next((each for each in ON_DEMAND if fold(each) == fold(name) and not agent.description), None)
    strategies = {ON_DEMAND[meant].get("strategy", "loop"), agent_behaviour(agent).strategy} if meant is not None else set()
    taken = len(strategies) > 1 and not strategies.isdisjoint(COMPOSITE)
    if taken:
        hint = f"give yours another name: an entry of this name changes `{meant}`"
        findings.add(("agents", name), f"`{name}` is a built-in agent with another kind of strategy", hint, key=True)
    return taken


def _check_command_agents(findings: Findings, name: str, route: RouteEntry, document: Document) -> None:
    """Report built-in agents named in commands: each has a fixed task and form, and cannot carry out a command.

    An agent with a description is the user's, whatever its name.
    """
    entries = {
        each: {"strategy": agent_behaviour(entry).strategy, "sub_agents": entry.sub_agents}
        for each, entry in document.agents.items()
    }
    own = {fold(each) for each, entry in document.agents.items() if entry.description}
    built_in = {fold(each): each for each in staff_of(entries) if each in ON_DEMAND and fold(each) not in own}
    for command, entry in route.commands.items():
        path = ("agents", name, "route", "commands", command, "agents")
        for index, rule in enumerate(entry.agents):
            for agent in (rule.agent or "", *(phase.agent for phase in rule.agents)):
                if fold(agent) in built_in and findings.sound(*path, index):
                    message = (
                        f"`{agent}` is the built-in agent `{built_in[fold(agent)]}` here, which cannot carry out commands"
                    )
                    findings.add((*path, index), message, "give yours a `description`, or another name")


_Kind = Literal["plan", "alone", "any"]
"""The kind of agent that a setting needs: one that plans, one with its own model, or any."""


class StaffRule:
    """Checks the agents named for a strategy."""

    def __init__(self, findings: Findings, document: Document, names: Directories) -> None:
        self._findings, self._document, self._names = findings, document, names

    def check(self, path: TreePath, written: str, wanted: _Kind) -> None:
        """Check that a named agent exists and is of the wanted kind."""
        known = self._names.agents.find(written)
        if known is None:
            self._findings.add(path, f"no agent named `{written}`", suggestion(written, self._names.agents))
            return
        entry = self._document.agents.get(known)
        strategy = agent_behaviour(entry).strategy if entry is not None else "function"
        if wanted == "plan" and strategy != "plan":
            self._findings.add(path, f"`{written}` does not plan", "name an agent with `strategy: plan`")
        elif wanted == "alone" and strategy in COMPOSITE:
            message = f"`{written}` plans, routes or iterates, and cannot do this itself"
            self._findings.add(path, message, "name an agent with its own model")


def _check_blocks(findings: Findings, path: TreePath, agent: AgentEntry, staff: StaffRule) -> None:
    strategy = agent_behaviour(agent).strategy
    for key, roles in _BLOCKS.items():
        block = getattr(agent, key)
        if block is None:
            continue
        if strategy != key:
            hint = f"remove `{key}`, or set `strategy: {key}`"
            findings.add((*path, key), f"`{key}` has no effect on an agent with the strategy `{strategy}`", hint, key=True)
            continue
        for role in roles:
            written = getattr(block, role)
            if written is not None:
                staff.check((*path, key, role), written, "plan" if (key, role) == ("route", "planner") else "alone")


def _check_caller(findings: Findings, path: TreePath, agent: AgentEntry, *, is_built_in: bool) -> None:
    strategy = agent_behaviour(agent).strategy
    for key in _TOOLS if strategy in ROUTING_OR_PLAN else ("memory", "returns"):
        if getattr(agent, key):
            message = f"`{key}` has no effect here: an agent with the strategy `{strategy}` calls no tools itself"
            findings.add((*path, key), message, "give it to the agents that do the work", key=True)
    commanded = agent.route is not None and bool(agent.route.commands)
    if agent.sub_agents == () and not is_built_in and strategy in ROUTING_OR_PLAN and not commanded:
        findings.add((*path, "sub_agents"), f"no agents to {strategy} for", "add agents, each with a `description`")


# -- functions ---------------------------------------------------------------------------------------------------------

_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")

_OF_MODELS = (
    "type", "mcp_servers", "custom_instructions", "sub_agents", "tools", "memory", "utilities", "context",
    "require_tool_call", "max_tokens",
)  # fmt: skip
"""Settings that only an agent with a model can have."""


def check_functions(findings: Findings, document: Document) -> None:
    """Check every agent's `function`, and that an agent with that strategy has one."""
    for name, agent in document.agents.items():
        path = ("agents", name)
        if findings.sound(*path) and (agent.function is not None or agent_behaviour(agent).strategy == "function"):
            _check_function(findings, path, agent)


def _check_function(findings: Findings, path: TreePath, agent: AgentEntry) -> None:
    strategy = agent_behaviour(agent).strategy
    here = (*path, "function")
    if agent.function is None:
        findings.add(path, "the strategy `function` needs a `function`", "add `function: module:name`", key=True)
    elif strategy != "function":
        message = f"`function` has no effect on an agent with the strategy `{strategy}`"
        findings.add(here, message, "remove `function`, or the strategy", key=True)
    elif not _NAME.fullmatch(agent.function):
        written = findings.written(here, agent.function)
        findings.add(here, f"`{written}` is not the name of a function", "write `module:name`, such as `prices:look_up`")
    else:
        _refuse_settings_of_models(findings, path, agent)


def _refuse_settings_of_models(findings: Findings, path: TreePath, agent: AgentEntry) -> None:
    # A stored configuration names a model for every agent.
    keys = _OF_MODELS if findings.stored else ("model", *_OF_MODELS)
    for key in keys:
        if getattr(agent, key) != AgentEntry.model_fields[key].default:
            message = f"`{key}` has no effect on a function: it calls no model and no tools"
            findings.add((*path, key), message, f"remove `{key}`", key=True)
