"""Rules about the components of agents that iterate: which agents they may be, and settings without effect.

Owns: these checks. Must not know: how an iteration works. Invariant: as in `registry.checks.dispatch_rules`, a setting
without effect is a problem, never ignored.
"""

from registry.checks.output_schema import faults
from registry.checks.strategy_rules import StaffRule
from registry.specs.agents import AgentEntry, agent_behaviour
from registry.specs.document import Document
from registry.specs.iterate import COMPONENTS, ComponentEntry, is_component
from registry.specs.limits import FLAT_LIMITS
from registry.text.errors import TreePath
from registry.text.findings import Findings
from registry.text.names import Directories, fold, suggestion
from registry.text.sources import TemplateEntry

_SHARED = ("model", "limits", *FLAT_LIMITS)
"""Settings that a built-in component takes from the agent it works for."""

_WORKERS = ("mcp_servers", "sub_agents", "utilities", "require_tool_call")
"""Settings that a built-in worker takes from the agent it works for."""


def check_components(findings: Findings, document: Document, names: Directories) -> None:
    """Check every agent's `iterate`, and that no entry changes a built-in component without effect."""
    for name, agent in document.agents.items():
        if not findings.sound("agents", name):
            continue
        if agent.iterate is not None and agent_behaviour(agent).strategy == "iterate":
            _check_agent(findings, ("agents", name), agent, StaffRule(findings, document, names), names)
        for key in _SHARED if is_component(name, agent.description) else ():
            if getattr(agent, key) is not None:
                message = f"`{key}` has no effect here: a built-in component has the {key} of the agent it works for"
                findings.add(("agents", name, key), message, "set it on that agent", key=True)


def _check_objective(findings: Findings, path: TreePath, objective: TemplateEntry | None) -> None:
    if objective is not None and not objective.text.strip() and findings.sound(*path):
        findings.add(path, "the text is empty", "write the goal, or remove `objective`: the task is the goal then")


def _check_agent(findings: Findings, path: TreePath, agent: AgentEntry, staff: StaffRule, names: Directories) -> None:
    assert agent.iterate is not None
    _check_objective(findings, (*path, "iterate", "objective"), agent.iterate.objective)
    for role in ("planner", "worker", "completer"):
        part: ComponentEntry | None = getattr(agent.iterate, role)
        if part is None:
            continue
        here = (*path, "iterate", role)
        if part.agent is not None:
            staff.check((*here, "agent"), part.agent, "any" if role == "worker" else "alone")
        if part.model is not None and names.models.find(part.model) is None:
            findings.add((*here, "model"), f"no model named `{part.model}`", suggestion(part.model, names.models))
        for key in ("input_schema", "output_schema"):
            schema = getattr(part, key)
            for fault in faults(schema) if schema is not None else ():
                findings.add((*here, key, *fault.path), fault.message, fault.hint)
    worker = agent.iterate.worker
    if worker is not None and worker.agent is not None and fold(worker.agent) not in map(fold, COMPONENTS):
        for key in _WORKERS:
            if getattr(agent, key):
                message = f"`{key}` has no effect here: `{worker.agent}` carries out the tasks"
                findings.add((*path, key), message, f"give it to `{worker.agent}`", key=True)
