"""What users say is answered: one message at a time, in order, nothing lost and nothing said twice."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from db.status import ExecutionStatus
from runner.chat import answer_of, phrase, spoken
from runner.errors import Refusal
from runner.result import partial
from runner.service.order import Order
from runner.snapshot import Snapshot
from tests.support.models import fail, gate, hang, say
from tests.support.requirement import requirement
from tests.support.service import Bench, bench

CONFIG = """
agents:
  Helper: {description: answers}
  Hasty: {description: answers, timeout: 100ms, limits: {wrap_up_reserve: 0s}}
chat: {agent: helper}
users:
  alex: {aliases: ["+15550100"]}
  noa:
"""


def message(text: str, user: str = "alex", **more: Any) -> Order:
    """What a user says."""
    return Order("", text, user=user, **more)


async def heard(service: Bench, text: str, user: str = "alex", **more: Any) -> Snapshot:
    """Say something and wait for the end."""
    child, _ = await service.dispatcher.chat_queue.accept(message(text, user, **more))
    return await service.ended(child.id)


def talk(service: Bench, user: str = "alex") -> list[tuple[str, str]]:
    """What was said, in order."""
    rows = service.sql("select role, content from chat_messages where user_id = ? order by created_at", user)
    return [(row["role"], row["content"]) for row in rows]


@requirement("S0-MH-6", "S0-MH-7")
async def test_a_user_message_is_stored_before_an_agent_is_asked_and_the_answer_with_the_end(tmp_path: Path) -> None:
    opened = anyio.Event()
    async with bench(tmp_path, CONFIG, {"Helper": [gate(opened, say("It is noon."))]}) as service:
        child, _ = await service.dispatcher.chat_queue.accept(message("What time is it?", "+15550100"))
        await service.model.started("Helper")
        assert talk(service) == [("user", "What time is it?")]

        opened.set()
        assert spoken(await service.ended(child.id)) == "It is noon."
        said, answered = service.sql("select * from chat_messages order by created_at")
        assert (said["user_id"], said["role"], said["content"]) == ("alex", "user", "What time is it?")
        assert (answered["user_id"], answered["role"], answered["content"]) == ("alex", "assistant", "It is noon.")
        assert said["execution_id"] == answered["execution_id"] == child.id
        assert (said["token_count"], answered["token_count"]) == (6, 4)
        assert service.statuses() == {"Helper": ["completed"]}


@requirement("S0-MH-7")
async def test_a_user_is_told_what_to_do_next_when_there_is_no_answer(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Helper": [fail("invalid", "no such model", recoverable=False)]}) as service:
        child = await heard(service, "Are you there?")

        assert child.status == "failed"
        assert talk(service) == [("user", "Are you there?"), ("assistant", phrase("failed", "en", id=child.id))]
        assert spoken(child) == phrase("failed", "en", id=child.id)
        service.model.scripts["Helper"] = [say("I am back.")]
        assert spoken(await heard(service, "And now?")) == "I am back."


async def test_what_was_found_in_time_is_told_and_that_it_is_not_all(tmp_path: Path) -> None:
    config = CONFIG.replace("agent: helper", "agent: Hasty")
    async with bench(tmp_path, config, {"Hasty": [hang()]}) as service:
        child = await heard(service, "Think hard")

        assert child.status == "timed_out"
        assert talk(service) == [("user", "Think hard"), ("assistant", phrase("too_late", "en"))]
    found = answer_of(child.id, ExecutionStatus.TIMED_OUT, partial("A first idea.", "timeout"), "en")
    assert found.content == f"{phrase('so_far', 'en')}\n\nA first idea."


@requirement("S0-MH-7")
async def test_messages_of_a_user_are_answered_one_after_the_other_and_those_of_others_meanwhile(tmp_path: Path) -> None:
    opened = anyio.Event()
    async with bench(tmp_path, CONFIG, {"Helper": lambda _: gate(opened, say("Yes."))}) as service:
        texts = [f"message {number}" for number in range(4)]

        async def send(text: str, user: str = "alex") -> None:
            await heard(service, text, user)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                for text in texts:
                    group.start_soon(send, text)
                await service.model.started("Helper")
                group.start_soon(send, "hello", "noa")
                await service.model.started("Helper", 2)
                assert service.model.peak == 2
                assert talk(service) == [("user", texts[0])]
                opened.set()
        assert talk(service) == [each for text in texts for each in (("user", text), ("assistant", "Yes."))]


async def test_a_message_that_would_wait_too_long_is_refused_and_was_not_said(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Helper": [hang()]}) as service:
        chat_queue = service.dispatcher.chat_queue
        first, _ = await chat_queue.accept(message("first"))

        with anyio.fail_after(10):
            for patience in (0.0, 0.05):
                with pytest.raises(Refusal, match=f"a message of `alex` is being answered: execution {first.id}") as busy:
                    await chat_queue.accept(message("second"), patience)
                assert (busy.value.kind, busy.value.context) == ("busy", {"execution_id": first.id})
            async with anyio.create_task_group() as group:
                group.start_soon(chat_queue.accept, message("third"))
                await anyio.lowlevel.checkpoint()
                with pytest.raises(Refusal, match="earlier messages of `alex` are still waiting"):
                    await chat_queue.accept(message("fourth"), 0.05)
                group.cancel_scope.cancel()
        assert talk(service) == [("user", "first")]
        assert service.statuses() == {"Helper": ["running"]}


async def test_a_message_with_a_key_is_said_once(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Helper": [say("Noted.")]}) as service:
        first = await heard(service, "remember this", key="sms-1")
        again, before = await service.dispatcher.chat_queue.accept(message("remember this", key="sms-1"))

        assert (again.id, before) == (first.id, True)
        assert talk(service) == [("user", "remember this"), ("assistant", "Noted.")]


async def test_no_agent_answers_strangers_or_where_no_assistant_is_named(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {}) as service:
        with pytest.raises(Refusal, match="no user named `sam`") as stranger:
            await heard(service, "hello", "sam")
        assert stranger.value.kind == "unknown_user"
    async with bench(tmp_path, CONFIG.replace("chat: {agent: helper}", ""), {}) as service:
        with pytest.raises(Refusal, match="no agent answers users") as nobody:
            await heard(service, "hello")
        assert (nobody.value.kind, nobody.value.hint) == (
            "no_assistant",
            "name one in the configuration: `chat: {agent: NAME}`",
        )
        assert service.sql("select * from chat_messages") == []


async def test_what_works_for_a_user_without_having_been_said_by_them_is_no_conversation(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Helper": [say("done")]}) as service:
        await service.run("Helper", "tidy up", user="alex")

        assert service.sql("select * from chat_messages") == []
        assert spoken(await heard(service, "hello")) == "done"


async def left_answering(folder: Path, text: str = "first") -> str:
    """The execution that a service left behind, which was answering a message."""
    async with bench(folder, CONFIG, {"Helper": [hang()]}) as service:
        child, _ = await service.dispatcher.chat_queue.accept(message(text))
        with anyio.fail_after(10):
            await service.model.started("Helper")
    return child.id


FIRST_ANSWERED: Sequence[tuple[str, str]] = [("user", "first"), ("assistant", "The first answer.")]


async def test_a_message_whose_process_is_gone_is_answered_by_the_next_service(tmp_path: Path) -> None:
    left = await left_answering(tmp_path)

    async with bench(tmp_path, CONFIG, {"Helper": [say("The first answer.")]}) as service:
        assert talk(service) == [("user", "first")]
        await service.dispatcher.adopt()
        await service.ended(left)

        assert talk(service) == FIRST_ANSWERED


async def test_what_a_process_left_unanswered_is_answered_before_the_next_message_of_the_user(tmp_path: Path) -> None:
    left = await left_answering(tmp_path)

    scripts = {left: [say("The first answer.")], "Helper": [say("The second answer.")]}
    async with bench(tmp_path, CONFIG, scripts) as service:  # a service that does not adopt, such as `outrider chat`
        with anyio.fail_after(10):
            assert spoken(await heard(service, "second")) == "The second answer."

        assert talk(service) == [*FIRST_ANSWERED, ("user", "second"), ("assistant", "The second answer.")]
        assert service.sql("select attempt from executions where id = ?", left) == [{"attempt": 2}]


async def test_a_user_who_waits_is_told_when_the_answering_execution_is_cancelled(tmp_path: Path) -> None:
    left = await left_answering(tmp_path)

    async with bench(tmp_path, CONFIG, {"Helper": [hang()]}) as service:
        assert await service.dispatcher.cancel(left, "a person", "enough") == "requested"
        assert talk(service) == [
            ("user", "first"),
            ("assistant", phrase("stopped", "en")),
        ]  # it had no task, so it ended with the wish

        child, _ = await service.dispatcher.chat_queue.accept(message("second"))
        await service.model.started("Helper")
        await service.dispatcher.cancel(child.id, "a person", "enough")
        assert spoken(await service.ended(child.id)) == phrase("stopped", "en")
        assert talk(service)[2:] == [("user", "second"), ("assistant", phrase("stopped", "en"))]


async def test_of_two_processes_that_hear_the_same_user_at_once_one_answers(tmp_path: Path) -> None:
    scripts = {"Helper": lambda _: hang()}
    async with bench(tmp_path, CONFIG, scripts) as here, bench(tmp_path, CONFIG, scripts) as there:
        refused: list[str] = []

        async def send(service: Bench, user: str) -> None:
            try:
                await service.dispatcher.chat_queue.accept(message("hello", user), patience=0)
            except Refusal as refusal:
                refused.append(refusal.kind)

        for user in ("alex", "noa"):
            async with anyio.create_task_group() as group:
                group.start_soon(send, here, user)
                group.start_soon(send, there, user)
            assert talk(here, user) == [("user", "hello")]
        assert refused == ["busy", "busy"]


async def test_another_process_waits_for_its_turn_too(tmp_path: Path) -> None:
    opened = anyio.Event()
    async with (
        bench(tmp_path, CONFIG, {"Helper": [gate(opened, say("The first answer."))]}) as here,
        bench(tmp_path, CONFIG, {"Helper": [say("The second answer.")]}) as there,
    ):
        first, _ = await here.dispatcher.chat_queue.accept(message("first"))
        with pytest.raises(Refusal, match=first.id):
            await there.dispatcher.chat_queue.accept(message("second"), patience=0)

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(heard, there, "second")
                opened.set()
        assert talk(here) == [*FIRST_ANSWERED, ("user", "second"), ("assistant", "The second answer.")]
