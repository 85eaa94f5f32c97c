"""What a caller says is stored and passed on as it was said, byte for byte, however long it is; so are answers."""

from __future__ import annotations

from pathlib import Path

from runner.llm.protocol import Request
from tests.support.face import face
from tests.support.models import Turn, call, say
from tests.support.reading import dispatch
from tests.support.service import bench
from tests.support.shell import Shell, make_shell

LONG = " \n\t  " + "".join(f"{number:05d} grüße, 你好 <b>\\n" for number in range(3_800)) + "\tthe end \n "
"""100 kB that begin and end with blanks."""

CONFIG = """
agents:
  Lead: {description: leads, sub_agents: [Leaf]}
  Leaf: {description: looks}
agent_chains: {line: {stages: [{name: one, agents: [Leaf]}]}}
"""


async def test_a_long_task_is_the_same_in_its_row_its_prompt_and_the_agent_it_is_passed_on_to(tmp_path: Path) -> None:
    def lead(request: Request) -> Turn:
        task = request.messages[0].content[0]["text"]
        if len(request.messages) == 1:
            return dispatch("Leaf", task)
        return call("finish", status="completed", summary="so", output=task)

    assert len(LONG.encode()) > 100_000
    scripts = {"Lead": lead, "Leaf": [say("seen")]}
    async with face(tmp_path, CONFIG, scripts) as opened, opened.client() as caller:
        for tool, arguments in (
            ("dispatch_agent", {"name": "Lead", "task": LONG}),
            ("run_chain", {"chain": "line", "task": LONG}),
        ):
            started = await caller.call(tool, **arguments)
            ended = await opened.bench.ended(started["execution_id"])
            assert ended.status == "completed"
        tasks = opened.bench.sql("select agent, task from executions order by id")
        assert {row["agent"] for row in tasks} == {"Lead", "Leaf", "line"}
        assert [row["agent"] for row in tasks if row["task"].encode() != LONG.encode()] == []
        asked = [request.messages[0].content[0]["text"] for request in opened.model.requests]
        assert all(text == LONG for text in asked)

        [row] = opened.bench.sql("select result, id from executions where agent = 'Lead'")
        pages = ""
        offset: int | None = 0
        while offset is not None:
            page = await caller.call("read_result", execution_id=row["id"], offset=offset)
            pages, offset = pages + page["text"], page.get("next_offset")
        assert pages.encode() == LONG.encode()


def test_a_long_task_on_the_command_line_is_the_same_in_its_row_and_its_first_message(tmp_path: Path) -> None:
    shell: Shell = make_shell(tmp_path)
    done = shell.type("run", "Quick", LONG, "--input", f"given={LONG[:20_000]}")

    assert done.returncode == 0, done.stderr[-500:]
    [row] = shell.rows("select task, json_extract(input, '$.given') as given from executions")
    assert (row["task"].encode(), row["given"]) == (LONG.encode(), LONG[:20_000])


async def test_long_messages_to_an_execution_are_the_same_in_its_transcript(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Leaf": lambda _: say("seen")}) as service:
        first = await service.run("Leaf", LONG)
        continued = await service.dispatcher.resume(first.id, LONG)
        await service.ended(continued.id)

        request = service.model.of(continued.id)[0]
        assert [message.content[0]["text"] for message in request.messages if message.kind == "task"] == [LONG, LONG]
