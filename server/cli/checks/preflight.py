"""The checks before a run writes anything: the name exists, and every model that may be used has a key or a rehearsal.

Owns the walk over the agents an order may reach. Must not know: how they run. Invariant: it raises, or changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from registry import COMPOSITE, AgentSpec, CatalogueEntry, ChainSpec, ModelSpec, Settings, StagePlace
from runner.errors import ServerMissing
from runner.llm.models import Models
from runner.resume.readiness import absent_programs
from runner.strategies.requests import first_agents
from runner.strategies.route.commands.parse import call_in
from server.cli.terminal.exits import CommandError


def check(settings: Settings, name: str, environ: Mapping[str, str], *, task: str = "", rehearse: bool = False) -> None:
    """Refuse an unknown name, a command that is written wrong, a model that cannot be asked and a server without a
    program; raises UnknownName, Refusal, NoModel, ServerMissing.
    """
    Models(settings.models, environ, rehearse=rehearse).check(_models(settings, name, task))
    if call_in(subject := settings.agent_or_chain(name), task) is None:
        for agent, _ in _first(settings, subject):
            _check_servers(settings, agent)


def _check_servers(settings: Settings, agent: AgentSpec) -> None:
    """Refuse when a server that the agent cannot work without is no program of this machine; none is started."""
    for name, _, error in absent_programs(settings, agent):
        raise ServerMissing(agent.name, name, str(error)) from error


def check_live(settings: Settings, name: str, environ: Mapping[str, str]) -> None:
    """Refuse when a model in reach has no key, whether or not something could stand in for it."""
    for spec in _models(settings, name):
        if not environ.get(spec.api_key_env):
            message = f"the model `{spec.name}` has no API key"
            raise CommandError(message, f"set `{spec.api_key_env}`, or omit `--live` for a rehearsed run")


def _models(settings: Settings, name: str, task: str = "") -> list[ModelSpec]:
    return list({spec.name: spec for spec in map(settings.model, _model_names(settings, name, task))}.values())


def _model_names(settings: Settings, name: str, task: str) -> Iterator[str]:
    """The models of an agent or chain, of every agent that may be dispatched below it, and of those who work for them."""
    subject = settings.agent_or_chain(name)
    command = call_in(subject, task)
    if command is None:
        waiting = list(_first(settings, subject))
    else:
        waiting = [(each, settings.catalogue(each)) for each in map(settings.agent, command.command.agents)]
    seen: set[tuple[str, str]] = set()
    while waiting:
        agent, catalogue = waiting.pop()
        if (agent.name, agent.model) in seen:
            continue
        seen.add((agent.name, agent.model))
        if agent.strategy in COMPOSITE:  # asks no model itself, but has others ask theirs
            waiting += [(each, settings.catalogue(each)) for each in first_agents(settings, agent)]
        elif agent.strategy != "function":
            yield agent.model
        for entry in catalogue:
            child = settings.agent(entry.name).overridden(entry.overrides)
            waiting.append((child, settings.catalogue(child)))
        waiting += [(each, settings.catalogue(each)) for each in map(settings.agent, agent.staff)]


def _first(settings: Settings, subject: AgentSpec | ChainSpec) -> Iterator[tuple[AgentSpec, tuple[CatalogueEntry, ...]]]:
    if isinstance(subject, AgentSpec):
        yield subject, settings.catalogue(subject)
        return
    for stage in subject.stages:
        for stage_agent in stage.agents:
            place = StagePlace(subject, stage, stage_agent)
            agent = settings.stage_agent(place)
            yield agent, settings.catalogue(agent, place)
        if sum(stage_agent.replicas for stage_agent in stage.agents) > 1:
            yield settings.agent(stage.synthesis), ()
