"""Claude Code dispatches an agent through `outrider serve` and reports its result, offline."""

import sqlite3
from pathlib import Path

import anyio

from tests.clients import claude_code
from tests.clients.served import serve
from tests.clients.stage import CONFIG
from tests.conformance.page import PAGE
from tests.support.messages_api import Answer, Received, messages_api, reply, text


async def test_claude_code_dispatches_an_agent_and_reports_its_result(tmp_path: Path) -> None:
    def choose(received: Received) -> Answer:
        return claude_code.answer(received) if claude_code.is_asked(received) else reply(text("42 files"))

    with anyio.fail_after(50):
        async with messages_api(choose) as api:
            told = await claude_code.converse(tmp_path, api, serve(tmp_path, CONFIG.format(url=api.url)).entry)

    assert [(server["name"], server["status"]) for server in told.start["mcp_servers"]] == [("outrider", "connected")]
    assert told.result == "The agent says: 42 files"
    with sqlite3.connect(tmp_path / "outrider.db") as database:
        assert database.execute("select agent, status from executions").fetchall() == [("Quick", "completed")]
    assert f"Claude Code {told.start['claude_code_version']}" in PAGE.read_text(encoding="utf-8"), "run `make conformance`"
