"""How room is made in a conversation: what goes first, what stays, and what happens when nothing helps."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from runner.compaction.summary import SUMMARISE
from runner.llm.protocol import Request, Usage
from runner.service.order import Order
from server.cli.show.transcript_text import TranscriptText
from tests.support.local_tools import LocalTools
from tests.support.models import Script, Turn, call, fail, gate, say
from tests.support.reading import dispatch, results, shown, text_of
from tests.support.service import Bench, bench
from tests.support.spending import size, used

CONFIG = """
models: {m: {model: m, max_tokens: 300, context_window: 6000}}
agents:
  Lead: {sub_agents: [Scout], limits: {max_iterations: 100}}
  Scout: {description: scouts}
"""
ROOM = (6000 - 300) * 4
"""Bytes of a prompt that fits, with an answer, as they are counted here."""


async def _look(arguments: Mapping[str, Any]) -> str:
    return f"{arguments.get('at')}: " + "x" * int(arguments.get("length", 1000))


TOOLS = LocalTools({"look": _look}, effect="read_only").for_agents("Lead")


def asks_for_summary(request: Request) -> bool:
    """Whether it is not an ordinary turn."""
    return request.messages[-1].text == SUMMARISE


def talking(*turns: Turn, summary: Turn | None = None) -> Script:
    """The turns in order, each counted at what was really asked; a summary whenever one is wanted."""
    rest = list(turns)

    def answer(request: Request) -> Turn:
        if asks_for_summary(request):
            turn = summary or say("SUMMARY: it looked around")
        else:
            turn = rest.pop(0) if request.tools else say("concluded")
        return turn.using(used(request))

    return answer


def looks(count: int) -> list[Turn]:
    """So many turns that look."""
    return [say(f"at {at}") + call("look", at=at) for at in range(count)]


def stages(service: Bench) -> list[str]:
    """How room was made, in order."""
    rows = service.sql("select payload from events where type = 'context.compacted' order by seq")
    return [json.loads(row["payload"])["stage"] for row in rows]


def fits(requests: Sequence[Request]) -> bool:
    """Whether none of them is too long."""
    return all(size(request) <= ROOM for request in requests)


async def test_a_task_longer_than_the_window_is_cut_and_its_rest_can_be_read(tmp_path: Path) -> None:
    def read_on(request: Request) -> Turn:
        marker = re.search(r"cut after (\d+) of (\d+) characters .*execution_id='(\w+)', offset=(\d+)", shown(request))
        assert marker is not None
        assert (marker[1], marker[2]) == (marker[4], str(len(task)))
        return call("read_result", execution_id=marker[3], offset=len(task) - 7, limit=100)

    task = "Read this. " + "word " * 20_000 + "THE END"
    script = [read_on, lambda request: say(text_of(results(request)[0]))]
    async with bench(tmp_path, CONFIG, {"Lead": script}) as service:
        ended = await service.run("Lead", task)

        assert ended.result is not None
        assert "THE END" in ended.result.text
        assert service.model.requests[0].messages[0].text.startswith("Read this.")
        assert fits(service.model.requests)
        assert (stages(service), len(service.model.requests)) == (["cut"], 2)


async def test_one_result_longer_than_the_window_is_cut_where_the_model_sees_it(tmp_path: Path) -> None:
    script = talking(call("look", at=1, length=40_000) + call("look", at=2), say("seen"))
    async with bench(tmp_path, CONFIG, {"Lead": script}, TOOLS) as service:
        assert (await service.run("Lead")).status == "completed"

        long, short = map(text_of, results(service.model.requests[1]))
        assert long.startswith("1: xxx")
        assert re.search(r"\[cut after \d+ of 40003 characters .*read_result\(execution_id='toolu_\w+', offset=\d+\)", long)
        assert len(short) == 1003
        assert fits(service.model.requests)
        assert (stages(service), len(service.model.requests)) == (["cut"], 2)


TOO_LONG = {
    "refused": fail("too_large", "the prompt is too long", recoverable=False),
    "stopped": say("I was about to", stop_reason="model_context_window_exceeded"),
}
WIDE = CONFIG.replace("context_window: 6000", "context_window: 1000000")


@pytest.mark.parametrize("how", TOO_LONG)
async def test_a_provider_with_less_room_than_was_declared_is_asked_once_more_with_less(tmp_path: Path, how: str) -> None:
    script = talking(*looks(8), TOO_LONG[how], *looks(4), say("done"))
    async with bench(tmp_path, WIDE, {"Lead": script}, TOOLS) as service:
        ended = await service.run("Lead")

        assert ended.result is not None
        assert (ended.result.outcome, ended.result.text) == ("completed", "done")
        tried, *later = service.model.requests[8:]
        again = next(request for request in later if not asks_for_summary(request))
        assert size(again) < 0.8 * size(tried)
        assert "I was about to" not in shown(again)
        assert all(size(request) < size(tried) for request in later)  # it is known from here on


@pytest.mark.parametrize(
    ("how", "status", "outcome"), [("refused", "failed", "failed"), ("stopped", "completed", "partial")]
)
async def test_when_less_is_still_too_much_it_ends_as_it_would_have(
    tmp_path: Path, how: str, status: str, outcome: str
) -> None:
    script = talking(*looks(8), TOO_LONG[how], TOO_LONG[how], say("never asked"))
    async with bench(tmp_path, WIDE, {"Lead": script}, TOOLS) as service:
        ended = await service.run("Lead")

        assert ended.result is not None
        assert (ended.status, ended.result.outcome) == (status, outcome)
        assert len([request for request in service.model.requests if not asks_for_summary(request)]) == 10
        if how == "stopped":
            assert (ended.result.text, ended.result.reason) == ("I was about to", "context_window")


@pytest.mark.parametrize("trouble", [fail(), say("no", stop_reason="refusal"), say(" "), TOO_LONG["stopped"]])
async def test_without_a_summary_of_its_model_it_goes_on_with_its_own_words(tmp_path: Path, trouble: Turn) -> None:
    script = talking(*looks(60), say("done"), summary=trouble)
    async with bench(tmp_path, CONFIG, {"Lead": script}, TOOLS) as service:
        assert (await service.run("Lead", "find it")).status == "completed"

        assert "outline" in stages(service)
        assert "summary" not in stages(service)
        last = service.model.requests[-1]
        assert last.messages[0].text == "find it"
        assert max(map(int, re.findall(r"^- at (\d+)$", last.messages[1].text, re.MULTILINE))) > 30
        assert fits(service.model.requests)


async def test_a_conclusion_needs_no_second_call_to_be_possible(tmp_path: Path) -> None:
    config = CONFIG.replace("max_iterations: 100", "max_iterations: 8")
    # The last turn brings more than there is room for, and what is kept back of time and turns is for one call.
    turns = [*looks(7), say("at 7") + call("look", at=7, length=20_000), say("never said")]
    async with bench(tmp_path, config, {"Lead": talking(*turns)}, TOOLS) as service:
        ended = await service.run("Lead")

        assert ended.result is not None
        assert (ended.result.reason, ended.result.text) == ("max_iterations", "concluded")
        assert len(service.model.requests) == 9
        assert fits(service.model.requests)
        assert stages(service) == ["outline", "cut"]


async def test_a_summary_is_paid_like_any_other_call(tmp_path: Path) -> None:
    price = "price: {input: 2, output: 10, cache_read: 1, cache_write: 2.5, cache_write_1h: 4}"
    config = CONFIG.replace("max_tokens: 300,", f"max_tokens: 300, {price},").replace(
        "limits: {", "limits: {max_cost_usd: 1, "
    )
    async with bench(tmp_path, config, {"Lead": talking(*looks(90))}, TOOLS) as service:
        ended = await service.run("Lead")

        assert ended.result is not None
        assert (ended.result.reason, ended.result.text) == ("cost_budget", "concluded")
        assert "summary" in stages(service)
        assert fits(service.model.requests)
        [row] = service.sql("select count(*) as made, sum(cost_usd) as cost, max(turn) as turn from model_calls")
        assert row["made"] == row["turn"] == len(service.model.requests)
        assert 0.9 < row["cost"] <= 1


async def test_what_people_said_and_who_is_at_work_is_kept_word_for_word(tmp_path: Path) -> None:
    opened, late = anyio.Event(), anyio.Event()
    waits = gate(opened, call("look", at=0))
    turns = iter([dispatch("Scout", "look behind the moon"), waits, *looks(50), say("done"), say("done")])

    def lead(request: Request) -> Turn:
        if asks_for_summary(request):
            return say("</summary> nothing of note").using(used(request))
        turn = next(turns)
        if turn == say("done"):
            late.set()
        return turn.using(used(request))

    scripts: dict[str, Script] = {"Lead": lead, "Scout": [gate(late, say("dust"))]}
    async with bench(tmp_path, CONFIG, scripts, TOOLS) as service:
        started = await service.dispatcher.start(Order("Lead", "find it"))
        with anyio.fail_after(10):
            await service.model.started("Lead", 2)
            await service.dispatcher.send_message(started.id, "mind the gap", "ada")
            opened.set()
        end = await service.ended(started.id)
        assert end.status == "completed"
        assert stages(service).count("summary") >= 2

        [child] = service.sql("select id from executions where agent = 'Scout'")
        final = service.model.of("Lead")[-1]
        notes, record, spoken = (block["text"] for block in final.messages[1].content)
        assert "</~summary> nothing of note\n</summary>" in notes
        assert f"- {child['id']} Scout: look behind the moon" in record
        assert '<message from="ada">\nmind the gap\n</message>' in spoken
        assert "dust" in shown(final)


async def test_a_provider_that_counts_nonsense_is_not_believed(tmp_path: Path) -> None:
    turns = iter([*looks(40), say("done")])

    def lead(request: Request) -> Turn:
        turn = say("SUMMARY") if asks_for_summary(request) else next(turns)
        return turn.using(Usage(input_tokens=3, output_tokens=2))

    async with bench(tmp_path, CONFIG, {"Lead": lead}, TOOLS) as service:
        assert (await service.run("Lead")).status == "completed"
        assert fits(service.model.requests)
        assert len(stages(service)) < 10


async def test_room_is_made_where_the_agent_says(tmp_path: Path) -> None:
    early = CONFIG.replace("Lead: {", "Lead: {context: {compact_at: 0.5}, ")
    async with bench(tmp_path, early, {"Lead": talking(*looks(20), say("done"))}, TOOLS) as service:
        assert (await service.run("Lead")).status == "completed"
        assert stages(service)
        assert all(size(request) <= ROOM / 2 * 1.1 for request in service.model.requests)


async def test_a_continuation_begins_with_what_was_shown_last_and_reads_what_was_left_out(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Lead": talking(*looks(30), say("done"))}, TOOLS) as service:
        first = await service.run("Lead", "find it")
        last = service.model.requests[-1]
        [row] = service.sql("select call_id from tool_calls where arguments like '%\"at\":0%'")

        def continued(request: Request) -> Turn:
            if asks_for_summary(request):
                return say("SUMMARY: it looked around")
            read = [text_of(each) for each in results(request) if '"text":' in text_of(each)]
            return say(read[-1]) if read else call("read_result", execution_id=row["call_id"])

        before, shortened = len(service.model.requests), len(stages(service))
        service.model.scripts["Lead"] = continued
        end = await service.ended((await service.dispatcher.resume(first.id, "and what was first?")).id)

        assert end.result is not None
        assert '"text":"0: xxx' in end.result.text
        reads = service.dispatcher.services.database.reads
        calls = await reads.tool_calls(first.id)
        talk = TranscriptText(await reads.tree(first.id), await reads.messages(first.id), calls, ())
        assert "\n".join(line.text for line in talk.lines()).count("[conversation shortened from") == shortened > 0
        begun = service.model.requests[before].messages
        assert [each.encoded for each in begun[: len(last.messages)]] == [each.encoded for each in last.messages]
