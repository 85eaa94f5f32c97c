"""An agent that cannot pay for one more call hands up what there is: its own words and what its agents reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.llm.protocol import Request, Usage
from tests.runner.spenders import MODELS
from tests.support.models import Turn, say
from tests.support.reading import dispatch
from tests.support.service import bench
from tests.support.spending import used

BUDGETS = [("max_cost_usd: 0.1", "cost_budget"), ("max_tokens: 30000", "token_budget")]
DEAR = Usage(input_tokens=24_000, cache_write_tokens=4_000, output_tokens=50)
"""More than anybody could have estimated of a short prompt."""

LEAD = """
agents:
  Lead: {{sub_agents: [Left, Right], limits: {{{limit}}}}}
  Left: {{description: looks left}}
  Right: {{description: looks right}}
"""


@pytest.mark.parametrize("said", ["", "I send two."])
@pytest.mark.parametrize(("limit", "reason"), [*BUDGETS, ("max_iterations: 2", "max_iterations")])
async def test_an_agent_that_gets_no_conclusion_hands_up_what_its_agents_reported(
    tmp_path: Path, limit: str, reason: str, said: str
) -> None:
    """Its money is gone, or the conclusion it is asked for says nothing."""

    def answer(request: Request) -> Turn:
        if request.agent == "Lead":
            words = say(said) if said and request.tools else Turn()
            sends = dispatch("Left") + dispatch("Right") if len(request.messages) == 1 else Turn()
            return (words + sends).using(used(request))
        return say(f"{request.agent}: " + "the disk is full. " * 500).using(DEAR)

    async with bench(tmp_path, MODELS + LEAD.format(limit=limit), {"*": answer}) as service:
        ended = await service.run("Lead", "look")

        assert all(request.tools for request in service.model.of("Lead")) == (reason != "max_iterations")
        assert ended.result is not None
        assert (ended.status, ended.result.outcome, ended.result.reason) == ("completed", "partial", reason)
        assert ended.result.summary == (said or f"There was no conclusion ({reason}). Its agents reported:")
        for name in ("Left", "Right"):
            assert f"### {name} (completed)\n\n{name}: {'the disk is full. ' * 500}".strip() in ended.result.text
        [row] = service.sql("select status, outcome, reason, error from executions where agent = 'Lead'")
        assert row == {"status": "completed", "outcome": "partial", "reason": reason, "error": None}
