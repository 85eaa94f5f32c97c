"""A service that is stopped, and the one that goes on with what it left: what tests of resuming start.

Owns: a configuration, the second service, small questions to the rows. Must not know: what a test expects.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from runner.llm.protocol import Request
from tests.support.local_tools import LocalTools
from tests.support.models import Script, Turn, say
from tests.support.reading import delivered
from tests.support.service import Bench, bench

CONFIG = """
defaults: {limits: {max_concurrent_agents: 2}}
agents:
  Lead: {sub_agents: [Middle, Leaf, Fragile], description: leads}
  Middle: {sub_agents: [Leaf], description: leads less}
  Leaf: {description: looks}
  Fragile: {description: cannot be resumed, on_restart: fail}
agent_chains:
  line: {stages: [{name: one, agents: [Leaf, Middle]}, {name: two, agents: [Lead]}]}
  brittle: {on_restart: fail, stages: [{name: one, agents: [Leaf]}]}
"""


@asynccontextmanager
async def after_a_stop(
    folder: Path, scripts: Mapping[str, Script], tools: LocalTools | None = None, config: str = CONFIG
) -> AsyncIterator[Bench]:
    """A service that goes on with what the one before left."""
    extra = tools.for_agents("Leaf", "Lead") if tools is not None else ()
    async with bench(folder, config, scripts, extra) as service:
        await service.dispatcher.adopt()
        yield service


def with_all(count: int, turn: Callable[[Request], Turn]) -> Callable[[Request], Turn]:
    """Wait until so many results are there, then answer."""
    return lambda request: turn(request) if len(delivered(request)) == count else say("waiting")


def tree(service: Bench) -> list[tuple[str, str, int]]:
    rows = service.sql("select agent, status, attempt from executions order by id")
    return [(row["agent"], row["status"], row["attempt"]) for row in rows]
