"""What an answer cites: handles of calls that were made are evidence, others are shown as what they are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from runner.llm.protocol import Request
from runner.result import handles_of
from server.cli.show.execution_view import load_view
from tests.support.models import call, say
from tests.support.reading import dispatch
from tests.support.servers import raw_server
from tests.support.service import bench

CONFIG = f"""
mcp_servers: {{box: {raw_server("plain")}}}
agents:
  Lead: {{sub_agents: [Scout], mcp_servers: [box]}}
  Scout: {{description: scouts, mcp_servers: [box]}}
"""


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("see toolu_01AbC9, (toolu_01AbC9) and `toolu_02`.", ["toolu_01AbC9", "toolu_02"]),
        ("[call abc-7] and [call: chatcmpl-tool-99aa]", ["abc-7", "chatcmpl-tool-99aa"]),
        ("tооlu_77 and ｔoolu_78", ["tооlu_77", "ｔoolu_78"]),
        ("call_count, my_toolu_1, recall [call me] toolu", []),
        ("", []),
    ],
)
def test_handles_are_known_wherever_they_stand_and_however_they_are_spelled(text: str, cited: list[str]) -> None:
    assert handles_of(text) == cited


def cited(request: Request) -> str:
    """The call that a model has seen: its own, or one in a report."""
    found = re.findall(r"\[~?call ([\w-]+)\]", str([message.content for message in request.messages]))
    return str(found[0])


async def test_evidence_that_no_call_of_the_tree_shows_is_told_to_every_reader(tmp_path: Path) -> None:
    scripts = {
        "Lead": [
            dispatch("Scout"),
            say("waiting"),
            lambda request: say(f"found: [call {cited(request)}] and toolu_invented"),
        ],
        "Scout": [call("box__well"), lambda request: say(f"well: [call {cited(request)}], also [call toolu_forged99]")],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        ended = await service.run("Lead")

        assert ended.status == "completed"
        assert ended.result is not None
        told = "unverified evidence: no call of this tree has the id `toolu_invented`"
        assert ended.result.metadata["unverified"] == ["toolu_invented"]
        assert told in ended.result.metadata["warnings"]
        [scout] = service.sql("select result from executions where agent = 'Scout'")
        assert json.loads(scout["result"])["metadata"]["unverified"] == ["toolu_forged99"]
        report = service.model.of("Lead")[-1].messages[-1].text
        assert "Caution: unverified evidence: no call of this tree has the id `toolu_forged99`." in report
        view = await load_view(service.dispatcher.services.database.reads, service.database, ended.id)
        assert f"evidence   {told}" in view.facts_text()
