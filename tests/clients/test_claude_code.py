"""Claude Code dispatches an agent through `outrider serve` and reports its result, offline."""

import sqlite3
from pathlib import Path

import anyio

from tests.clients import claude_code
from tests.clients.served import serve
from tests.clients.stage import CONFIG, Play
from tests.conformance.page import PAGE
from tests.support.messages_api import Answer, Received, messages_api


async def test_claude_code_dispatches_an_agent_and_reports_its_result(tmp_path: Path) -> None:
    play = Play("asked by Claude Code")

    def choose(received: Received) -> Answer:
        if claude_code.is_asked(received):
            return claude_code.answer(received, f"Quick: count, {play.name}")
        return play.answer(received)

    with anyio.fail_after(50):
        async with messages_api(choose) as api:
            served = serve(tmp_path, CONFIG.format(url=api.url))
            program, *arguments = served.command
            entry = {"command": program, "args": arguments, "env": served.environ}
            told = await claude_code.converse(tmp_path, api.url, entry)

    assert f"Claude Code {told.start['claude_code_version']}" in PAGE.read_text(encoding="utf-8"), "run `make conformance`"
    assert [(server["name"], server["status"]) for server in told.start["mcp_servers"]] == [("outrider", "connected")]
    assert told.result == "The agent says: 42 files"
    with sqlite3.connect(tmp_path / "outrider.db") as database:
        assert database.execute("select agent, status from executions").fetchall() == [("Quick", "completed")]
