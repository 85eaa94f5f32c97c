"""What the configuration declares, and how its servers are: agents, chains, upstreams, values with their lines, prices.

Owns these answers. Must not know: who asks; nothing here belongs to a principal. Invariant: no value is a secret, and no
server is started to answer.
"""

from __future__ import annotations

from typing import Any, Literal

from registry import AgentSpec, ChainSpec, ModelSpec, Settings, UpstreamSpec, load, values
from runner.service.dispatcher import Dispatcher
from runner.tools.upstream.pool import Upstreams
from server.api.endpoint import ApiCall
from server.project import packaged_config
from server.views.columns import ViewModel

SHOWN_LIMITS = ("timeout", "max_iterations", "max_concurrent_agents", "agent_timeout", "max_depth", "max_cost_usd")
BUILT_IN = "built-in"
DEMO_CHAIN = "sre-investigation"


class DeclaredAgent(ViewModel):
    """An agent that can be started."""

    name: str
    strategy: str
    description: str
    model: str | None
    """None: it asks no model."""
    function: str | None
    capabilities: list[str]
    input_schema: dict[str, Any] | None
    """JSON schema of its input; None: it takes a task only."""
    commands: list[str]
    workspaces: list[str]
    mcp_servers: list[str]
    sub_agents: list[str]
    limits: dict[str, float | None]
    origin: str
    """`config.yaml:14`, or `built-in`."""


class DeclaredStage(ViewModel):
    """A stage of a chain."""

    name: str
    agents: list[str]


class DeclaredChain(ViewModel):
    """A chain that can be started."""

    name: str
    description: str
    alert_types: list[str]
    stages: list[DeclaredStage]
    limits: dict[str, float | None]
    origin: str


class DeclaredAgents(ViewModel):
    """What can be started."""

    agents: list[DeclaredAgent]
    chains: list[DeclaredChain]


class UpstreamTool(ViewModel):
    """A tool of an upstream server."""

    name: str
    description: str
    effect: str
    gate: str


class UpstreamState(ViewModel):
    """An upstream server, as this process sees it."""

    name: str
    transport: Literal["stdio", "http"]
    state: Literal["idle", "connecting", "ready", "unavailable"]
    error: str | None
    tools: list[UpstreamTool] | None
    """None while they are not known."""
    agents: list[str]
    """Who may use it."""
    origin: str


class UpstreamList(ViewModel):
    """The upstream servers of the configuration."""

    upstreams: list[UpstreamState]


class ConfigValue(ViewModel):
    """One value of the effective configuration."""

    path: str
    value: Any
    origin: str
    """`config.yaml:14`, `built-in` or `default`."""


class ModelPrice(ViewModel):
    """What a million tokens of a model cost, in dollars; None where no price is known."""

    name: str
    model: str
    input: float | None
    output: float | None
    cache_read: float | None
    cache_write: float | None
    origin: str


class EffectiveConfiguration(ViewModel):
    """Every value of the effective configuration, in the order of the file."""

    source: str
    values: list[ConfigValue]
    prices: list[ModelPrice]


async def agents(call: ApiCall) -> DeclaredAgents:
    settings = call.caller.settings
    offered = {entry.name for entry in call.caller.catalogue}
    return DeclaredAgents(
        agents=[_agent(settings, each) for each in settings.agents.values() if each.name in offered],
        chains=[_chain(settings, each) for each in settings.chains.values()],
    )


async def upstreams(call: ApiCall) -> UpstreamList:
    dispatcher = call.dispatcher
    return UpstreamList(upstreams=[_upstream(dispatcher, each) for each in dispatcher.services.settings.upstreams.values()])


async def configuration(call: ApiCall) -> EffectiveConfiguration:
    settings = call.caller.settings
    return EffectiveConfiguration(
        source=settings.source.name if call.caller.who.principal is not None else str(settings.source),
        values=[ConfigValue(path=each.path, value=each.value, origin=each.origin) for each in values(settings)],
        prices=[_price(settings, each) for each in settings.models.values()],
    )


def can_start_demo(call: ApiCall) -> bool:
    """Whether the caller may start the packaged investigation: a person at this machine, or where it is configured."""
    return call.caller.who.principal is None or call.caller.settings.source == packaged_config()


def demo_settings() -> Settings:
    """The configuration of `outrider demo`: the packaged one, with every model rehearsed."""
    return load(packaged_config()).rehearsed()


def _agent(settings: Settings, agent: AgentSpec) -> DeclaredAgent:
    limits = settings.limits_for(agent)
    return DeclaredAgent(
        name=agent.name,
        strategy=agent.strategy,
        description=agent.description,
        model=agent.model if agent.strategy != "function" else None,
        function=agent.function or None,
        capabilities=list(agent.capabilities),
        input_schema=dict(agent.input_schema) if agent.input_schema is not None else None,
        commands=[command.usage for command in agent.route.commands.values()],
        workspaces=[workspace.name for workspace in agent.workspaces],
        mcp_servers=list(agent.mcp_servers),
        sub_agents=[entry.name for entry in settings.catalogue(agent)],
        limits={name: getattr(limits, name) for name in SHOWN_LIMITS},
        origin=settings.defined_at("agents", agent.name) or BUILT_IN,
    )


def _chain(settings: Settings, chain: ChainSpec) -> DeclaredChain:
    limits = settings.limits_for_chain(chain)
    return DeclaredChain(
        name=chain.name,
        description=chain.description,
        alert_types=list(chain.alert_types),
        stages=[
            DeclaredStage(name=stage.name, agents=[each.name for each in stage.agents for _ in range(each.replicas)])
            for stage in chain.stages
        ],
        limits={name: getattr(limits, name) for name in SHOWN_LIMITS},
        origin=settings.defined_at("agent_chains", chain.name) or BUILT_IN,
    )


def _upstream(dispatcher: Dispatcher, spec: UpstreamSpec) -> UpstreamState:
    settings, pool = dispatcher.services.settings, dispatcher.services.upstreams
    connection = pool.state(spec.name)
    return UpstreamState(
        name=spec.name,
        transport="stdio" if spec.command is not None else "http",
        state=connection.state,
        error=connection.error,
        tools=_tools(pool, spec, connection.listing) if connection.listing is not None else None,
        agents=[each.name for each in settings.agents.values() if spec.name in each.mcp_servers],
        origin=settings.defined_at("mcp_servers", spec.name) or BUILT_IN,
    )


def _tools(pool: Upstreams, spec: UpstreamSpec, listing: Any) -> list[UpstreamTool]:
    return [
        UpstreamTool(name=each.name, description=each.description, effect=each.effect, gate=each.gate)
        for each in pool.offered(spec.name, listing)
    ]


def _price(settings: Settings, model: ModelSpec) -> ModelPrice:
    price, own = model.price, settings.defined_at("models", model.name, "price")
    return ModelPrice(
        name=model.name,
        model=model.model,
        input=price.input if price is not None else None,
        output=price.output if price is not None else None,
        cache_read=price.cache_read if price is not None else None,
        cache_write=price.cache_write if price is not None else None,
        origin=own or settings.defined_at("models", model.name) or BUILT_IN,
    )
