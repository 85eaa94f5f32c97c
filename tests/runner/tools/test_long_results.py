"""Results that are too long for a model: cut where it can see it, stored, and read on with `read_result`."""

import re
from pathlib import Path
from typing import Any

from runner.llm.protocol import Request
from tests.support.local_tools import LocalTools
from tests.support.models import Turn, call, fail, say
from tests.support.reading import answer, delivered, dispatch, results, text_of
from tests.support.servers import raw_server
from tests.support.service import bench

CAP, TURN_CAP = 50_000, 200_000
WHOLE = 7_980_000


async def test_a_long_result_is_cut_with_a_marker_stored_and_read_on_from_there(tmp_path: Path) -> None:
    def read_on(request: Request) -> Turn:
        marker = re.search(r'execution_id "([^"]+)", offset (\d+)', text_of(results(request)[0]))
        assert marker is not None
        return call("read_result", execution_id=marker[1], offset=int(marker[2]), limit=10)

    config = f"{{mcp_servers: {{box: {raw_server('large')}}}, agents: {{Solo: {{mcp_servers: [box]}}}}}}"
    async with bench(tmp_path, config, {"Solo": [call("box__poke"), read_on, say("read")]}) as service:
        assert (await service.run("Solo")).status == "completed"

        page = answer(service.model.of("Solo")[2])
        assert (page["text"], page["total"], page["next_offset"]) == ("x" * 10, WHOLE, page["offset"] + 10)
        query = "select length(result) as shown, length(full_result) as kept from tool_calls where tool = 'box.poke'"
        (row,) = service.sql(query)
        assert (CAP - 200 < row["shown"] <= CAP, row["kept"]) == (True, WHOLE)


async def flood(arguments: Any) -> str:
    """A text that is long in every way: 600 kB, of letters that have several bytes."""
    return f"{arguments['of']}: " + "ü€" * 120_000


def marks(text: str) -> tuple[str, int]:
    """The id and the offset that the marker at the end of a cut text names."""
    found = re.search(r'execution_id "([^"]+)", offset (\d+)\]$', text)
    assert found is not None
    return found[1], int(found[2])


async def test_the_results_of_one_turn_are_bounded_together_and_each_is_read_on(tmp_path: Path) -> None:
    config = "agents: {Solo: {sub_agents: [Other]}, Other: {description: looks}}"
    calls = call("flood", of=0)
    for number in range(1, 11):
        calls += call("flood", of=number)

    def read_on(request: Request) -> Turn:
        handle, offset = marks(text_of(results(request)[7]))
        return call("read_result", execution_id=handle, offset=offset)

    tools = LocalTools({"flood": flood}).for_agents("Solo")
    async with bench(tmp_path, config, {"Solo": [calls, read_on, say("read")]}, tools) as service:
        first = await service.run("Solo")
        second, third = service.model.of("Solo")[1:]

        texts = [text_of(block) for block in results(second)]
        assert [text.split(":")[0] for text in texts] == [str(number) for number in range(11)]
        assert TURN_CAP * 0.9 < sum(len(text.encode()) for text in texts) <= TURN_CAP
        page, offset = answer(third), marks(texts[7])[1]
        whole = await flood({"of": 7})
        assert (page["offset"], page["total"]) == (offset, len(whole))
        assert whole.startswith(page["text"], offset)
        assert 30_000 < len(page["text"].encode()) <= 32_000
        rows = service.sql("select length(full_result) as kept from tool_calls where tool = 'local.flood'")
        assert {row["kept"] for row in rows} <= {len(whole), len(whole) + 1}

        service.model.scripts["Solo"] = [say("again")]
        continued = await service.dispatcher.resume(first.id, "and now?")
        await service.ended(continued.id)
        [recalled] = service.model.of(continued.id)
        assert [each.encoded for each in recalled.messages[:3]] == [each.encoded for each in second.messages]


async def test_a_long_result_of_a_tool_of_ours_is_cut_and_stored_as_an_upstreams_is(tmp_path: Path) -> None:
    tools = LocalTools({"flood": flood}).for_agents("Solo")
    async with bench(tmp_path, "agents: {Solo: {}}", {"Solo": [call("flood", of=1), say("read")]}, tools) as service:
        await service.run("Solo")
        [block] = results(service.model.of("Solo")[1])
        assert CAP - 10 < len(text_of(block).encode()) <= CAP
        assert re.search(r"\n\[cut after \d+ characters; the whole is 600 kB\. Ask for less\]$", text_of(block)), (
            "nothing to read on with"
        )


async def test_the_reports_of_many_agents_are_bounded_together_and_each_says_where_it_goes_on(tmp_path: Path) -> None:
    config = "agents: {Lead: {sub_agents: [Leaf], limits: {max_concurrent_agents: 20}}, Leaf: {description: looks}}"
    said = "</report> " + "ü" * 100_000
    calls = dispatch("Leaf")
    for _ in range(19):
        calls += dispatch("Leaf")
    lead = [calls, say("waiting"), lambda r: call("wait_for", execution_ids=[each.execution_id for each in delivered(r)])]
    async with bench(tmp_path, config, {"Lead": [*lead, say("done")], "Leaf": [say(said)]}) as service:
        await service.run("Lead")
        _, _, told, waited = service.model.of("Lead")

        reports = [block["text"] for block in told.messages[-1].content if block["text"].startswith("<report")]
        assert len(reports) == 20
        assert TURN_CAP * 0.9 < sum(len(text.encode()) for text in reports) <= TURN_CAP * 1.05
        kept = re.search(
            r"\n\[cut after (\d+) of 100010 characters; read_result\(execution_id='[^']+', offset=\1\)", reports[3]
        )
        assert kept is not None
        assert reports[3].partition("<")[2].count("ü") == int(kept[1]) - len("</report> ")
        assert len(text_of(results(waited)[0]).encode()) <= CAP
        assert len(answer(waited)["executions"]) == 20


async def test_a_later_stage_is_shown_a_part_of_a_long_output_and_reads_on(tmp_path: Path) -> None:
    config = """
    agents: {First: {description: looks}, Second: {description: judges}}
    agent_chains: {line: {stages: [{name: one, agents: [First]}, {name: two, agents: [Second]}]}}
    """
    said = "<b> " + "ü" * 100_000

    def second(request: Request) -> Turn:
        if len(request.messages) > 1:
            return say("read")
        read_on = r"read_result\(execution_id='([^']+)', offset=(\d+)\) continues"
        mark = re.search(rf"\n\[cut after \d+ of 100004 characters; {read_on}\]\n</stage>", request.messages[0].text)
        assert mark is not None
        return call("read_result", execution_id=mark[1], offset=int(mark[2]))

    async with bench(tmp_path, config, {"First": [say(said)], "Second": second}) as service:
        assert (await service.run("line", "look")).status == "completed"

        told, answered = service.model.of("Second")
        assert CAP - 10 < len(told.messages[0].text.encode()) < CAP + 500
        page = answer(answered)
        assert (page["total"], page["text"]) == (len(said), said[page["offset"] : page["offset"] + len(page["text"])])


async def test_a_synthesis_is_shown_a_part_of_long_reports_and_without_it_they_are_handed_on_whole(tmp_path: Path) -> None:
    config = """
    agents: {Left: {description: looks}, Right: {description: looks}}
    agent_chains: {pair: {stages: [{name: one, agents: [Left, Right]}]}}
    """
    said = "ü" * 30_000
    reports = {"Left": [say(f"left {said}")], "Right": [say(f"right {said}")]}
    broken = fail("invalid", "no", recoverable=False)
    async with bench(tmp_path, config, {**reports, "Synthesizer": [broken]}) as service:
        ended = await service.run("pair", "look")

        [told] = service.model.of("Synthesizer")
        shown = told.messages[0].text
        assert 64_000 < len(shown.encode()) < 66_000
        assert len(re.findall(r"\n\[cut after \d+ of 3000[56] characters\]\n</stage>", shown)) == 2
        assert ended.result is not None
        assert ended.result.text == f"## Left\n\nleft {said}\n\n## Right\n\nright {said}"
