"""The command line and an MCP client before the same database: the same work, the same rows, the same answers."""

import json
import re
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from db.ids import ALPHABET
from tests.server.cli.test_run import ALERT
from tests.support.requirement import requirement
from tests.support.shell import SCRIPT, Shell, make_shell

_ID = re.compile(rf"\b(1[{ALPHABET}]{{36}}|sess_\d+_[a-z0-9]{{6}})\b")
COLUMNS = (
    "agent, role, strategy, stage, position, depth, path, task, input, status, outcome, reason, error_type, error, "
    "timeout_seconds, model, turns, tool_call_count, input_tokens, output_tokens, budget_usd, config_hash, "
    "session_id, principal"
)


def trace(shell: Shell, root: str) -> list[dict[str, Any]]:
    """What a tree leaves behind, but for ids and times."""
    rows = shell.rows(f"select {COLUMNS} from executions where root_execution_id = '{root}' order by path, position")
    said = shell.rows(
        "select messages.role, kind, content from messages join executions e on e.id = execution_id "
        f"where e.root_execution_id = '{root}' order by e.path, messages.position"
    )
    events = shell.rows(f"select type from events where root_execution_id = '{root}' order by execution_id, seq")
    return [json.loads(_ID.sub("ID", json.dumps(row))) for row in (*rows, *said, *events)]


@requirement("S2-MC-8", "S2-MC-9")
async def test_chains_agents_and_questions_in_sql_are_the_same_from_both_sides(tmp_path: Path) -> None:
    shell = make_shell(tmp_path)
    parameters = StdioServerParameters(command=str(SCRIPT), args=["serve"], cwd=shell.folder, env=shell.surroundings())
    (shell.folder / "alert.json").write_text(json.dumps(ALERT), encoding="utf-8")
    query = "select agent, status, count(*) as n from executions group by agent, status order by agent"
    with anyio.fail_after(60):
        async with Client(parameters) as client:
            chain = await _run(client, "run_chain", chain="look", input=ALERT)
            agent = await _run(client, "run_agent", name="Quick", task="look", wait_seconds=0)
            typed = await anyio.to_thread.run_sync(shell.json, "run", "look", "--alert", "alert.json")
            again = await anyio.to_thread.run_sync(shell.json, "run", "Quick", "look")
            asked = (await client.call_tool("query_executions", {"sql": query})).structured_content["rows"]
            answered = await anyio.to_thread.run_sync(shell.json, "sql", query)

    assert trace(shell, chain) == trace(shell, typed["execution_id"])
    assert trace(shell, agent) == trace(shell, again["execution_id"])
    assert asked == answered


async def _run(client: Client, tool: str, **arguments: Any) -> str:
    """Start something and wait for it; its id."""
    started = await client.call_tool(tool, arguments)
    identifier: str = started.structured_content["execution_id"]
    ended = await client.call_tool("get_result", {"execution_id": identifier, "wait_seconds": 30})
    assert ended.structured_content["status"] == "completed"
    return identifier
