"""Rules about dispatching: orchestrators, `sub_agents` lists, stages and their synthesis.

Owns: the checks for dispatches that could never work. Must not know: how a dispatch is run.
Invariant: a setting without effect is a problem, never ignored; unknown names are reported elsewhere.
"""

from registry.checks.document import lists
from registry.specs.agents import AgentEntry, ReferenceEntry, agent_behaviour
from registry.specs.builtin_agents import SYNTHESIZER
from registry.specs.chains import ChainEntry, StageAgentEntry, StageEntry
from registry.specs.document import Document
from registry.specs.limits import LimitOverrides, resolve_limits
from registry.text.errors import TreePath
from registry.text.findings import Findings
from registry.text.names import Directories, fold

_CYCLE_HINT = "take it out of the list, or set `limits: {cycle_check: false}` on the agent"


class Rules:
    """Applies the rules to one document."""

    def __init__(self, findings: Findings, document: Document, names: Directories) -> None:
        """Start with the findings of the earlier checks."""
        self._findings = findings
        self._document = document
        self._names = names

    def apply(self) -> None:
        """Report every broken rule."""
        for path, references in lists(self._document):
            self._check_list(path, tuple(each.name for each in references))
        self._check_list(("serve", "agents"), self._document.serve.agents or ())
        for name, agent in self._document.agents.items():
            self._check_agent(name, agent)
        for name, chain in self._document.agent_chains.items():
            self._check_chain(name, chain)
        self._check_alert_types()

    def _agent(self, name: str) -> AgentEntry | None:
        """Return the agent of that name if it has no problem."""
        known = self._names.agents.find(name)
        if known is None or not self._findings.sound("agents", known):
            return None
        return self._document.agents.get(known)

    def _check_list(self, path: TreePath, names: tuple[str, ...]) -> None:
        seen: set[str] = set()
        for index, name in enumerate(names):
            here = (*path, index)
            agent = self._agent(name)
            written = self._findings.written(here, name)
            if agent is not None and not agent.description.strip():
                message = f"`{written}` has no description, so it cannot be dispatched"
                self._findings.add(here, message, "give it a `description`: dispatching agents read it")
            if fold(name) in seen and self._findings.sound(*here):
                self._findings.add(here, f"`{written}` is listed twice", "remove one")
            seen.add(fold(name))

    def _check_agent(self, name: str, agent: AgentEntry) -> None:
        path = ("agents", name)
        if not self._findings.sound(*path):
            return
        if agent_behaviour(agent).strategy == "synthesis":
            self._check_synthesis_agent(path, agent)
        elif agent.type == "orchestrator" and not self._has_someone_to_dispatch(agent):
            place = path if agent.sub_agents is None else (*path, "sub_agents")
            self._findings.add(place, "an orchestrator without agents to dispatch", "add agents, each with a `description`")
        self._refuse_self((*path, "sub_agents"), name, agent.sub_agents, self._cycle_check(agent))

    def _check_synthesis_agent(self, path: TreePath, agent: AgentEntry) -> None:
        if agent.type == "orchestrator":
            message = "an orchestrator needs the `loop` strategy: a synthesis is one call without tools"
            self._findings.add((*path, "type"), message, "remove `type`, or the strategy")
        for key in ("sub_agents", "mcp_servers", "memory", "require_tool_call"):
            if getattr(agent, key):
                message = f"`{key}` has no effect on a synthesis agent: it answers in one call without tools"
                self._findings.add((*path, key), message, f"remove `{key}`, or the strategy", key=True)

    def _has_someone_to_dispatch(self, agent: AgentEntry) -> bool:
        if agent.sub_agents is not None:
            return bool(agent.sub_agents)
        others = self._document.agents.values()
        return any(each.description.strip() and not _can_dispatch(each) for each in others)

    def _check_chain(self, name: str, chain: ChainEntry) -> None:
        seen: dict[str, int] = {}
        for index, stage in enumerate(chain.stages):
            path = ("agent_chains", name, "stages", index)
            if seen.setdefault(fold(stage.name), index) != index and self._findings.sound(*path, "name"):
                written = self._findings.written((*path, "name"), stage.name)
                message = f"two stages of `{name}` are named `{written}`"
                self._findings.add((*path, "name"), message, "rename one")
            self._check_synthesis((*path, "synthesis"), stage)
            for agent_index, agent in enumerate(stage.agents):
                self._check_stage_agent((*path, "agents", agent_index), (chain, stage, agent))

    def _check_synthesis(self, path: TreePath, stage: StageEntry) -> None:
        name = SYNTHESIZER if stage.synthesis is None else stage.synthesis.name
        agent = self._agent(name)
        if agent is not None and (agent.type == "orchestrator" or _can_dispatch(agent)):
            message = f"`{self._findings.written(path, name)}` dispatches agents, so it cannot merge the results of a stage"
            self._findings.add(path, message, "name an agent that works alone, such as the built-in `Synthesizer`")

    def _check_stage_agent(self, path: TreePath, place: tuple[ChainEntry, StageEntry, StageAgentEntry]) -> None:
        chain, stage, used = place
        agent = self._agent(used.name)
        if agent is None:
            return
        if agent_behaviour(agent).strategy == "synthesis":
            for key in ("sub_agents", "mcp_servers"):
                if getattr(used, key):
                    message = f"`{key}` has no effect here: the agent answers in one call without tools"
                    self._findings.add((*path, key), message, f"remove `{key}`", key=True)
            return
        chain_path = path[:2]
        levels = ((path, used.sub_agents), (path[:4], stage.sub_agents), (chain_path, chain.sub_agents))
        decisive = next(((*level, "sub_agents") for level, each in levels if each is not None), None)
        if decisive is not None:
            listed = next(each for _, each in levels if each is not None)
            checked = self._cycle_check(agent, chain.limits, stage.limits, used.limits)
            self._refuse_self(decisive, used.name, listed, checked)

    def _cycle_check(self, agent: AgentEntry, *over: LimitOverrides | None) -> bool:
        return resolve_limits(self._document.defaults.limits, agent.limits, *over).cycle_check

    def _refuse_self(
        self, path: TreePath, name: str, references: tuple[ReferenceEntry, ...] | None, cycle_check: bool
    ) -> None:
        for index, reference in enumerate(references or ()):
            here = (*path, index)
            if cycle_check and fold(reference.name) == fold(name) and self._findings.sound(*here):
                known = self._names.agents.canonical(name)
                message = f"`{known}` lists itself, and every such dispatch would be refused as a cycle"
                self._findings.add(here, message, _CYCLE_HINT)

    def _check_alert_types(self) -> None:
        owners: dict[str, str] = {}
        for name, chain in self._document.agent_chains.items():
            for index, alert_type in enumerate(chain.alert_types):
                owner = owners.setdefault(alert_type, name)
                path = ("agent_chains", name, "alert_types", index)
                if owner != name and self._findings.sound(*path):
                    message = f"alert type `{self._findings.written(path, alert_type)}` already starts the chain `{owner}`"
                    self._findings.add(path, message, "remove it from one of the chains: an alert starts exactly one")


def _can_dispatch(agent: AgentEntry) -> bool:
    return agent.type == "orchestrator" if agent.sub_agents is None else bool(agent.sub_agents)
