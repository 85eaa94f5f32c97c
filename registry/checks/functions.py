"""Functions: agents that are Python callables, as the configuration names them.

Owns: what an agent with a `function` may say. Must not know: how the callable is found or called (the runner does).
Invariant: as in `registry.checks.dispatch_rules`, a setting that could have no effect is a problem, never ignored.
"""

import re

from registry.specs.agents import AgentEntry, agent_behaviour
from registry.specs.document import Document
from registry.text.errors import TreePath
from registry.text.findings import Findings

_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")

_OF_MODELS = (
    "type", "mcp_servers", "custom_instructions", "sub_agents", "tools", "memory", "utilities", "context",
    "require_tool_call", "max_tokens",
)  # fmt: skip
"""What only an agent with a model can have."""


def check_functions(findings: Findings, document: Document) -> None:
    """Check every agent's `function`, and that an agent with that strategy has one."""
    for name, agent in document.agents.items():
        path = ("agents", name)
        if findings.sound(*path) and (agent.function is not None or agent_behaviour(agent).strategy == "function"):
            _check(findings, path, agent)


def _check(findings: Findings, path: TreePath, agent: AgentEntry) -> None:
    strategy = agent_behaviour(agent).strategy
    here = (*path, "function")
    if agent.function is None:
        findings.add(path, "the strategy `function` needs a `function`", "add `function: module:name`", key=True)
    elif strategy != "function":
        message = f"`function` has no effect on an agent with the strategy `{strategy}`"
        findings.add(here, message, "remove `function`, or the strategy", key=True)
    elif not _NAME.fullmatch(agent.function):
        written = findings.written(here, agent.function)
        findings.add(here, f"`{written}` names no function", "write `module:name`, such as `prices:look_up`")
    else:
        _refuse_settings_of_models(findings, path, agent)


def _refuse_settings_of_models(findings: Findings, path: TreePath, agent: AgentEntry) -> None:
    # What is stored names a model for every agent.
    keys = _OF_MODELS if findings.stored else ("model", *_OF_MODELS)
    for key in keys:
        if getattr(agent, key) != AgentEntry.model_fields[key].default:
            message = f"`{key}` has no effect on a function: no model is asked, and no tool is called"
            findings.add((*path, key), message, f"remove `{key}`", key=True)
