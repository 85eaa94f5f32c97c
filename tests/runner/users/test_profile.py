"""What an execution may know of its user: who they are, what is remembered, what was said before; all that can be had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio

from db.clock import moment, stamp
from db.ids import made_at, new_id
from db.rows.reads import Record
from db.rows.users import chat_messages
from db.store.unit import Added, Write
from runner.origin import User
from runner.service.order import Order
from runner.users.profile import Layers, Profile, ProfileQuery, layers_of, load_profile, said_before
from tests.support.models import gate, say
from tests.support.requirement import requirement
from tests.support.service import Bench, bench

CONFIG = """
agents: {Helper: {description: answers}}
chat: {agent: Helper}
users:
  alex: {name: Alex, timezone: America/Los_Angeles, locale: en-US}
  noa: {}
"""
TEA: Record = {"category": "preferences", "content": "likes tea"}


async def remembered(_: User) -> Sequence[Record]:
    """What is remembered of everybody."""
    return [TEA]


def layers(service: Bench) -> Layers:
    """The layers of a service, as rows have them."""
    dispatcher = service.dispatcher
    return replace(layers_of(dispatcher.people, dispatcher.services.database.reads, ProfileQuery()), facts=remembered)


async def background(service: Bench, execution: str, given: Layers | None = None) -> Profile:
    """The background of an execution at work."""
    live = service.dispatcher.tree.get(execution)
    assert live is not None
    assert live.origin.user is not None
    recorder = service.dispatcher.services.recorder
    with anyio.fail_after(10):
        return await load_profile(given or layers(service), live.origin.user, live.place, recorder)


async def said(service: Bench, text: str) -> str:
    """Say something as Alex; the execution that answers."""
    child, _ = await service.dispatcher.chat_queue.accept(Order("", text, user="alex"))
    return child.id


async def store(service: Bench, *messages: tuple[datetime, str], tokens: int | None = 1, user: str = "alex") -> None:
    """Messages of the past."""
    rows: list[dict[str, Any]] = [
        {
            "id": new_id(),
            "user_id": user,
            "role": "user",
            "content": text,
            "token_count": tokens,
            "created_at": stamp(at),
            "execution_id": None,
        }
        for at, text in messages
    ]
    await service.dispatcher.services.database.writer.apply(Write([Added(chat_messages, row) for row in rows]))


@requirement("S0-MH-7")
async def test_a_message_comes_with_the_user_what_is_remembered_and_what_was_said_before_it(tmp_path: Path) -> None:
    opened = anyio.Event()
    script = [say("You have three: 1) report, 2) meeting, 3) budget.")]
    async with bench(tmp_path, CONFIG, {"Helper": script}) as service:
        await service.ended(await said(service, "Check my email"))
        service.model.scripts["Helper"] = [gate(opened, say("Done."))]
        second = await said(service, "Yes, the first two")
        known = await background(service, second)

        assert known.user == User("alex", "Alex", "America/Los_Angeles", "en-US")
        assert known.facts == [TEA]
        assert [(each.role, each.content) for each in known.history] == [
            ("user", "Check my email"),
            ("assistant", "You have three: 1) report, 2) meeting, 3) budget."),
        ]
        assert known.warnings == []
        [row] = service.sql("select created_at from executions where id = ?", second)
        assert timedelta() <= moment(row["created_at"]) - known.now < timedelta(seconds=5)
        assert str(known.now.tzinfo) == "America/Los_Angeles"
        opened.set()
        await service.ended(second)


async def test_a_resumed_execution_sees_the_same_conversation_and_clock(tmp_path: Path) -> None:
    never = anyio.Event()
    async with bench(tmp_path, CONFIG, {"Helper": [gate(never, say("…"))]}) as service:
        await store(service, (datetime.now(UTC) - timedelta(hours=1), "an hour ago"))
        first = await said(service, "hello")
        before = await background(service, first)
        await service.model.started("Helper")

    async with bench(tmp_path, CONFIG, {"Helper": [gate(never, say("…"))]}) as service:
        await store(service, (datetime.now(UTC), "since then"))
        await service.dispatcher.adopt()
        await service.model.started("Helper")

        assert await background(service, first) == before
        assert before.now == made_at(first)


@requirement("S0-MH-2")
async def test_no_layer_waits_for_another(tmp_path: Path) -> None:
    arrived = [anyio.Event() for _ in range(3)]

    async def meet(number: int) -> None:
        arrived[number].set()
        for each in arrived:
            await each.wait()

    async def user(given: User) -> User:
        await meet(0)
        return replace(given, name="Alexandra")

    async def facts(_: User) -> Sequence[Record]:
        await meet(1)
        return []

    async def history(_: User, __: datetime) -> Sequence[Any]:
        await meet(2)
        return []

    never = anyio.Event()
    async with bench(tmp_path, CONFIG, {"Helper": [gate(never, say("…"))]}) as service:
        known = await background(service, await said(service, "hello"), Layers(user, facts, history))

        assert (known.user.name, known.warnings) == ("Alexandra", [])


async def test_a_layer_that_cannot_be_had_is_empty_and_that_is_told(tmp_path: Path) -> None:
    async def broken(*_: Any) -> Any:
        raise OSError("the disk is on fire")

    never = anyio.Event()
    async with bench(tmp_path, CONFIG, {"Helper": [gate(never, say("…"))]}) as service:
        await store(service, (datetime.now(UTC) - timedelta(hours=1), "an hour ago"))
        execution = await said(service, "hello")
        whole = layers(service)

        half = await background(service, execution, replace(whole, facts=broken))
        none = await background(service, execution, Layers(broken, broken, broken))

        assert ([each.content for each in half.history], half.facts) == (["an hour ago"], [])
        assert half.warnings == ["the memory of the user could not be loaded; this answer does not use it"]
        assert (none.user.name, none.facts, none.history, len(none.warnings)) == ("Alex", [], [], 3)
        await service.dispatcher.services.database.writer.flush()
        told = service.sql("select execution_id, payload from events where type = 'context.degraded'")
        assert [each["execution_id"] for each in told] == [execution] * 4
        assert '"layer":"memory"' in told[0]["payload"]


@requirement("S0-MH-5", "S0-MH-6")
async def test_history_reaches_as_far_as_its_window_and_is_of_one_user(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {}) as service:
        rows, alex, now = service.dispatcher.services.database.reads.people, User("alex", "Alex"), datetime.now(UTC)
        await store(service, (now - timedelta(hours=25), "too old"), (now + timedelta(hours=1), "not yet"))
        await store(service, *((now - timedelta(minutes=90 - each), f"message {each}") for each in range(25)))
        await store(service, (now - timedelta(minutes=1), "a secret"), user="noa")

        history = await said_before(rows, alex, now)
        assert [each.content for each in history] == [f"message {each}" for each in range(5, 25)]

        await store(service, (now - timedelta(minutes=2), "counted"), tokens=3_990)
        assert next(each.content for each in await said_before(rows, alex, now)) == "message 15"
        await store(service, (now - timedelta(minutes=1), "x" * 12_000), tokens=None)
        assert [each.tokens for each in await said_before(rows, alex, now)] == [4_000]
