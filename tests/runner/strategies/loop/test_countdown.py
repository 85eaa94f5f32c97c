"""The countdown: a model is told once what runs low, and only what is limited."""

from pathlib import Path

import pytest

from runner.llm.protocol import Request
from runner.strategies.loop import notes as notes_module
from tests.runner.strategies.loop.spenders import MODELS, notes, steps
from tests.support.models import Turn, call, say
from tests.support.reading import shown
from tests.support.service import bench
from tests.support.spending import used


async def test_the_model_is_told_once_each_what_runs_low_and_only_what_is_limited(tmp_path: Path) -> None:
    config = (
        MODELS
        + """
agents:
  Turns: {max_iterations: 10}
  Money: {limits: {max_cost_usd: 0.15, max_iterations: 100}}
  Tokens: {limits: {max_tokens: 20000, max_iterations: 100}}
"""
    )

    def work(request: Request) -> Turn:
        if not request.tools:
            return say("concluded").using(used(request))
        return call("nothing").using(used(request, 300))

    async with bench(tmp_path, config, {"*": work}) as service:
        for agent in ("Turns", "Money", "Tokens"):
            await service.run(agent)

        told = {agent: notes(service.model.of(agent)[-1]) for agent in ("Turns", "Money", "Tokens")}
        assert [len(each) for each in told.values()] == [2, 1, 1]
        assert "You have 2 of your 10 turns left." in told["Turns"][0]
        assert "last turn with tools" in told["Turns"][1]
        assert "Of a budget of $0.1500, " in told["Money"][0]
        assert "Of a budget of 20,000 tokens, " in told["Tokens"][0]
        low = service.sql(
            "select json_extract(payload, '$.what') as what from events where type = 'budget.low' order by seq"
        )
        assert [row["what"] for row in low] == ["turns", "last_turn", "usd", "tokens"]
        assert all("turns" not in shown(request) for request in service.model.of("Money"))


async def test_the_model_is_told_that_its_time_runs_low_before_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes_module, "LAST_SHARE", 1.0)  # low from the beginning, however busy the machine is
    config = MODELS + "agents: {Left: {limits: {timeout: 100s}}}"
    async with bench(tmp_path, config, {"Left": steps(call("nothing"), say("done"))}) as service:
        await service.run("Left")

        first, second = service.model.requests
        assert notes(first) == notes(second)
        [told] = notes(first)
        assert "seconds left" in told
        assert [message.kind for message in first.messages] == ["task", "note"]  # last: what is cached stays as it is
