"""Agents: their models, tools, limits and sub-agents.

Owns: the shape of an `agents` entry, references to agents, and AgentSpec. Must not know: how a
strategy works or what a model replies. Invariant: a spec is complete; defaults are filled in.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from registry.specs.context import ContextEntry, ContextSpec, context_spec
from registry.specs.iterate import IterateEntry, IterateSpec, is_component, iterate_spec
from registry.specs.limits import FLAT_LIMITS, LimitOverrides
from registry.specs.plan import PLAN_TIMEOUT, PlanEntry, PlanSpec, plan_spec
from registry.specs.route import RouteEntry, RouteSpec, route_spec
from registry.specs.strategies import ROUTING_OR_PLAN, Behaviour, Strategy, StrategyName, behaviour
from registry.specs.tool_filter import ToolFilter, ToolFilterEntry, tool_filter
from registry.specs.workspaces import Use as WorkspaceUse
from registry.specs.workspaces import WorkspaceSpec
from registry.text.durations import Seconds
from registry.text.entry import Count, Entry, Flag, Line, Text
from registry.text.names import Directories

SCHEMAS = ("input_schema", "output_schema")
"""The settings that are JSON schemas: their content is not configuration."""
AgentType = Literal["", "orchestrator"]
Returns = Literal["", "standard"]
"""The form of an agent's answer."""
OnRestart = Literal["resume", "fail"]
"""What happens to an execution whose process has ended."""


class RequiresEntry(Entry):
    """`requires:` of an agent as written."""

    capabilities: tuple[Line, ...] = Field(default=(), description="capabilities that the user must have")
    connections: tuple[Line, ...] = Field(default=(), description="accounts the user must have connected")


@dataclass(frozen=True, slots=True)
class Requires:
    """The capabilities and connections a user must have for an agent to work for them."""

    capabilities: tuple[str, ...] = ()
    connections: tuple[str, ...] = ()


class Use(Entry):
    """An entry that uses an agent, with overrides for this use only."""

    name: Line = Field(description="the agent")
    model: Line | None = Field(default=None, description="another model, for this use only")
    max_iterations: Count | None = Field(default=None, description="other `max_iterations`, for this use only")
    mcp_servers: tuple[Line, ...] | None = Field(default=None, description="other servers, for this use only")


class ReferenceEntry(Use):
    """One element of `sub_agents` in its long form."""


def named(value: object) -> object:
    """Return the long form of a reference that is written as a bare name."""
    return {"name": value} if isinstance(value, str) else value


Reference = Annotated[ReferenceEntry, BeforeValidator(named, json_schema_input_type=str | ReferenceEntry)]


class AgentEntry(Entry):
    """One entry of `agents` as written."""

    description: Text = Field(
        default="", description="its purpose, for the agents that may dispatch it; without one it cannot be dispatched"
    )
    type: AgentType = Field(default="", description="`orchestrator`: without `sub_agents` it may dispatch every agent")
    model: Line | None = Field(default=None, description="a name from `models`; absent: `defaults.model`")
    mcp_servers: tuple[Line, ...] = Field(default=(), description="servers whose tools it has")
    custom_instructions: Text = Field(default="", description="its instructions, added to its system prompt unchanged")
    strategy: StrategyName | None = Field(default=None, description="how it behaves; absent: `loop`")
    iteration_strategy: StrategyName | None = Field(default=None, description="another name for `strategy`")
    sub_agents: tuple[Reference, ...] | None = Field(default=None, description="agents it may dispatch; `[]`: none")
    tools: ToolFilterEntry | None = Field(
        default=None, description="filter over all its tools; deny binds its whole subtree"
    )
    memory: Flag = Field(default=False, description="whether it has the tools that change the facts about its user")
    limits: LimitOverrides | None = Field(default=None, description="its limits")
    on_restart: OnRestart = Field(default="resume", description="after a crash: `resume` it, or `fail` it")
    requires: RequiresEntry = Field(
        default=RequiresEntry(), description="capabilities and connections that its user must have"
    )
    utilities: Flag = Field(default=False, description="whether it has the tools for dates and times")
    context: ContextEntry = Field(default=ContextEntry(), description="its context besides the task")
    plan: PlanEntry | None = Field(default=None, description="settings of the strategy `plan`")
    route: RouteEntry | None = Field(default=None, description="settings of the strategy `route`")
    iterate: IterateEntry | None = Field(default=None, description="settings of the strategy `iterate`")
    capabilities: tuple[Line, ...] = Field(
        default=(), description="its capabilities, for the agent that chooses among agents"
    )
    output_schema: dict[str, Any] | None = Field(default=None, description="JSON schema of its answer")
    require_tool_call: Flag = Field(default=False, description="whether its answer is accepted only after a tool call")
    max_tokens: Count | None = Field(default=None, description="the most tokens of one reply; absent: its model's")
    max_iterations: Count | None = Field(default=None, description="same as in `limits`")
    max_concurrent_agents: Count | None = Field(default=None, description="same as in `limits`")
    agent_timeout: Seconds | None = Field(default=None, description="same as in `limits`")
    timeout: Seconds | None = Field(default=None, description="same as in `limits`")
    input_schema: dict[str, Any] | None = Field(default=None, description="JSON schema of the input it takes")
    workspaces: tuple[WorkspaceUse, ...] = Field(
        default=(), description="folders whose files its tools may use: names from `workspaces`, or its own with a `path`"
    )
    returns: Returns = Field(
        default="", description="`standard`: its answer has status, summary, artifacts and metadata, which are checked"
    )
    function: Line | None = Field(
        default=None, description="`module:name` of a Python function that is this agent, without a model"
    )

    @model_validator(mode="after")
    def _one_meaning(self) -> Self:
        flat_limits(self)
        first, second = self.strategy, self.iteration_strategy
        if first is not None and second is not None and behaviour(first) != behaviour(second):
            raise PydanticCustomError(
                "two_meanings",
                "`strategy` and `iteration_strategy` are one setting and have different values here",
                {"at": "iteration_strategy", "hint": "remove `iteration_strategy`"},
            )
        if self.returns and self.output_schema is not None:
            raise PydanticCustomError(
                "two_forms",
                "`output_schema` and `returns` both set the form of the answer",
                {"at": "returns", "hint": "remove one of them; a standard return may have fields of its own"},
            )
        return self


def flat_limits(entry: Entry) -> LimitOverrides:
    """Return the limits of an entry, written flat or in its `limits` block; both and different is an error."""
    block: LimitOverrides = getattr(entry, "limits", None) or LimitOverrides()
    flat = {name: value for name in FLAT_LIMITS if (value := getattr(entry, name, None)) is not None}
    for name, value in flat.items():
        inner = getattr(block, name)
        if inner is not None and inner != value:
            raise PydanticCustomError(
                "two_values",
                "`{name}` and `limits.{name}` are one setting and have different values here",
                {"name": name, "at": name, "hint": f"remove one of the two `{name}`"},
            )
    return block.model_copy(update=flat)


@dataclass(frozen=True, slots=True)
class AgentOverrides:
    """The overrides of one use of an agent: on a reference in `sub_agents`, or on an agent of a stage."""

    model: str | None = None
    mcp_servers: tuple[str, ...] | None = None
    limits: LimitOverrides = LimitOverrides()


NO_OVERRIDES = AgentOverrides()


@dataclass(frozen=True, slots=True)
class AgentReference:
    """An agent named in a `sub_agents` list."""

    name: str
    overrides: AgentOverrides = NO_OVERRIDES


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """An agent. `limits` is its own layer only; `Settings.limits_for` gives the resolved ones."""

    name: str
    description: str = ""
    type: AgentType = ""
    model: str = ""
    mcp_servers: tuple[str, ...] = ()
    custom_instructions: str = ""
    strategy: Strategy = "loop"
    thinking: bool = False
    sub_agents: tuple[AgentReference, ...] | None = None
    tools: ToolFilter = ToolFilter()
    memory: bool = False
    limits: LimitOverrides = LimitOverrides()
    on_restart: OnRestart = "resume"
    requires: Requires = Requires()
    utilities: bool = False
    context: ContextSpec = ContextSpec()  # noqa: RUF009 - frozen
    plan: PlanSpec = field(default_factory=PlanSpec)
    route: RouteSpec = field(default_factory=RouteSpec)
    iterate: IterateSpec = field(default_factory=IterateSpec)
    capabilities: tuple[str, ...] = ()
    output_schema: Mapping[str, Any] | None = None
    require_tool_call: bool = False
    max_tokens: int | None = None
    workspaces: tuple[WorkspaceSpec, ...] = ()
    returns: Returns = ""
    function: str = ""
    """`module:name` of a configured function."""
    input_schema: Mapping[str, Any] | None = None
    is_component: bool = False
    """Whether it is a built-in component of agents that iterate, and not the user's own agent of that name."""

    @property
    def in_form(self) -> bool:
        """Say whether its answer is structured data."""
        return self.output_schema is not None or bool(self.returns)

    @property
    def dispatchable(self) -> bool:
        """Say whether catalogues can hold it: only a description tells a caller its purpose."""
        return bool(self.description.strip())

    @property
    def has_objective(self) -> bool:
        """Say whether it has an objective of its own and needs no task."""
        return self.strategy == "iterate" and self.iterate.objective is not None

    @property
    def can_dispatch(self) -> bool:
        """Say whether its own definition lets it dispatch, apart from a chain's `sub_agents`."""
        return self.has_whole_registry if self.sub_agents is None else bool(self.sub_agents)

    @property
    def has_whole_registry(self) -> bool:
        """Say whether it may dispatch every agent when there is no `sub_agents` list."""
        return self.type == "orchestrator" or self.strategy in ROUTING_OR_PLAN

    @property
    def staff(self) -> tuple[str, ...]:
        """Return the names of the agents that work for its strategy."""
        if self.strategy == "plan":
            return (self.plan.planner, self.plan.composer)
        if self.strategy == "route":
            route = self.route
            chosen = () if self.sub_agents == () else (route.classifier, route.planner, self.plan.composer)
            return (*chosen, route.respondent, *route.commanded)
        return ()

    def overridden(self, overrides: AgentOverrides) -> "AgentSpec":
        """Return the agent with the overrides of one use."""
        return self if overrides == NO_OVERRIDES else _with(self, overrides)


def _with(agent: AgentSpec, overrides: AgentOverrides) -> AgentSpec:
    return replace(
        agent,
        model=agent.model if overrides.model is None else overrides.model,
        mcp_servers=agent.mcp_servers if overrides.mcp_servers is None else overrides.mcp_servers,
        limits=overrides.limits.over(agent.limits),
    )


def use_of(entry: Use, names: Directories) -> AgentOverrides:
    """Return the overrides of an entry that uses an agent."""
    servers = None if entry.mcp_servers is None else tuple(map(names.servers.canonical, entry.mcp_servers))
    model = None if entry.model is None else names.models.canonical(entry.model)
    return AgentOverrides(model, servers, flat_limits(entry))


def references(entries: tuple[ReferenceEntry, ...] | None, names: Directories) -> tuple[AgentReference, ...] | None:
    """Return the references of a `sub_agents` list; None when there is no list."""
    if entries is None:
        return None
    return tuple(AgentReference(names.agents.canonical(entry.name), use_of(entry, names)) for entry in entries)


def own_limits(entry: AgentEntry) -> LimitOverrides:
    """Return an agent's own layer of limits: its settings and the defaults of its strategy."""
    limits = flat_limits(entry)
    if limits.timeout is None and agent_behaviour(entry).strategy == "plan":
        return limits.model_copy(update={"timeout": PLAN_TIMEOUT})
    return limits


def agent_behaviour(entry: AgentEntry) -> Behaviour:
    """Return the strategy of an entry, under either of its names."""
    return behaviour(entry.strategy or entry.iteration_strategy or ("loop" if entry.function is None else "function"))


def agent_spec(name: str, entry: AgentEntry, default_model: str, names: Directories) -> AgentSpec:
    """Return the spec of a checked entry."""
    meaning = agent_behaviour(entry)
    return AgentSpec(
        name=name,
        description=entry.description,
        type=entry.type,
        model=names.models.canonical(entry.model or default_model),
        mcp_servers=tuple(map(names.servers.canonical, entry.mcp_servers)),
        custom_instructions=entry.custom_instructions,
        strategy=meaning.strategy,
        thinking=meaning.thinking,
        sub_agents=references(entry.sub_agents, names),
        tools=tool_filter(entry.tools),
        memory=entry.memory,
        limits=own_limits(entry),
        on_restart=entry.on_restart,
        requires=Requires(entry.requires.capabilities, entry.requires.connections),
        utilities=entry.utilities,
        context=context_spec(entry.context),
        plan=plan_spec(entry.plan, names),
        route=route_spec(entry.route, names),
        iterate=iterate_spec(entry.iterate, names),
        capabilities=entry.capabilities,
        output_schema=entry.output_schema,
        require_tool_call=entry.require_tool_call,
        max_tokens=entry.max_tokens,
        returns=entry.returns,
        function=entry.function or "",
        input_schema=entry.input_schema,
        is_component=is_component(name, entry.description),
    )


def as_entry(agent: AgentSpec) -> AgentEntry:
    """Return an agent registered in code as an entry, with the fields that the rules read."""
    listed = None if agent.sub_agents is None else tuple(ReferenceEntry(name=each.name) for each in agent.sub_agents)
    taken, given = (None if each is None else dict(each) for each in (agent.input_schema, agent.output_schema))
    return AgentEntry(
        description=agent.description, type=agent.type, sub_agents=listed, input_schema=taken, output_schema=given
    )
