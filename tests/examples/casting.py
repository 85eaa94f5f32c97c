"""The crew with understudies: some agents say what a test has written, all others are rehearsed as ever.

Owns: a copy of the example that a test may change, who speaks for whom, questions to its rows. Must not know: any command.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree, ignore_patterns

from pydantic_core import to_json

from registry import ModelSpec, Settings, load
from runner.llm.models import Models
from runner.llm.protocol import Model, OnText, Reply, Request
from server.app import Blueprint, open_service
from tests.support.models import ScriptedModel, Turn, say
from tests.support.service import Bench
from tests.support.sources import ROOT

Understudy = Callable[[Request], Turn | None]
"""What an agent says to a request; None: as it is rehearsed."""


@dataclass
class Cast:
    """A `Model` for everybody, and who chooses it."""

    rehearsed: Models
    understudies: Mapping[str, Understudy]
    requests: list[Request] = field(default_factory=list)
    """All that was asked, in order."""
    cancelled: list[str] = field(default_factory=list)
    """Whose answer nobody waited for."""
    rehearses = True

    def choose(self, spec: ModelSpec) -> Model:
        """The same for every model."""
        return self

    async def complete(self, request: Request, on_text: OnText) -> Reply:
        """The understudy's answer, or the rehearsed one."""
        self.requests.append(request)
        understudy = self.understudies.get(request.agent) or self.understudies.get("*")
        turn = understudy(request) if understudy is not None else None
        if turn is None:
            return await self.rehearsed.choose(request.spec).complete(request, on_text)
        scripted = ScriptedModel({"*": lambda _: turn})
        try:
            return await scripted.complete(request, on_text)
        finally:
            self.cancelled += [each.agent for each in scripted.cancelled]

    async def close(self) -> None:
        """Nothing is open."""

    def asked(self) -> list[str]:
        """Who was asked, each once and in order."""
        return list(dict.fromkeys(request.agent for request in self.requests))


def returns(request: Request, **fields: object) -> Turn:
    """A standard return of a request's agent."""
    told = {"status": "completed", "summary": f"done by {request.agent}", "artifacts": []} | fields
    return say(to_json({**told, "metadata": {"session_id": request.session}}).decode())


def crew(folder: Path, changes: Mapping[str, str] | None = None) -> Settings:
    """A copy of the crew, with some of its text changed; what it writes is beside it."""
    copy = folder / "crew"
    copytree(ROOT / "examples" / "crew", copy, ignore=ignore_patterns("work"))
    text = (copy / "config.yaml").read_text(encoding="utf-8")
    for old, new in (changes or {}).items():
        assert old in text
        text = text.replace(old, new, 1)
    (copy / "config.yaml").write_text(text, encoding="utf-8")
    return load(copy / "config.yaml", {"LEAN_LSP": "no-such-lean-lsp"})


@asynccontextmanager
async def cast(
    folder: Path, understudies: Mapping[str, Understudy], changes: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[Bench, Cast]]:
    """A service on that copy."""
    settings = crew(folder, changes)
    models = Cast(Models(settings.models, {}), understudies)
    blueprint = Blueprint(settings, folder / "outrider.db", models=models)
    async with open_service(blueprint) as dispatcher:
        yield Bench(dispatcher, ScriptedModel({}), blueprint.database), models
