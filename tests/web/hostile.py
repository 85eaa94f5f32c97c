"""A service whose every text attacks the page that shows it, and the texts.

Owns: the attacks, a configuration and a real MCP server that say nothing else, the executions that carry the texts through
every field. Must not know: how a page is looked at. Invariant: a page that runs an attack sets `window.cracked`, or sends a
request to `cracked.example`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from server.caller.sessions import Sessions
from server.identity import READ_ALL, Identity
from tests.support.api_serving import ApiOptions
from tests.support.gated import asked
from tests.support.models import Turn, call, fail, hang, say, think
from tests.web.dashboards import Dashboard, dashboard
from tests.web.windows import Windows

ELSEWHERE = "cracked.example"
MARKUP = (
    "\"'><img src=x onerror=window.cracked=1><script>window.cracked=2</script>"
    "</script><script>window.cracked=3</script><svg/onload=window.cracked=4><!--<script>]]></style></textarea></title>"
    f"<iframe srcdoc='<script>top.cracked=5</script>'></iframe><link rel=stylesheet href=//{ELSEWHERE}/a.css>"
    "<a href=javascript:window.cracked=6>a</a>[b](javascript:window.cracked=7) [c](data:text/html,<script>1</script>) "
    f"![d](//{ELSEWHERE}/d.png) <meta http-equiv=refresh content=0;url=//{ELSEWHERE}/> <base href=//{ELSEWHERE}/> "
    "{{7*7}} ${window.cracked=8} `${window.cracked=9}` %3Cscript%3E &lt;script&gt; \\u003cscript\\u003e"
)
ODD = "\u2028\u2029\u202e\u2066\u200b\ufeff\x07\x1b[31m\x7f\x85\r\n"
LONG = "W" * 400
NAME = f"{MARKUP}{ODD}"
"""For the fields of one line."""
TEXT = f"# {NAME}\n\n| {MARKUP} | {LONG} |\n|---|---|\n| {LONG} | x |\n\n- {MARKUP}\n\n```html\n{MARKUP}\n```\n{LONG}"
"""For the texts of agents: Markdown of every kind."""
QUIET_NAMES = ("constructor", "toString", "W" * 64)
"""Names of agents, as hostile as names may be: those of every object, and one that nothing breaks."""
CALL = f"toolu_{MARKUP}"

SECRET = "s3cr3t-of-the-configuration-4711"
TIMES = 1_000_000 // 1_500
VISITOR = Identity(MARKUP, frozenset({READ_ALL}))


def config(folder: Path) -> str:
    """The configuration, in which every text that may be free is an attack."""
    said = folder / "said"
    said.write_text(TEXT, encoding="utf-8")
    name = MARKUP
    leader = {
        "description": NAME,
        "custom_instructions": TEXT,
        "sub_agents": [*QUIET_NAMES[:2], "Failing"],
        "mcp_servers": ["hostile"],
        "input_schema": {
            "type": "object",
            "description": NAME,
            "properties": {name: {"type": "string", "title": name, "description": TEXT, "default": name}},
        },
    }
    command = [sys.executable, "-E", "-S", "-m", "tests.support.saying_server", str(said), MARKUP[:60], "W" * 50]
    plain = {"description": NAME, "custom_instructions": TEXT}
    agents: dict[str, Any] = {
        QUIET_NAMES[0]: plain,
        QUIET_NAMES[1]: plain,
        QUIET_NAMES[2]: leader,
        "Failing": {**plain, "mcp_servers": ["hostile"]},
        "Asking": {**plain, "mcp_servers": ["gated"]},
        "Planning": {**plain, "strategy": "plan", "sub_agents": list(QUIET_NAMES[:2])},
    }
    gated = {"command": command, "gates": {"*": "ask"}}
    server: dict[str, Any] = {"command": command, "description": NAME, "instructions": TEXT, "max_result_bytes": 2_000_000}
    server["env"] = {"KEY": "${HOSTILE_SECRET}"}
    models = {"m": {"model": "none/a:b@c", "price": {"input": 2, "output": 10}}}
    chain = {"description": NAME, "stages": [{"name": name, "agents": [{"name": QUIET_NAMES[0]}]}], "alert_types": [name]}
    found = {
        "defaults": {"limits": {"timeout": "60s"}},
        "models": models,
        "mcp_servers": {"hostile": server, "gated": gated, "gone": {"command": [f"/{name}"], "description": NAME}},
        "agents": agents,
        "agent_chains": {"valueOf": chain},
    }
    return json.dumps(found).replace("${window", "$${window")


def finishing(status: str) -> Turn:
    """The report of an agent with every field."""
    return call(
        "finish",
        status=status,
        summary=MARKUP[:499],
        output={NAME: [TEXT, {"__proto__": MARKUP}], "__proto__": {"cracked": 1}},
        reason=NAME,
        artifacts=[{"type": MARKUP, "path": NAME, "name": NAME, "content": TEXT, "url": f"javascript:{MARKUP}"}],
        next_steps=[TEXT, NAME],
    )


def scripts() -> Mapping[str, Any]:
    """What the models say."""
    step = {"id": "step_1", "agent": QUIET_NAMES[0], "task": TEXT, "name": NAME, "description": NAME}
    attacks = {"way": NAME, NAME: [TEXT]}
    return {
        QUIET_NAMES[0]: [say(f"{TEXT} {CALL} [toolu_<img/src=x>]")],
        QUIET_NAMES[1]: [
            think(NAME) + say(NAME) + call("finish", status="partial", summary="s", next_steps=[NAME], reason=NAME)
        ],
        QUIET_NAMES[2]: [
            say(TEXT) + call("hostile__text", times=TIMES, **attacks) + call("hostile__structured", **attacks),
            call("hostile__tool_error", **attacks) + call("hostile__protocol_error", **attacks) + call(NAME, **attacks),
            call("dispatch_agent", name=QUIET_NAMES[0], task=TEXT, context=NAME)
            + call("dispatch_agent", name=QUIET_NAMES[1], task=NAME)
            + call("dispatch_agent", name="Failing", task=NAME)
            + call("dispatch_agent", name=MARKUP, task=TEXT),
            say(TEXT),
            finishing("partial"),
            say(TEXT),
        ],
        "Failing": [call("hostile__environment") + call("hostile__link"), fail(NAME, TEXT, recoverable=False)],
        "Asking": [call("gated__resource", **attacks), hang()],
        "Planner": [say(json.dumps({"analysis": TEXT, "steps": [step]}))],
        "Composer": [say(TEXT)],
    }


@dataclass(frozen=True)
class HostileBoard:
    """The dashboard of the hostile service, and its executions by what they are."""

    board: Dashboard
    ids: Mapping[str, str]

    session: str

    def browser(self) -> dict[str, Any]:
        """What a browser of the visitor keeps: the session, and saved queries."""
        url = self.board.api.url
        queries = [{"title": NAME, "sql": f"select '{MARKUP.replace(chr(39), '')}' as x"}, {"title": LONG, "sql": NAME}]
        kept = {"queries": queries, "theme": NAME, "sql": NAME, "execution.split": MARKUP}
        storage = [{"name": f"outrider.{name}", "value": json.dumps(value)} for name, value in kept.items()]
        cookie = {"name": f"outrider-{url.rpartition(':')[2]}", "value": self.session, "url": url}
        return {"cookies": [cookie], "origins": [{"origin": url, "localStorage": storage}]}

    @property
    def tree(self) -> str:
        """The tree with every field."""
        return self.ids["tree"]


@asynccontextmanager
async def hostile_board(windows: Windows, folder: Path) -> AsyncIterator[HostileBoard]:
    """The service, once its executions have ended or wait for a person."""
    sessions = Sessions()
    session = sessions.enter(VISITOR)
    options = ApiOptions(environ={"HOSTILE_SECRET": SECRET}, sessions=sessions, asks_everyone=True)
    async with dashboard(windows, folder, scripts(), options, config(folder)) as board:
        board.client.http.cookies.set(f"outrider-{board.api.url.rpartition(':')[2]}", session)
        start = board.client.post
        leader = {"name": QUIET_NAMES[2], "task": TEXT, "input": {MARKUP: TEXT}, "budget_usd": 5}
        ids = {
            "tree": (await start("/api/executions", 201, **leader))["execution_id"],
            "plan": (await start("/api/executions", 201, name="Planning", task=NAME))["execution_id"],
            "chain": (await start("/api/executions", 201, name="valueOf", task=TEXT))["execution_id"],
            "asking": (await start("/api/executions", 201, name="Asking", task=NAME))["execution_id"],
            "cancelled": (await start("/api/executions", 201, name="Asking", task=TEXT))["execution_id"],
        }
        await asked(board.api.bench, 2)
        await start(f"/api/executions/{ids['cancelled']}/cancel", reason=NAME)
        await start(f"/api/executions/{ids['asking']}/message", text=TEXT)
        for ended in ("tree", "plan", "chain", "cancelled"):
            with anyio.fail_after(60):
                await board.client.ended(ids[ended])
        yield HostileBoard(board, ids, session)
