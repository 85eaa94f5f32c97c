"""The same calls over {stdio, HTTP} in both eras of the protocol get the same answers.

`OUTRIDER_CALLS` sets how many are made, `OUTRIDER_SEED` repeats a run.
"""

import json
import os
import random
import re
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from db.ids import PATTERN
from tests.server.mcp_face.fuzz import Fuzz
from tests.support.requirement import requirement
from tests.support.shell import make_shell
from tests.support.wire import ERAS, LEGACY, MODERN, Wire, about, over_http, over_stdio, served_over_http

COUNT = int(os.environ.get("OUTRIDER_CALLS", "60"))
SEED = int(os.environ.get("OUTRIDER_SEED", "0")) or secrets.randbelow(10**9)

Step = tuple[str, Mapping[str, Any]]
"""A method and its parameters; `#1` stands for the first execution there was."""

EACH_ITS_OWN = {"resultType", "ttlMs", "cacheScope", "_meta", "jsonrpc", "id", "session_id"}
"""What one era says and the other does not, what counts requests, and where they came from."""
CLOCKS = re.compile(r".*_seconds|.*_at|.*At")
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)|\d+(?:\.\d+)? s\b")
PLACE = re.compile(r"(?<=configuration: )\S+|(?<=database: )\S+")
"""Each side has its own."""
IDENTIFIER = re.compile(PATTERN.pattern.strip("^$"))
TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
NOT_FOUND = -32602
"""A resource that is not there: the eras have a code each, and this is the newer one's."""


@dataclass
class Side:
    """One way to ask, and the executions it has seen."""

    name: str
    wire: Wire
    folder: Path
    seen: list[str] = field(default_factory=list)

    async def take(self, step: Step) -> Any:
        """The answer to a step, without what may differ."""
        method, parameters = step
        answer = await self.wire.ask(method, json.loads(self._filled(json.dumps(parameters))))
        for found in IDENTIFIER.findall(json.dumps(answer.get("result", {}).get("structuredContent", ""))):
            if found not in self.seen:
                self.seen.append(found)
        return self._plain(answer)

    def _filled(self, text: str) -> str:
        return re.sub(r"#(\d+)", lambda match: self.seen[int(match[1]) % len(self.seen)] if self.seen else "nobody", text)

    def _plain(self, value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: self._plain(each, key) for key, each in sorted(value.items()) if key not in EACH_ITS_OWN}
        if isinstance(value, list):
            return [self._plain(each) for each in value]
        if isinstance(value, str) and value.startswith("{"):  # a resource
            return self._plain(json.loads(value))
        if isinstance(value, str):
            value = value.replace(str(self.folder), "FOLDER")
            text = IDENTIFIER.sub(lambda match: f"#{self.seen.index(match[0])}" if match[0] in self.seen else "#?", value)
            return "a time" if CLOCKS.fullmatch(name) else PLACE.sub("a place", TIME.sub("a time", text))
        if isinstance(value, int | float) and CLOCKS.fullmatch(name):
            return "a time"
        return NOT_FOUND if name == "code" and value == -32002 else value


def call(tool: str, **arguments: Any) -> Step:
    """A call of a tool."""
    return "tools/call", {"name": tool, "arguments": arguments}


def starts(chance: random.Random) -> Iterator[Step]:
    """Something begins, or is refused."""
    key = chance.choice([{}, {"idempotency_key": f"key {chance.randrange(3)}"}])
    name = chance.choice(["Quick", "quick", "Broken", "Lonely", "Qick", "Hidden"])
    yield chance.choice(
        [
            call("dispatch_agent", name=name, task="look", **key),
            call("run_agent", name=name, task="look", wait_seconds=20, **key),
            call("run_chain", chain="look", input={"labels": {"alertname": "DiskFull"}}, **key),
            call("run_chain", chain="look", task="is it full?", timeout_seconds=30),
        ]
    )
    yield call("list_executions", limit=100, status=chance.choice(["failed", "cancelled"]))


def looks(chance: random.Random) -> Iterator[Step]:
    """Something is asked about what there is, or is not."""
    one = f"#{chance.randrange(20)}"
    yield chance.choice(
        [
            call("cancel_agent", execution_id=one, mode=chance.choice(["abort", "wrap_up"])),
            call("send_message", execution_id=one, text="hello"),
            call("read_result", execution_id=one, offset=chance.choice([0, 3, 10_000])),
            call("get_execution_tree", execution_id=one),
            call("list_executions", limit=chance.randrange(1, 5), all_levels=chance.choice([True, False])),
            call("list_executions", agent=chance.choice(["quick", "look", "nobody"])),
            call("query_executions", sql="select agent, status, outcome from executions order by created_at, id"),
            call("query_executions", sql=chance.choice(["selct 1", "delete from executions", "select 1; select 2"])),
            call("list_agents"),
            call("no_such_tool", x=1),
            ("resources/read", {"uri": f"execution://{one}{chance.choice(['', '/tree', '/transcript', '/x'])}"}),
            ("resources/read", {"uri": chance.choice(["agents://catalog", "agents://x", "execution://nobody"])}),
            ("prompts/get", {"name": "look", "arguments": chance.choice([{"task": "x"}, {"x": "y"}, {}])}),
            ("prompts/get", {"name": "nothing"}),
            (chance.choice(["tools/list", "prompts/list", "resources/list", "resources/templates/list"]), {}),
            (
                "completion/complete",
                {"ref": {"type": "ref/resource", "uri": "execution://{id}"}, "argument": {"name": "id", "value": one}},
            ),
            ("nothing/at_all", {}),
            ("tools/call", {"name": "get_result", "arguments": [5]}),
            ("prompts/get", {"name": "look", "arguments": {"task": 5}}),
            ("completion/complete", {"ref": 5}),
            (
                chance.choice(["tasks/get", "tasks/cancel", "tasks/update"]),
                {"taskId": one, "_meta": about(MODERN, TASKS)},
            ),
            ("tasks/get", {"taskId": "nobody", "_meta": about(MODERN)}),
        ]
    )


def steps(schemas: Mapping[str, Any], count: int) -> Iterator[Step]:
    """Calls right and wrong."""
    chance, fuzz = random.Random(SEED), Fuzz(SEED, schemas, LEGACY, ["#0", "#1", "#2"])
    wrong = (json.loads(frame.data)["params"] for frame in fuzz.frames(count * 5) if frame.is_call and frame.fields)

    def fails(_: random.Random) -> Iterator[Step]:
        yield "tools/call", next(wrong)

    for _ in range(count):
        yield from chance.choice([starts, looks, looks, fails])(chance)


@asynccontextmanager
async def four_sides(folder: Path) -> AsyncIterator[list[Side]]:
    """Four servers, each on a database of its own, and a client before each."""
    sides: list[Side] = []
    async with AsyncExitStack() as stack:
        for era in ERAS:
            for transport in ("stdio", "http"):
                here = folder / f"{transport}-{era}"
                here.mkdir()
                shell = make_shell(here)
                if transport == "stdio":
                    wire: Wire = await stack.enter_async_context(over_stdio(shell, era))
                else:
                    _, url = await stack.enter_async_context(served_over_http(shell))
                    wire = await stack.enter_async_context(over_http(url, era))
                sides.append(Side(here.name, wire, here))
        yield sides


@requirement("S2-MC-1")
async def test_the_same_calls_get_the_same_answers_over_every_transport_and_in_both_eras(tmp_path: Path) -> None:
    async with four_sides(tmp_path) as sides:
        listed = await sides[0].wire.ask("tools/list")
        schemas = {tool["name"]: tool["inputSchema"] for tool in listed["result"]["tools"]}
        for number, step in enumerate(steps(schemas, COUNT)):
            asked = [side for side in sides if MODERN in side.name] if step[0].startswith("tasks/") else sides
            first, *others = await together(asked, step)
            for side, other in zip(asked[1:], others, strict=True):
                assert other == first, f"seed {SEED}, step {number}, {asked[0].name} and {side.name}: {step}"


async def together(sides: list[Side], step: Step) -> list[Any]:
    """The answers of all sides to one step; what it started has ended when they are there."""
    answers: dict[str, Any] = {}

    async def one(side: Side) -> None:
        known = len(side.seen)
        answers[side.name] = await side.take(step)
        for started in side.seen[known:]:
            await side.wire.call("get_result", {"execution_id": started, "wait_seconds": 20})

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for side in sides:
                group.start_soon(one, side, name=side.name)
    return [answers[side.name] for side in sides]
