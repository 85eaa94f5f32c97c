"""The rehearsed model: which turn answers, what its templates see, and what its errors say."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio
import pytest

from runner.core.inbox import Item
from runner.llm.protocol import ModelError, Reply
from runner.llm.rehearsal.model import RehearsedModel
from runner.llm.rehearsal.script import load_rehearsal, parse_rehearsal
from runner.messages import Delivered, Message
from runner.prompt.deliveries import delivery_message
from tests.runner.llm.asking import asked, assistant, called, tool, user

TOOLS = (tool("logs__query"), tool("dispatch_agent"), tool("finish"))


def delivered(agent: str, execution_id: str, text: str) -> Message:
    result = Delivered(agent, execution_id, "completed", "completed", text)
    return delivery_message([Item("d1", "result", result=result)], 0)


SPOKEN = assistant({"type": "text", "text": "hm"})


def rehearsed(script: str, pace: float = 0.0) -> RehearsedModel:
    return RehearsedModel(parse_rehearsal(dedent(script), "demo.yaml"), pace=pace)


async def answer(script: str, *messages: Message, **fields: Any) -> Reply:
    return await rehearsed(script).complete(asked(*messages, **{"tools": TOOLS, **fields}), lambda _: None)


def words(reply: Reply) -> str:
    return "".join(block["text"] for block in reply.content if block["type"] == "text")


def calls(reply: Reply) -> list[tuple[str, Any]]:
    return [(block["name"], block["input"]) for block in reply.content if block["type"] == "tool_use"]


async def refused(script: str, *messages: Message, **fields: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await answer(script, *messages, **fields)
    assert caught.value.kind == "rehearsal"
    return caught.value


SITUATIONS = """
    agents:
      Worker:
        - {when: start, say: at the start}
        - {when: {after_tool: logs.query}, say: after the logs}
        - {when: {after_tool: [metrics.query, k8s.list]}, say: after metrics or cluster}
        - {when: {delivered: Critic}, say: the critic answered}
        - {when: delivered, say: somebody answered}
        - {when: conclude, say: to conclude}
        - {when: message, say: "you said {{ message }}"}
        - {when: any, say: whatever}
"""


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([user("go")], "at the start"),
        ([user("go"), *called("logs__query", "x")], "after the logs"),
        ([user("go"), *called("k8s__list", "x")], "after metrics or cluster"),
        ([user("go"), *called("finish", "x")], "whatever"),
        ([user("go"), assistant({"type": "text", "text": "hm"}), user("faster")], "you said faster"),
        ([user("go"), *called("logs__query", "x"), delivered("Critic", "e2", "")], "after the logs"),
        (
            [user("go"), assistant({"type": "text", "text": "w"}), delivered("Critic", "e2", "")],
            "the critic answered",
        ),
        (
            [user("go"), assistant({"type": "text", "text": "w"}), delivered("Other", "e2", "")],
            "somebody answered",
        ),
    ],
)
async def test_the_first_turn_that_fits_the_newest_messages_answers(messages: list[Message], expected: str) -> None:
    assert words(await answer(SITUATIONS, *messages)) == expected


async def test_without_tools_the_conclusion_answers_whatever_came_last() -> None:
    assert words(await answer(SITUATIONS, user("go"), *called("logs__query", "x"), tools=())) == "to conclude"


async def test_without_tools_a_turn_that_would_call_one_is_passed_over() -> None:
    script = """
        agents:
          Worker:
            - {when: start, call: [{tool: logs.query}]}
            - {when: start, say: without help}
    """
    assert words(await answer(script, tools=())) == "without help"
    assert calls(await answer(script)) == [("logs__query", {})]


async def test_templates_see_what_really_happened() -> None:
    script = """
        agents:
          Worker:
            - when: {after_tool: logs.query}
              let:
                worst: "{{ result('logs.query').json.values | sort(attribute='count') | last }}"
                errors: "{{ all_results('logs__query') | selectattr('is_error') | list }}"
              say: |
                {{ agent }} on {{ task }} for {{ input.labels.service }}: {{ worst.pod }} with {{ worst.count }}.
                {% for answered in results %}
                {{ answered.tool }} {{ answered.arguments.app }} {{ answered.id }}: {{ answered.text | length }}
                {% endfor %}
                {{ errors | length }} of {{ results | length }} failed; offered: {{ tools | join(", ") }}
              call:
                - tool: dispatch_agent
                  with:
                    name: Critic
                    task: "check {{ worst.pod }}"
                    count: "{{ worst.count }}"
                    raw: "{{ worst }}"
                    deep: ["{{ 1 > 0 }}"]
    """
    counts = {"values": [{"pod": "a", "count": 3}, {"pod": "b", "count": 9}, {"pod": "c", "count": 5}]}
    reply = await answer(
        script,
        user("find the pod"),
        *called("logs__query", "no such app", is_error=True, id_="t1", app="x"),
        *called("logs__query", json.dumps(counts), id_="t2", app="y"),
        input={"labels": {"service": "checkout"}},
    )
    assert words(reply).splitlines() == [
        "Worker on find the pod for checkout: b with 9.",
        "logs__query x t1: 11",
        f"logs__query y t2: {len(json.dumps(counts))}",
        "1 of 2 failed; offered: logs__query, dispatch_agent, finish",
    ]
    worst = {"pod": "b", "count": 9}
    assert calls(reply) == [
        ("dispatch_agent", {"name": "Critic", "task": "check b", "count": 9, "raw": worst, "deep": [True]})
    ]
    assert reply.stop_reason == "tool_use"


async def test_a_result_is_read_without_the_remark_that_names_its_call() -> None:
    script = "agents: {Worker: [{when: {after_tool: q}, say: '{{ results[0].text }} {{ results[0].json.a }}'}]}"
    asking, answering = called("q", "")
    remark = {"type": "text", "text": "[call t1]"}
    answering.content[0]["content"] = [{"type": "text", "text": '{"a": 7}'}, remark]
    assert words(await answer(script, user("go"), asking, answering)) == '{"a": 7} 7'


async def test_one_call_is_made_for_each_item_that_passes_its_guard() -> None:
    script = """
        agents:
          "*":
            - when: start
              call:
                - {for: "input.pods", if: "item.ready", tool: k8s.describe, with: {pod: "{{ item.name }}"}}
                - {if: "input.pods | length > 5", tool: finish}
    """
    pods = [{"name": "a", "ready": True}, {"name": "b", "ready": False}, {"name": "c", "ready": True}]
    reply = await answer(script, input={"pods": pods})
    assert calls(reply) == [("k8s__describe", {"pod": "a"}), ("k8s__describe", {"pod": "c"})]
    assert len({block["id"] for block in reply.content}) == 2


async def test_deliveries_and_pending_executions_are_known_by_their_structure() -> None:
    script = """
        agents:
          Worker:
            - when: delivered
              if: "pending"
              say: "waiting for {{ pending | join(', ') }}"
            - when: delivered
              say: "{% for d in deliveries %}{{ d.agent }}={{ d.json.found if d.json else d.text }} {% endfor %}"
    """
    dispatches = [
        message
        for number in (1, 2)
        for message in called("dispatch_agent", json.dumps({"execution_id": f"c{number}"}), id_=f"t{number}")
    ]
    first = delivered("Logs", "c1", '{"found": 3}')
    second = delivered("Metrics", "c2", "nothing odd")
    assert words(await answer(script, user("go"), *dispatches, first)) == "waiting for c2"
    assert words(await answer(script, user("go"), *dispatches, first, second)) == "Logs=3 Metrics=nothing odd"


async def test_a_delivery_that_only_the_text_of_a_tool_imitates_is_none() -> None:
    script = "agents: {Worker: [{when: delivered, say: fooled}, {when: any, say: not fooled}]}"
    fake = delivered("Logs", "c1", "").text
    assert words(await answer(script, user("go"), *called("logs__query", fake))) == "not fooled"
    assert words(await answer(script, user(fake))) == "not fooled"


async def test_a_turn_marked_once_answers_once_in_an_execution_and_again_in_another() -> None:
    script = """
        agents:
          Worker:
            - {when: {after_tool: logs.query}, once: true, call: [{tool: logs.query, with: {wider: true}}]}
            - {when: {after_tool: logs.query}, say: enough}
            - {when: start, call: [{tool: logs.query}]}
    """
    model = rehearsed(script)
    for execution in ("e1", "e2"):
        messages = [user("go")]
        said = []
        for _ in range(3):
            request = asked(*messages, tools=TOOLS, execution_id=execution)
            reply = await model.complete(request, lambda _: None)
            said.append(words(reply) or calls(reply)[0][1])
            if reply.stop_reason == "tool_use":
                messages += [Message("assistant", reply.content), called("x", "y", id_=reply.content[0]["id"])[1]]
        assert said == [{}, {"wider": True}, "enough"]


async def test_the_same_request_is_answered_the_same_and_ids_differ_between_executions() -> None:
    script = "agents: {Worker: [{when: start, say: hm, call: [{tool: finish}, {tool: finish}]}]}"
    first, again = await answer(script), await answer(script)
    assert first == again
    other = await answer(script, execution_id="e2")
    ids = {block["id"] for reply in (first, other) for block in reply.content if block["type"] == "tool_use"}
    assert len(ids) == 4


async def test_a_reply_is_marked_rehearsed_and_its_usage_is_an_estimate_that_grows_with_the_request() -> None:
    script = "agents: {Worker: [{when: start, say: fine}]}"
    small, large = await answer(script, user("x")), await answer(script, user("x" * 4000))
    assert small.rehearsed
    assert small.model == "rehearsal:demo"
    assert small.usage.input_tokens > 0
    assert small.usage.output_tokens > 0
    assert large.usage.input_tokens - small.usage.input_tokens in range(998, 1002)


async def test_text_is_streamed_in_pieces_that_add_up() -> None:
    text = "a " * 60 + "an-uncommonly-long-word-without-any-space-in-it end"
    pieces: list[str] = []
    await rehearsed(f"agents: {{Worker: [{{when: start, say: '{text}'}}]}}").complete(asked(), pieces.append)
    assert "".join(pieces) == text
    assert len(pieces) > 3


async def test_a_paced_reply_can_be_cancelled_while_it_takes_its_time() -> None:
    model = rehearsed("agents: {Worker: [{when: start, say: slowly}]}", pace=1000)
    with anyio.move_on_after(0.05) as scope:
        await model.complete(asked(), lambda _: None)
    assert scope.cancelled_caught


async def test_filters_write_times_numbers_and_json_for_people() -> None:
    script = """
        agents:
          Worker:
            - when: start
              say: >-
                {{ input.at | clock }} {{ input.at | clock("%d %H:%M") }} {{ input.at | shift(minutes=-15) }}
                {{ input.later | seconds_since(input.at) }}
                {{ input.line | find("pod=([^ ]+)") }} {{ input.line | find("x+") }}
                {{ {"a": "<b>'"} | tojson }} {{ ('{"n": 1}' | from_json).n }}
    """
    given = {"at": "2026-11-01T12:30:00Z", "later": "2026-11-01T12:31:30Z", "line": "error pod=checkout-1 oom"}
    expected = '12:30:00 01 12:30 2026-11-01T12:15:00Z 90.0 checkout-1 None {"a":"<b>\'"} 1'
    assert words(await answer(script, input=given)) == expected


async def test_a_time_in_the_script_stays_the_text_it_is() -> None:
    script = "agents: {Worker: [{when: start, call: [{tool: q, with: {start: 2026-11-01T12:30:00Z, n: 3, on: null}}]}]}"
    assert calls(await answer(script)) == [("q", {"start": "2026-11-01T12:30:00Z", "n": 3, "on": None})]


async def test_a_situation_without_a_turn_is_an_error_that_names_agent_and_situation() -> None:
    script = "agents: {Worker: [{when: start, say: hello}]}"
    error = await refused(script, user("go"), *called("logs__query", "x"))
    assert str(error) == "the rehearsal `demo` has no turn for `Worker` when `after_tool: logs__query`"
    assert "`Stranger` when `start`" in str(await refused(script, agent="Stranger"))
    assert "when `delivered: Logs`" in str(await refused(script, user("go"), SPOKEN, delivered("Logs", "c1", "")))
    assert "when `message`" in str(await refused(script, user("go"), SPOKEN, user("faster")))
    talkative = "agents: {Worker: [{when: start, call: [{tool: finish}]}]}"
    assert "when `conclude`" in str(await refused(talkative, tools=()))
    assert "set an API key" in error.hint


@pytest.mark.parametrize(
    ("turn", "message"),
    [
        ("{when: start, say: '{{ nothing }}'}", "demo.yaml:4: say: 'nothing' is undefined"),
        ("{when: start, say: '{{ input.labels.service }}'}", "demo.yaml:4: say: 'None' has no attribute 'labels'"),
        ("{when: start, if: 'input.x', say: hi}", "demo.yaml:4: if: 'None' has no attribute 'x'"),
        ("{when: start, call: [{tool: q, with: {a: {b: '{{ task.nope }}'}}}]}", "with (q).a.b: 'str object' has no"),
        ("{when: start, call: [{for: '5', tool: q}]}", "demo.yaml:4: for: expected a list"),
        ("{when: start, say: '{{ 1 / 0 }}'}", "demo.yaml:4: say: division by zero"),
        ("{when: start, say: '{{ task.__class__.__mro__ }}'}", "is unsafe"),
        ("{when: start, say: '{{ \"\" }}'}", "demo.yaml:4: the turn gave neither text nor a call"),
    ],
)
async def test_a_template_that_fails_is_an_error_with_its_place(turn: str, message: str) -> None:
    script = f"# a rehearsal\nagents:\n  Worker:\n    - {turn}\n"
    error = await refused(script)
    assert message in str(error)
    assert error.hint


@pytest.mark.parametrize(
    ("script", "message", "hint"),
    [
        ("", "demo.yaml:1: the rehearsal is empty", "agents"),
        ("agents: [", "demo.yaml:1: ", "valid YAML"),
        ("{}", "demo.yaml:1: `agents` is missing", "agents"),
        ("agents: 3", "demo.yaml:1: `agents` must be a mapping", ""),
        ("agent: {}", "demo.yaml:1: unknown key `agent` in a rehearsal", "did you mean `agents`?"),
        ("agents:\n  Worker: {}", "demo.yaml:2: a list is required here", "- "),
        ("agents:\n  Worker:\n    - say: hi", "demo.yaml:3: a turn needs `when`", "start"),
        ("agents:\n  Worker:\n    - when: start", "demo.yaml:3: a turn needs `say` or `call`", ""),
        ("agents:\n  Worker:\n    - when: begin\n      say: hi", "demo.yaml:3: `when` cannot be `begin`", "start"),
        (
            "agents:\n  Worker:\n    - when: after_tool\n      say: hi",
            "demo.yaml:3: `after_tool` needs a tool",
            "server.tool",
        ),
        ("agents:\n  Worker:\n    - when: {start: x}\n      say: hi", "demo.yaml:3: `when: start` cannot be", "after_tool"),
        ("agents:\n  Worker:\n    - when: {after_tool: 3}\n      say: hi", "demo.yaml:3: `when: after_tool` cannot", ""),
        ("agents:\n  Worker:\n    - when: start\n      sya: hi", "demo.yaml:4: unknown key `sya` in a turn", "`say`"),
        ("agents:\n  Worker:\n    - when: start\n      say: 3", "demo.yaml:4: `say` must be text", "quotes"),
        ("agents:\n  Worker:\n    - when: start\n      say: a\n      say: b", "demo.yaml:4: `say` is given twice", ""),
        ("agents:\n  Worker:\n    - when: start\n      say: '{{ a'", "demo.yaml:4: say: ", ""),
        ("agents:\n  Worker:\n    - when: start\n      if: 'a ='\n      say: hi", "demo.yaml:4: if: ", ""),
        ("agents:\n  Worker:\n    - when: start\n      once: 1\n      say: hi", "demo.yaml:4: `once` is `true` or", ""),
        ("agents:\n  Worker:\n    - when: start\n      call: [{with: {}}]", "demo.yaml:4: a call needs `tool`", ""),
        ("agents:\n  Worker:\n    - when: start\n      call: [{tool: q, with: 3}]", "demo.yaml:4: `with` must be a", ""),
        ("agents:\n  Worker:\n    - when: start\n      call: [{tool: q, wiht: {}}]", "demo.yaml:4: unknown key", "`with`"),
        ("agents:\n  Worker:\n    - when: start\n      say: !!python/name:os.system x", "demo.yaml:4: ", ""),
    ],
)
def test_a_script_with_a_mistake_is_refused_with_file_and_line(script: str, message: str, hint: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_rehearsal(script, "demo.yaml")
    assert str(caught.value).startswith(message)
    assert hint in caught.value.hint


def test_a_script_is_read_from_a_file_and_named_after_it(tmp_path: Path) -> None:
    path = tmp_path / "incident.yaml"
    path.write_text("agents: {Worker: [{when: start, say: hällo}]}", encoding="utf-8")
    assert load_rehearsal(path).name == "incident"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ModelError, match="is not UTF-8 text"):
        load_rehearsal(path)
    with pytest.raises(ModelError, match="cannot be read"):
        load_rehearsal(tmp_path / "missing.yaml")


async def test_anchors_and_merges_save_repetition() -> None:
    script = """
        agents:
          Worker:
            - &asking {when: start, say: hello}
          Other:
            - {<<: *asking, say: good day}
    """
    assert words(await answer(script, agent="Other")) == "good day"
    assert words(await answer(script)) == "hello"


async def test_turns_for_a_caller_come_before_those_for_any_caller() -> None:
    script = """
        agents:
          Lead/Worker: [{when: any, say: "for {{ caller }}"}]
          Worker: [{when: any, say: for anybody}]
          "*": [{when: any, say: whoever}]
    """

    assert words(await answer(script, caller="Lead")) == "for Lead"
    assert words(await answer(script, caller="Other")) == "for anybody"
    assert words(await answer(script)) == "for anybody"
    assert words(await answer(script, agent="Reader", caller="Lead")) == "whoever"


async def test_a_block_of_yaml_in_a_message_is_read_as_data() -> None:
    script = """
        agents:
          Worker:
            - when: any
              let: {state: '{{ task | find("(?s)<state>(.*)</state>") | from_yaml }}'}
              say: "{{ state.tasks | map(attribute='task') | join(', ') if state else 'no state' }}"
    """

    assert words(await answer(script, user("<state>\ntasks:\n- task: a\n- task: b\n</state>"))) == "a, b"
    assert words(await answer(script, user("<state>[</state>"))) == "no state"
