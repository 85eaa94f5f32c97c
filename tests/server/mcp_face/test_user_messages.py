"""`send_user_message`: what a user says is handed over by a client, and answered once, in turn, whoever waits for it."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from runner.chat import phrase
from runner.messages import ToolCall
from server.identity import LOCAL, SPEAK_FOR_ALL, Identity
from server.mcp_face.calls import ERROR, called
from server.mcp_face.client import Client, ClientInfo
from tests.runner.strategies.route.commanded import crew
from tests.server.mcp_face.test_approvals import Answering
from tests.server.mcp_face.test_tools import TOOLS
from tests.support.face import Face, face, text_of
from tests.support.gated import DELETE, deleting
from tests.support.models import fail, gate, hang, say
from tests.support.requirement import requirement

CONFIG = """
agents: {Helper: {description: answers}}
agent_chains: {look: {stages: [{name: only, agents: [Helper]}]}}
chat: {agent: Helper}
users:
  alex: {aliases: ["+15550100"]}
  noa: {aliases: ["https://login.example.org#noa"]}
"""
SEND = "send_user_message"


def talk(opened: Face) -> list[tuple[str, str, str]]:
    """What was said, in order."""
    rows = opened.bench.sql("select user_id, role, content from chat_messages order by created_at")
    return [(row["user_id"], row["role"], row["content"]) for row in rows]


@requirement("S0-MH-7")
@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_what_a_user_says_is_answered_within_the_call(tmp_path: Path, era: str) -> None:
    async with face(tmp_path, CONFIG, {"Helper": [say("It is noon.")]}) as opened, opened.client(era) as caller:
        told = await caller.call(SEND, user="+15550100", text="What time is it?", idempotency_key="sms-1")
        arguments = {"user": "alex", "text": "What time is it?", "idempotency_key": "sms-1"}
        again = await caller.client.call_tool(SEND, arguments)

        assert (told["status"], told["answer"], told["result"]["output"]) == ("completed", "It is noon.", "It is noon.")
        assert text_of(again) == "It is noon."  # for the user, and nothing else
        assert talk(opened) == [("alex", "user", "What time is it?"), ("alex", "assistant", "It is noon.")]


async def test_a_wait_that_ends_first_is_a_normal_answer_and_get_result_goes_on_with_it(tmp_path: Path) -> None:
    opened_gate = anyio.Event()
    scripts = {"Helper": [gate(opened_gate, say("At last."))]}
    async with face(tmp_path, CONFIG, scripts) as opened, opened.client() as caller:
        early = await caller.call(SEND, user="alex", text="think", wait_seconds=0)
        busy = await caller.refused(SEND, user="alex", text="hurry", wait_seconds=0.1)
        in_hebrew = await caller.refused(SEND, user="alex", text="מהר", wait_seconds=0)
        opened_gate.set()
        ended = await caller.call("get_result", execution_id=early["execution_id"], wait_seconds=20)

        assert (early["status"], early.get("answer"), early.get("result")) == ("running", None, None)
        assert (busy["type"], busy["answer"]) == ("busy", phrase("busy", "en"))
        assert in_hebrew["answer"] == phrase("busy", "he")
        assert early["execution_id"] in busy["message"]
        assert ended["result"]["output"] == "At last."
        assert talk(opened) == [("alex", "user", "think"), ("alex", "assistant", "At last.")]


async def test_the_client_is_told_what_to_say_when_there_is_no_answer(tmp_path: Path) -> None:
    scripts = {"Helper": [fail("invalid", "no such model", recoverable=False)]}
    async with face(tmp_path, CONFIG, scripts) as opened, opened.client() as caller:
        told = await caller.call(SEND, user="noa", text="hello")

        assert (told["status"], told["answer"]) == ("failed", phrase("failed", "en", id=told["execution_id"]))
        assert "no such model" in told["error"]
        for arguments, kind in (
            ({"user": "sam", "text": "hello"}, "unknown_user"),
            ({"user": "alex", "text": "   "}, "invalid_arguments"),
            ({"user": "alex", "text": ""}, "invalid_arguments"),
        ):
            assert (await caller.refused(SEND, **arguments))["type"] == kind
        assert len(talk(opened)) == 2


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_person_who_is_asked_meanwhile_says_it_once(tmp_path: Path, era: str) -> None:
    tools, person = deleting(), Answering()
    async with (
        face(tmp_path, CONFIG, {"Helper": [DELETE, say("It is gone.")]}, tools.for_agents("Helper")) as opened,
        opened.client(era, elicitation_callback=person) as caller,
    ):
        told = await caller.call(SEND, user="alex", text="clean up")

        assert (told["result"]["output"], len(person.asked), len(tools.calls)) == ("It is gone.", 1, 1)
        assert talk(opened) == [("alex", "user", "clean up"), ("alex", "assistant", "It is gone.")]


@requirement("S1-ST13-2", "S1-ST1-1")
async def test_a_user_may_give_commands_and_is_told_what_became_of_them(tmp_path: Path) -> None:
    config = crew(tmp_path, more="chat: {agent: orchestrator}\nusers: {alex: {}}\n")
    scripts = {"researcher": [fail("invalid", "no network", recoverable=False)]}
    async with face(tmp_path, config, scripts) as opened, opened.client() as caller:
        wrong = await caller.refused(SEND, user="alex", text="/research")
        listed = await caller.call(SEND, user="alex", text="/todo")
        failed = await caller.call(SEND, user="alex", text="/research 193")

        assert (wrong["type"], wrong["hint"]) == ("usage", "write `/research NUMBER [FOCUS]`")
        assert listed["answer"].startswith("191 Stop the hang")
        assert failed["answer"].startswith("Command: research\nStatus: Failed\n")
        assert "no network (invalid)\n\nRecommendation: try again later\nThen retry: /research 193" in failed["answer"]
        assert [said for _, _, said in talk(opened)][2:] == ["/research 193", failed["answer"]]


async def test_the_tool_is_there_only_where_an_agent_answers_users(tmp_path: Path) -> None:
    async with face(tmp_path, CONFIG, {}) as opened, opened.client() as caller:
        assert set(caller.schemas) == {*TOOLS, SEND}
    (tmp_path / "other").mkdir()
    silent = CONFIG.replace("chat: {agent: Helper}", "")
    async with face(tmp_path / "other", silent, {}) as opened, opened.client() as caller:
        assert set(caller.schemas) == set(TOOLS)
        assert (await caller.refused(SEND, user="alex", text="hello"))["type"] == "unknown_tool"


@pytest.mark.parametrize(
    ("who", "user", "speaks"),
    [
        (LOCAL, "alex", True),
        (Identity("alex"), "+15550100", True),
        (Identity("https://login.example.org#noa"), "noa", True),
        (Identity("gateway", frozenset({SPEAK_FOR_ALL})), "alex", True),
        (Identity("noa"), "alex", False),
        (Identity("gateway"), "alex", False),
        (Identity("noa"), "sam", False),
    ],
)
async def test_a_caller_speaks_for_itself_unless_its_token_says_more(
    tmp_path: Path, who: Identity, user: str, speaks: bool
) -> None:
    async with face(tmp_path, CONFIG, {"Helper": [hang()]}) as opened:
        client = Client(opened.bench.dispatcher, ClientInfo(who))
        call = ToolCall("1", SEND, {"user": user, "text": "hello", "wait_seconds": 0})
        result = await called(client, call)

        assert result.is_error is not speaks
        rows: list[dict[str, Any]] = opened.bench.sql("select principal from executions")
        assert rows == ([{"principal": who.principal}] if speaks else [])
        if not speaks:
            assert (result.meta or {})[ERROR]["type"] == "unknown_user"
            assert text_of(result).startswith(f"error: no user named `{user}`")
            assert "Known" not in text_of(result)
