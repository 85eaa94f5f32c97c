"""Readiness: the needs of an interrupted tree, and those that this process lacks.

Owns the answer, as data: a process that lacks a need leaves the tree to another one. Invariant: a check calls no model,
starts no server and changes nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from db.rows.interrupted import Need
from registry import COMPOSITE, AgentSpec, ConfigError, ModelSpec, Settings, missing_variables
from runner.errors import RunnerError
from runner.strategies.requests import first_agents
from runner.tools.upstream.process import CannotStart, ServerCommand, program_of

log = logging.getLogger("outrider.adoption")

Kind = Literal["configuration", "variable", "agent", "key", "rehearsal", "function", "program"]

_WORDS: Mapping[Kind, str] = {
    "configuration": "its configuration",
    "variable": "{name}",
    "agent": "the agent `{name}`",
    "key": "{name}",
    "rehearsal": "the rehearsal `{name}`",
    "function": "the function `{name}`",
    "program": "the program `{name}`",
}


@dataclass(frozen=True, slots=True)
class Lack:
    """A need of a tree that this process lacks."""

    kind: Kind
    name: str
    hint: str
    """What to do, as an imperative."""

    def __str__(self) -> str:
        """The need in a few words."""
        return _WORDS[self.kind].format(name=self.name)


class Unready(RunnerError):
    """An execution cannot be resumed in this process. Nothing was written."""

    def __init__(self, execution: str, lacks: Sequence[Lack]) -> None:
        hints = dict.fromkeys(lack.hint for lack in lacks)
        super().__init__(f"execution `{execution}` cannot be resumed here: it needs {listed(lacks)}", "; ".join(hints))
        self.lacks = tuple(lacks)


def listed(lacks: Iterable[Lack]) -> str:
    """The needs, in one line."""
    return ", ".join(dict.fromkeys(map(str, lacks)))


@dataclass(slots=True)
class Readiness:
    """The capabilities of this process: environment variables and restorable configurations. Answers are cached."""

    environ: Mapping[str, str]
    """Constant for the life of the process, so a cached answer stays valid."""
    snapshot: Callable[[str], Awaitable[str | None]]
    """The stored text of a configuration."""
    settings: Callable[[str, str], Awaitable[Settings]]
    """The settings of a configuration, by hash and text; raises ConfigError if it cannot be restored."""
    asks_environ: bool = True
    """Whether models need keys from the environment; False for a program with its own models."""
    _configurations: dict[str | None, Settings | tuple[Lack, ...]] = field(default_factory=dict)
    _answers: dict[Need, tuple[Lack, ...]] = field(default_factory=dict)

    def know(self, settings: Settings) -> None:
        """Register loaded settings, so that they need not be restored."""
        self._configurations[settings.hash] = settings

    async def lacks(self, needs: Iterable[Need]) -> tuple[Lack, ...]:
        """The lacks for all of these needs, each once."""
        found: dict[Lack, None] = {}
        for need in needs:
            if need not in self._answers:
                self._answers[need] = await self._looked(need)
            found.update(dict.fromkeys(self._answers[need]))
        return tuple(found)

    async def _looked(self, need: Need) -> tuple[Lack, ...]:
        if need.config_hash not in self._configurations:
            self._configurations[need.config_hash] = await self._restored(need.config_hash)
        settings = self._configurations[need.config_hash]
        return settings if isinstance(settings, tuple) else tuple(dict.fromkeys(self._of_execution(settings, need)))

    async def _restored(self, config_hash: str | None) -> Settings | tuple[Lack, ...]:
        body = await self.snapshot(config_hash) if config_hash is not None else None
        if config_hash is None or body is None:
            return (Lack("configuration", config_hash or "", "start the execution again: its configuration is not stored"),)
        source = Path(json.loads(body)["source"])
        if missing := missing_variables(body, self.environ):
            return tuple(Lack("variable", name, f"set `{name}`") for name in missing)
        try:
            return await self.settings(config_hash, body)
        except ConfigError as error:
            problem = error.problems[0]
            mended = f"{problem.message} ({problem.path})" if problem.path else problem.message
            return (Lack("configuration", str(source), f"restore what `{source.name}` needs: {mended}"),)
        except Exception as error:
            log.info("the configuration %s cannot be restored", config_hash, exc_info=True)
            return (Lack("configuration", str(source), f"restore what `{source.name}` needs: {error}"),)

    def _of_execution(self, settings: Settings, need: Need) -> Iterator[Lack]:
        subject = settings.find(need.agent)
        if subject is None:
            # Components of an iteration may have names of their own; a root and a function must be configured.
            if need.is_root or need.strategy == "function":
                yield Lack("agent", need.agent, f"start the program that registers the agent `{need.agent}`")
            return
        others = list(first_agents(settings, subject))
        for agent in (*([subject] if isinstance(subject, AgentSpec) else ()), *others):
            yield from _missing_function(settings, agent)
            yield from _missing_program(settings, agent)
        yield from self.lacks_of_models(settings, need)

    def lacks_of_models(self, settings: Settings, need: Need) -> tuple[Lack, ...]:
        """The lacks for the model calls of an agent or chain."""
        subject = settings.find(need.agent)
        if subject is None:
            return ()
        specs = [settings.model_of(agent) for agent in first_agents(settings, subject) if _asks(agent)]
        if isinstance(subject, AgentSpec) and _asks(subject):
            specs.insert(0, _own_model(settings, subject, need))
        return tuple(lack for spec in specs for lack in self._of_model(spec, settings, need))

    def _of_model(self, spec: ModelSpec, settings: Settings, need: Need) -> Iterator[Lack]:
        if not self.asks_environ or (self.environ.get(spec.api_key_env) and not settings.rehearse):
            return
        if spec.rehearsal is None or (need.asked and not settings.rehearse):
            yield Lack("key", spec.api_key_env, f"set `{spec.api_key_env}`")
        elif not spec.rehearsal.is_file():
            yield Lack("rehearsal", str(spec.rehearsal), f"restore the file `{spec.rehearsal}`")


def _asks(agent: AgentSpec) -> bool:
    return agent.strategy not in ("function", *COMPOSITE)


def _own_model(settings: Settings, agent: AgentSpec, need: Need) -> ModelSpec:
    """The agent's model; a chain or caller may have overridden it, in which case its row names the other one."""
    spec = settings.model_of(agent)
    if need.model in (None, spec.model):
        return spec
    return next((other for other in settings.models.values() if other.model == need.model), spec)


def _missing_function(settings: Settings, agent: AgentSpec) -> Iterator[Lack]:
    """The module is located, not imported: importing would run user code."""
    if agent.function:
        top, folder = agent.function.partition(":")[0].partition(".")[0], settings.source.parent
        if not (folder / f"{top}.py").exists() and not (folder / top).is_dir() and find_spec(top) is None:
            yield Lack("function", agent.function, f"put `{top}.py` beside `{settings.source.name}`, or install it")


def _missing_program(settings: Settings, agent: AgentSpec) -> Iterator[Lack]:
    """Checks required servers only: without an optional one the agent works and reports it."""
    for server, program, _ in absent_programs(settings, agent):
        yield Lack("program", program, f"install `{program}` for the server `{server}`")


def absent_programs(settings: Settings, agent: AgentSpec) -> Iterator[tuple[str, str, CannotStart]]:
    """The required servers of an agent whose program is missing on this machine; none is started."""
    for server in settings.required_servers(agent):
        spec = settings.upstream(server)
        if spec.command is None:
            continue
        try:
            program_of(ServerCommand(spec.command, spec.env, spec.cwd))
        except CannotStart as error:
            yield server, spec.command[0], error
