"""What a user reads when there is no answer: a sentence in the language they write, whichever way the message went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from runner.chat import _PHRASES, phrase, refusal_phrase, spoken
from runner.errors import Refusal
from runner.llm.protocol import Usage
from runner.service.order import Order
from runner.snapshot import Snapshot
from tests.runner.strategies.loop.spenders import MODELS
from tests.runner.strategies.plan.planned import plan, step
from tests.runner.strategies.route.routed import coordinator, decide
from tests.support.models import Script, Turn, call, crash, fail, hang, say
from tests.support.requirement import requirement
from tests.support.service import Bench, bench

CHAT = "chat: {agent: Coord}\n"
HEBREW, ENGLISH = "מה יש לי היום?", "what is on today?"
WRITERS = (("dana", HEBREW, "he"), ("eve", HEBREW, "he"), ("dana", ENGLISH, "en"))
VALUES = ("done", "all", "reasons", "agent", "connection", "id")


async def told(service: Bench, text: str, user: str = "dana") -> tuple[Snapshot, str]:
    """The end of a message, and what the user reads; it is what is stored."""
    child, _ = await service.dispatcher.chat_queue.accept(Order("", text, user=user))
    ended = await service.ended(child.id)
    [stored] = service.sql("select content from chat_messages where role = 'assistant' and execution_id = ?", child.id)
    locale = service.dispatcher.services.settings.user(user).locale
    assert spoken(ended, locale) == stored["content"]
    return ended, stored["content"]


CRASH, FAIL = crash(RuntimeError("a bug")), fail("invalid", "no", recoverable=False)
BLOCKED = call("finish", status="blocked", summary="איזו רשימה?")


@requirement("S4-LX-1")
@pytest.mark.parametrize(
    ("turn", "name"),
    [
        (CRASH, "failed"),
        (FAIL, "failed"),
        (fail("authentication", "no key", recoverable=False), "unreachable"),
        (say("", stop_reason="refusal"), "declined"),
        (hang(), "too_late"),
        (say(""), "no_answer"),
    ],
    ids=["crashed", "failed", "no model", "declined", "timed out", "silent"],
)
async def test_a_user_who_writes_hebrew_reads_hebrew_when_the_agent_of_the_direct_route_gives_no_answer(
    tmp_path: Path, turn: Turn, name: str
) -> None:
    config = coordinator(more=CHAT).replace("{description: events,", "{description: events, timeout: 200ms,")
    config = config.replace("timeout: 200ms,", "timeout: 200ms, limits: {wrap_up_reserve: 0s},")
    for user, message, language in (*WRITERS, ("dana", "?!", "he")):
        folder = tmp_path / f"{user}-{language}-{len(message)}"
        folder.mkdir()
        scripts: dict[str, Script] = {"Classifier": [decide("calendar")], "calendar": [turn] * 6}
        async with bench(folder, config, scripts) as service:
            ended, read = await told(service, message, user)
            assert read == phrase(name, language, id=ended.id)


@requirement("S4-LX-1")
async def test_without_a_route_and_in_a_plan_the_sentence_is_in_the_users_language_too(tmp_path: Path) -> None:
    async with bench(tmp_path, coordinator(more="chat: {agent: calendar}\n"), {"calendar": [CRASH]}) as service:
        ended, read = await told(service, HEBREW)
        assert read == phrase("failed", "he", id=ended.id)

    planned = plan(step("a", "calendar", "look"), step("b", "calendar", "look again"))
    scripts = {"Classifier": [decide("calendar", plan=True)], "Planner": [planned], "calendar": [CRASH, CRASH]}
    (tmp_path / "plan").mkdir()
    async with bench(tmp_path / "plan", coordinator(more=CHAT), scripts) as service:
        ended, read = await told(service, HEBREW)
        assert ended.status == "failed"
        assert read == phrase("failed", "he", id=ended.id)


async def test_a_message_whose_budget_is_used_up_says_so(tmp_path: Path) -> None:
    expensive = decide("database").using(Usage(input_tokens=12_000, output_tokens=1_900))
    config = MODELS + coordinator("limits: {max_tokens: 14000}", CHAT)
    async with bench(tmp_path, config, {"Classifier": [expensive], "database": [say("listed")]}) as service:
        _, read = await told(service, HEBREW)
        assert read == phrase("over_budget", "he")


@requirement("S4-LX-1")
async def test_an_agent_that_says_why_it_failed_is_quoted_on_the_direct_route_as_in_a_plan(tmp_path: Path) -> None:
    why = "היומן של דנה נעול לעריכה"
    gave_up = call("finish", status="failed", summary=why)
    in_detail = call("finish", status="failed", summary="לא נקבעה פגישה", reason=why)
    planned = plan(step("a", "calendar", "look"))
    async with bench(
        tmp_path,
        coordinator(more=CHAT),
        {
            "Classifier": lambda request: decide("calendar", plan="plan" in str(request.messages)),
            "Planner": [planned, planned],
            "calendar": [gave_up, gave_up],
        },
    ) as service:
        direct, read = await told(service, HEBREW)
        by_plan, read_of_plan = await told(service, HEBREW + " plan")
        service.model.scripts["calendar"] = [in_detail]
        _, both = await told(service, HEBREW)

    assert (direct.status, by_plan.status) == ("failed", "failed")
    assert read == read_of_plan == why
    assert both == f"{why}\nלא נקבעה פגישה"


async def test_data_of_an_agent_that_failed_is_not_shown_only_why(tmp_path: Path) -> None:
    schema = "{type: object, required: [success]}"
    config = coordinator(more=CHAT).replace("{description: events,", f"{{description: events, output_schema: {schema},")
    answer = say('{"success": false, "error": {"message": "החשבון לא מחובר"}, "events": []}')
    async with bench(tmp_path, config, {"Classifier": [decide("calendar")], "calendar": [answer]}) as service:
        ended, read = await told(service, HEBREW)
        assert (ended.status, read) == ("failed", "החשבון לא מחובר")


async def test_a_stop_is_told_in_the_users_language_by_whichever_process_wrote_it(tmp_path: Path) -> None:
    scripts: dict[str, Any] = {"Classifier": [decide("calendar")], "calendar": [hang()]}
    async with bench(tmp_path, coordinator(more=CHAT), scripts) as service:
        child, _ = await service.dispatcher.chat_queue.accept(Order("", HEBREW, user="eve"))
        await service.model.started("calendar")
        with pytest.raises(Refusal) as busy:
            await service.dispatcher.chat_queue.accept(Order("", HEBREW, user="eve"), patience=0.05)
        assert refusal_phrase(busy.value.kind, "he") == phrase("busy", "he")
        await service.dispatcher.cancel(child.id, "eve", "never mind")
        with anyio.fail_after(10):
            await service.ended(child.id)
        left, _ = await service.dispatcher.chat_queue.accept(Order("", HEBREW, user="dana"))
        await service.model.started("Classifier", 2)

    async with bench(tmp_path, coordinator(more=CHAT), {}) as service:  # nobody goes on with it: the wish ends it
        assert await service.dispatcher.cancel(left.id, "dana", "enough") == "requested"
        said = service.sql("select content from chat_messages where role = 'assistant'")
        assert [row["content"] for row in said] == [phrase("stopped", "he")] * 2


def test_each_sentence_exists_in_each_language_with_the_same_values() -> None:
    names = set(_PHRASES["en"])
    for language, sentences in _PHRASES.items():
        assert set(sentences) == names, language
        for name in names:
            both = _PHRASES["en"][name], sentences[name]
            filled = [{value for value in VALUES if f"{{{value}}}" in each} for each in both]
            assert filled[0] == filled[1], (language, name)
