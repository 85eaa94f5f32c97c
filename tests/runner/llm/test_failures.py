"""A model call that fails, against a real HTTP server: how often it is tried, who is asked next, and what is said."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import anyio
import pytest

from registry import Retry, StreamTimeouts
from runner.llm.endpoint import Unasked
from runner.llm.failures import AskedModel, failure_of
from runner.llm.protocol import ModelError, RetryWait
from runner.messages import Message
from tests.runner.llm.adapter import KEY, ONCE, QUICK, at, complete, failing, model
from tests.runner.llm.asking import SPEC, asked, assistant, user
from tests.support.messages_api import (
    Answer,
    Received,
    break_off,
    cut,
    drop,
    encode_event,
    endless,
    garbage,
    messages_api,
    mute,
    refuse,
    reply,
    text,
    thinking,
)
from tests.support.requirement import requirement

pytestmark = pytest.mark.usefixtures("path")

PING = encode_event({"type": "ping"})
DONE = reply(text("done"))


async def test_cancelling_during_the_wait_before_another_attempt_starts_none() -> None:
    patient = Retry(seconds=1000, first_wait=1000, longest_wait=1000)
    async with messages_api(refuse(529)) as api, model() as adapter:
        with anyio.move_on_after(1) as scope:
            await adapter.complete(at(api, retry=patient), lambda _: None)
        assert scope.cancelled_caught
        assert len(api.requests) == 1


OUTAGES = [
    refuse(500),
    refuse(502),
    refuse(529, "overloaded_error"),
    refuse(429, "rate_limit_error"),
    refuse(408),
    drop(),
    break_off("overloaded_error"),
    garbage(b"SSH-2.0-OpenSSH_9.9\r\n\r\n"),
    garbage(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nno chunk at all\r\n"),
]
BROKEN = [
    cut(reply(text("one two three")), 4),
    garbage(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 9\r\n\r\n<html>..."),
]


@requirement("S2-LE-17")
@pytest.mark.parametrize("fault", OUTAGES)
async def test_an_outage_is_outlasted_for_as_long_as_the_setting_says(fault: Answer) -> None:
    announced: list[int] = []
    async with messages_api(fault) as api:
        request = replace(at(api), on_attempt=lambda _, number: announced.append(number))
        began = time.monotonic()
        error = await failing(api, request)
        assert QUICK.seconds <= time.monotonic() - began < QUICK.seconds + 1
    assert len(api.requests) == len(announced) > 3  # one layer repeats: what is announced is what is sent
    assert error.recoverable
    assert f"asked {len(announced)} times in 0.3" in str(error)


@pytest.mark.parametrize("fault", OUTAGES)
async def test_an_outage_that_ends_in_time_is_not_noticed_by_the_caller(fault: Answer) -> None:
    async with messages_api(*[fault] * 5, reply(text("here again"))) as api:
        answer = await complete(api, at(api, retry=Retry(seconds=20, first_wait=0.01, longest_wait=0.02)))
    assert (list(answer.content), answer.attempts) == ([text("here again")], 6)


@pytest.mark.parametrize("fault", OUTAGES)
async def test_without_time_to_retry_a_model_is_asked_once(fault: Answer) -> None:
    async with messages_api(fault) as api:
        await failing(api, at(api, retry=ONCE))
        assert len(api.requests) == 1


@pytest.mark.parametrize("fault", BROKEN)
async def test_an_answer_that_breaks_off_each_time_is_paid_for_three_times_at_most(fault: Answer) -> None:
    async with messages_api(fault) as api:
        error = await failing(api)
        assert len(api.requests) == 3
        assert error.recoverable


def test_a_minute_is_outlasted_by_default() -> None:
    assert SPEC.retry == Retry(seconds=60, first_wait=0.5, longest_wait=15)


async def test_each_wait_is_told_with_what_the_provider_said_and_when_it_ends() -> None:
    waits: list[RetryWait] = []

    async def pause(wait: RetryWait) -> None:
        waits.append(wait)

    async with messages_api(refuse(529, "overloaded_error", "busy"), refuse(500), reply(text("done"))) as api:
        patient = Retry(seconds=60, first_wait=8, longest_wait=8)
        await complete(api, replace(at(api, retry=patient), pause=pause))
    first, second = waits
    assert (first.model, first.error.kind, second.error.kind) == ("sonnet", "overloaded", "server")
    assert first.error.provider is not None
    assert first.error.provider.message == "busy"
    assert 0 <= first.seconds <= 8
    assert 50 < second.left <= first.left <= 60
    assert str(replace(first, seconds=4.2, left=52.4)) == "model API overloaded (529), retrying in 4 s, giving up in 52 s"


async def test_a_second_attempt_may_succeed_and_is_announced() -> None:
    numbers: list[tuple[str, int]] = []
    async with messages_api(refuse(529), cut(reply(text("one two three")), 4), reply(text("done"))) as api:
        request = replace(at(api), on_attempt=lambda name, number: numbers.append((name, number)))
        answer = await complete(api, request)
    assert list(answer.content) == [text("done")]
    assert answer.attempts == 3
    assert numbers == [("sonnet", 1), ("sonnet", 2), ("sonnet", 3)]


async def test_a_bug_of_the_listener_is_neither_retried_nor_renamed() -> None:
    def listen(_: str) -> None:
        raise ZeroDivisionError

    async with messages_api(reply(text("one two three"))) as api, model() as adapter:
        with pytest.raises(ZeroDivisionError):
            await adapter.complete(at(api), listen)
        assert len(api.requests) == 1


@pytest.mark.parametrize("after", range(8))
async def test_a_stream_cut_anywhere_is_asked_for_again(after: int) -> None:
    whole = reply(text("one two three"))
    async with messages_api(cut(whole, after), whole) as api:
        assert list((await complete(api)).content) == [text("one two three")]
        assert len(api.requests) == 2


async def test_a_rate_limit_is_obeyed_when_it_says_how_long() -> None:
    async with messages_api(refuse(429, "rate_limit_error", retry_after_ms="150"), reply(text("now"))) as api:
        began = time.monotonic()
        await complete(api)
        assert time.monotonic() - began >= 0.15
        assert len(api.requests) == 2


@pytest.mark.parametrize(
    "headers", [{"retry_after": "3600"}, {"retry_after_ms": "3600000"}, {"retry_after": "Wed, 21 Oct 2099 07:28:00 GMT"}]
)
@pytest.mark.parametrize("status", [429, 529, 503])
async def test_a_wait_longer_than_there_is_time_for_is_not_begun(status: int, headers: dict[str, str]) -> None:
    async with messages_api(refuse(status, "rate_limit_error", **headers)) as api:
        error = await failing(api)
        assert len(api.requests) == 1
    assert error.recoverable
    assert "it cannot be asked again for " in str(error)
    assert "and 0 s are left" in str(error)


async def test_a_spending_limit_is_not_asked_again() -> None:
    said = "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."
    async with messages_api(refuse(429, "rate_limit_error", said)) as api:
        error = await failing(api)
        assert len(api.requests) == 1
    assert (error.kind, error.recoverable) == ("credit", False)


async def test_a_wait_that_ends_after_the_deadline_is_not_begun() -> None:
    async with messages_api(refuse(429, "rate_limit_error", retry_after="50")) as api:
        began = time.monotonic()
        with anyio.fail_after(49):
            error = await failing(api, at(api, retry=Retry(seconds=100)))
        assert time.monotonic() - began < 5
        assert (error.kind, len(api.requests)) == ("rate_limited", 1)


async def test_a_fallback_is_asked_at_once_and_before_the_model_a_second_time() -> None:
    async with messages_api(refuse(529)) as api:
        names = [f"m{number}" for number in range(8)]
        others = [replace(SPEC, name=name, model=name, base_url=api.url) for name in names]
        async with model(*others) as adapter:
            with pytest.raises(ModelError, match="`m6`, `m7` failed, too"):
                await adapter.complete(at(api, fallback=tuple(names)), lambda _: None)
        asked_for = [received.body["model"] for received in api.requests]
    assert asked_for[:10] == ["claude-sonnet-5-5", *names, "claude-sonnet-5-5"]


async def test_a_model_that_is_to_be_left_alone_for_a_while_leaves_the_word_to_its_fallback() -> None:
    def answer(received: Received) -> Answer:
        alone = received.body["model"] == "claude-sonnet-5-5"
        return (
            refuse(429, "rate_limit_error", retry_after="20") if alone else refuse(529) if len(api.requests) < 6 else DONE
        )

    async with messages_api(answer) as api:
        other = replace(SPEC, name="haiku", model="claude-haiku-5-5", base_url=api.url)
        async with model(other) as adapter:
            patient = Retry(seconds=30, first_wait=0.01, longest_wait=0.02)
            await adapter.complete(at(api, fallback=("haiku",), retry=patient), lambda _: None)
        asked_for = [received.body["model"] for received in api.requests]
    assert asked_for == ["claude-sonnet-5-5", *["claude-haiku-5-5"] * 5]


@pytest.mark.parametrize(("answer", "again"), [("true", True), ("false", False)])
async def test_the_provider_may_decide_whether_asking_again_helps(answer: str, again: bool) -> None:
    for fault in (refuse(400, x_should_retry=answer), refuse(500, x_should_retry=answer)):
        async with messages_api(fault) as api:
            await failing(api)
            assert (len(api.requests) > 1) is again


@pytest.mark.parametrize(
    ("status", "type_", "kind", "recoverable"),
    [
        (400, "invalid_request_error", "invalid_request", False),
        (401, "authentication_error", "authentication", False),
        (402, "billing_error", "credit", False),
        (403, "permission_error", "permission", False),
        (404, "not_found_error", "not_found", False),
        (413, "request_too_large", "too_large", False),
        (418, "made_up", "unknown", False),
        (422, "invalid_request_error", "invalid_request", False),
        (429, "rate_limit_error", "rate_limited", True),
        (500, "api_error", "server", True),
        (502, "api_error", "server", True),
        (503, "api_error", "overloaded", True),
        (504, "timeout_error", "timeout", True),
        (529, "overloaded_error", "overloaded", True),
    ],
)
async def test_every_status_has_a_kind_our_words_and_a_hint(status: int, type_: str, kind: str, recoverable: bool) -> None:
    async with messages_api(refuse(status, type_, "canary")) as api:
        error = await failing(api, at(api, retry=ONCE))
    assert (error.kind, error.recoverable) == (kind, recoverable)
    assert error.kind in ModelError.KINDS
    assert f"status {status}" in str(error)
    assert error.hint
    assert "canary" not in f"{error} {error.hint}"
    assert "made_up" not in str(error)


async def test_a_prompt_that_is_too_long_is_told_apart() -> None:
    fault = refuse(400, "invalid_request_error", "prompt is too long: 1200000 tokens > 1000000 maximum")
    async with messages_api(fault) as api:
        error = await failing(api)
    assert error.kind == "too_large"


@requirement("S2-LE-16")
@pytest.mark.parametrize(
    "fault",
    [
        refuse(500, "canary", "canary"),
        refuse(529, "overloaded_error", "canary"),
        refuse(429, "rate_limit_error", "canary", request_id="canary", retry_after="canary"),
        Answer(500, body=b"<html>canary</html>"),
        break_off("overloaded_error", "canary"),
        break_off("canary", "canary"),
    ],
)
async def test_what_a_provider_writes_reaches_neither_the_error_nor_the_next_request(fault: Answer) -> None:
    def answer(received: Received) -> Answer:
        return fault if received.body["model"] == "claude-sonnet-5-5" else reply(text("instead"))

    async with messages_api(answer) as api:
        other = replace(SPEC, name="haiku", model="claude-haiku-5-5", base_url=api.url)
        async with model(other) as adapter:
            await adapter.complete(at(api, fallback=("haiku",)), lambda _: None)
        assert "canary" not in api.requests[-1].raw.decode()
        error = await failing(api)
    assert "canary" not in f"{error} {error.hint}"


async def test_a_fallback_answers_when_the_model_cannot_and_gets_no_foreign_thoughts() -> None:
    def answer(received: Received) -> Answer:
        return reply(text("instead")) if received.body["model"] == "claude-haiku-5-5" else refuse(529)

    history = [user("go"), assistant(thinking("mine"), text("first")), user("on"), assistant(thinking("only")), user("?")]
    history += [assistant(text("second")), user("!")]
    async with messages_api(answer) as api:
        other = replace(SPEC, name="haiku", model="claude-haiku-5-5", base_url=api.url)
        async with model(other) as adapter:
            reached = await adapter.complete(at(api, *history, fallback=("haiku",)), lambda _: None)
        assert [received.body["model"] for received in api.requests] == ["claude-sonnet-5-5", "claude-haiku-5-5"]
        first, last = api.requests[0].body["messages"], api.requests[-1].body["messages"]
    assert (reached.model, reached.attempts) == ("claude-haiku-5-5", 2)
    assert first[1]["content"] == [thinking("mine"), text("first")]
    assert [message["content"][0]["text"] for message in last] == ["go", "first", "on", "?", "second", "!"]


async def test_thoughts_of_a_fallback_are_not_sent_to_the_model_that_comes_back() -> None:
    history = [user("go"), Message("assistant", [thinking("other"), text("said")], model="claude-haiku-5-5"), user("on")]
    async with messages_api(reply(text("ok"))) as api:
        await complete(api, at(api, *history))
        assert api.requests[0].body["messages"][1]["content"] == [text("said")]


async def test_when_every_fallback_fails_the_error_is_the_first_and_names_them() -> None:
    async with messages_api(refuse(529)) as api:
        others = [replace(SPEC, name=name, model=name, base_url=api.url) for name in ("haiku", "opus")]
        async with model(*others) as adapter:
            with pytest.raises(
                ModelError, match=r"`sonnet` answered with status 529 .*; `haiku`, `opus` failed, too"
            ) as caught:
                await adapter.complete(at(api, fallback=("haiku", "opus")), lambda _: None)
        asked_for = [received.body["model"] for received in api.requests]
        assert asked_for[:6] == ["claude-sonnet-5-5", "haiku", "opus"] * 2
    assert caught.value.kind == "overloaded"


async def test_an_error_that_another_model_would_repeat_asks_no_fallback() -> None:
    async with messages_api(refuse(401, "authentication_error")) as api:
        async with model(replace(SPEC, name="haiku", base_url=api.url)) as adapter:
            with pytest.raises(ModelError):
                await adapter.complete(at(api, fallback=("haiku",)), lambda _: None)
        assert len(api.requests) == 1


def test_an_error_of_the_sdk_that_we_do_not_know_is_told_by_its_type() -> None:
    failure = failure_of(Unasked("AnthropicError"), AskedModel(SPEC))
    assert failure is not None
    assert (failure.error.kind, failure.retryable) == ("unknown", False)
    assert "AnthropicError" in str(failure.error)


async def test_no_error_shows_the_key() -> None:
    for fault in (refuse(401, "authentication_error", KEY), drop(), break_off("api_error", KEY)):
        async with messages_api(fault) as api:
            error = await failing(api)
        assert KEY not in f"{error} {error.hint} {error!r} {error.provider}"


async def test_an_endpoint_that_is_not_there_is_a_connection_error() -> None:
    async with messages_api(mute()) as api:
        url = api.url
    async with model() as adapter:
        with pytest.raises(ModelError) as caught:
            await adapter.complete(asked(spec=replace(SPEC, base_url=url, retry=QUICK)), lambda _: None)
    assert (caught.value.kind, caught.value.recoverable) == ("connection", True)


@pytest.mark.parametrize(
    ("timeouts", "answer", "said", "again"),
    [
        (StreamTimeouts(first_token=0.1), mute, "did not begin to answer within 0.1 s", True),
        (
            StreamTimeouts(first_token=0.1),
            lambda: replace(mute(), gate_after=-1),
            "did not begin to answer within 0.1 s",
            True,
        ),
        (
            StreamTimeouts(first_token=0.1),
            lambda: Answer(for_ever=PING, pace=0.01),
            "did not begin to answer within 0.1 s",
            True,
        ),
        (
            StreamTimeouts(stall=0.1),
            lambda: endless(text("well"), then=b":", pace=60),
            "fell silent in the middle of its answer",
            True,
        ),
        (
            StreamTimeouts(total=0.2),
            lambda: endless(text("well"), then=PING, pace=0.01),
            "not finished its answer after 0.2 s",
            False,
        ),
    ],
)
async def test_each_timeout_has_its_words_and_names_its_setting(
    timeouts: StreamTimeouts, answer: Callable[[], Answer], said: str, again: bool
) -> None:
    async with messages_api(answer()) as api:
        error = await failing(api, at(api, timeouts=timeouts))
        assert (len(api.requests) > 1) is again
    changed = next(name for name in ("first_token", "stall", "total") if getattr(timeouts, name) < 1)
    assert (error.kind, error.recoverable) == ("timeout", True)
    assert said in str(error)
    assert f"`models.sonnet.timeouts.{changed}`" in error.hint


async def test_signs_of_life_keep_an_answer_going_for_longer_than_a_stall() -> None:
    whole = reply(text("one two three"))
    lively = replace(whole, events=[*whole.events[:4], *[{"type": "ping"}] * 40, *whole.events[4:]], pace=0.01)
    async with messages_api(lively) as api:
        began = time.monotonic()
        answered = await complete(api, at(api, timeouts=StreamTimeouts(stall=0.2)))
        assert time.monotonic() - began > 0.4
        assert list(answered.content) == [text("one two three")]


async def test_a_page_in_the_place_of_an_answer_is_told_by_its_words() -> None:
    page = b"<html><head><script>var a = '<b>';</script></head><body><h1>Sign in</h1>to the network</body></html>"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(page)
    async with messages_api(garbage(head + page)) as api:
        error = await failing(api)
    assert error.kind == "broken_stream"
    assert error.provider is not None
    assert error.provider.message == "Sign in to the network"


@pytest.mark.parametrize("body", [b"<script" * 9_000, b"<!--" * 9_000, b"<" * 60_000, b"\xff\x00" * 30_000])
async def test_a_hostile_error_body_costs_no_more_than_its_length(body: bytes) -> None:
    hostile = Answer(400, body=b"<html>" + body)
    errors: list[ModelError] = []
    async with messages_api(hostile, DONE, hostile) as api, model() as adapter:
        began = time.process_time()
        for _ in range(3):  # until an answer came, the SDK reads bodies; from then on, we do
            try:
                await adapter.complete(at(api), lambda _: None)
            except ModelError as error:
                errors.append(error)
        assert time.process_time() - began < 2
    assert [error.kind for error in errors] == ["invalid_request"] * 2
    assert all(error.provider is not None and len(error.provider.message) <= 500 for error in errors)
