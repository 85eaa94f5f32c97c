"""The breaker of an endpoint, through the adapter: when nothing is sent any more, and how it comes back."""

from __future__ import annotations

from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest

from registry import Retry
from runner.llm.anthropic import AnthropicModel
from runner.llm.breaker import BreakerSettings
from runner.llm.protocol import ModelError, RetryWait
from tests.runner.llm.adapter import ONCE, at, model
from tests.runner.llm.asking import SPEC
from tests.support.messages_api import Answer, MessagesApi, Received, cut, drop, messages_api, refuse, reply, text

DEAD = refuse(500)
ALIVE = reply(text("here"))


async def ask(adapter: AnthropicModel, api: MessagesApi, retry: Retry = ONCE) -> str:
    """The kind of error, or `answered`."""
    try:
        await adapter.complete(at(api, retry=retry), lambda _: None)
    except ModelError as error:
        return error.kind
    return "answered"


async def test_after_enough_failures_in_a_row_nothing_is_sent() -> None:
    async with messages_api(DEAD) as api, model(settings=BreakerSettings(failures=3, lasting=0.0)) as adapter:
        assert [await ask(adapter, api) for _ in range(5)] == [*["server"] * 3, *["circuit_open"] * 2]
        assert len(api.requests) == 3


async def test_what_failed_together_in_one_moment_may_try_again() -> None:
    async with messages_api(drop()) as api, model(settings=BreakerSettings(failures=3, lasting=60.0)) as adapter:
        assert [await ask(adapter, api) for _ in range(5)] == ["connection"] * 5


@pytest.mark.parametrize("sign", [ALIVE, refuse(429), refuse(400), refuse(401)])
async def test_any_answer_even_a_refusal_ends_the_row(sign: Answer) -> None:
    script = [DEAD, DEAD, sign, DEAD, DEAD, sign]
    async with messages_api(*script) as api, model(settings=BreakerSettings(failures=3, lasting=0.0)) as adapter:
        assert "circuit_open" not in [await ask(adapter, api) for _ in script]


async def test_a_call_outlasts_the_rest_of_an_endpoint_that_is_left_alone() -> None:
    patient = Retry(seconds=20, first_wait=0.001, longest_wait=0.002)
    settings = BreakerSettings(failures=2, lasting=0.0, rest=0.2)
    async with messages_api(DEAD, DEAD, ALIVE) as api, model(settings=settings) as adapter:
        began = anyio.current_time()
        assert await ask(adapter, api, patient) == "answered"
        assert 0.2 <= anyio.current_time() - began < 5
        assert len(api.requests) == 3


async def test_many_calls_probe_a_dead_endpoint_one_at_a_time_until_their_time_is_over() -> None:
    patient = Retry(seconds=1, first_wait=0.02, longest_wait=0.05)
    kinds: list[str] = []
    async with messages_api(DEAD) as api, model(settings=BreakerSettings(failures=8, lasting=0.0, rest=0.1)) as adapter:

        async def note() -> None:
            kinds.append(await ask(adapter, api, patient))

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(note)
        assert kinds == ["server"] * 20
        assert len(api.requests) <= 20 + 8 + 12  # the first round, and a probe each rest


async def test_after_a_rest_one_call_probes_and_its_answer_opens_the_way_for_all() -> None:
    gate = anyio.Event()
    probe = reply(text("here"), gate=gate)
    kinds: list[str] = []
    async with (
        messages_api(DEAD, probe, ALIVE) as api,
        model(settings=BreakerSettings(1, lasting=0.0, rest=0.0)) as adapter,
    ):

        async def note() -> None:
            kinds.append(await ask(adapter, api))

        with anyio.fail_after(5):
            await note()
            async with anyio.create_task_group() as group:
                group.start_soon(note)
                await api.arrived(2)
                await note()
                gate.set()
            await note()
        assert kinds == ["server", "circuit_open", "answered", "answered"]
        assert len(api.requests) == 3


async def test_a_probe_that_fails_means_another_rest_and_one_that_is_cancelled_means_nothing() -> None:
    script = [DEAD, reply(text("never"), gate=anyio.Event()), cut(ALIVE, 3), ALIVE]
    async with messages_api(*script) as api, model(settings=BreakerSettings(1, lasting=0.0, rest=0.0)) as adapter:
        with anyio.fail_after(5):
            await ask(adapter, api)
            async with anyio.create_task_group() as group:
                group.start_soon(ask, adapter, api)
                await api.arrived(2)
                group.cancel_scope.cancel()
            assert [await ask(adapter, api) for _ in range(2)] == ["broken_stream", "answered"]
            assert len(api.requests) == 4


async def test_a_fallback_behind_another_endpoint_is_asked_and_one_behind_the_same_is_not() -> None:
    async with messages_api(DEAD) as dead, messages_api(ALIVE) as alive:
        specs = [replace(SPEC, name=name, base_url=api.url) for name, api in (("same", dead), ("other", alive))]
        async with model(*specs, settings=BreakerSettings(1, lasting=0.0)) as adapter:
            with pytest.raises(ModelError, match="`same` failed, too"):
                await adapter.complete(at(dead, fallback=("same",), retry=ONCE), lambda _: None)
            reached = await adapter.complete(at(dead, fallback=("same", "other"), retry=ONCE), lambda _: None)
        assert (len(dead.requests), len(alive.requests), reached.attempts) == (1, 1, 1)


async def test_the_error_names_the_host_without_what_else_an_address_holds() -> None:
    def answer(_: Received) -> Answer:
        return DEAD

    async with messages_api(answer) as api, model(settings=BreakerSettings(1, lasting=0.0)) as adapter:
        spec = replace(SPEC, base_url=api.url.replace("//", "//user:canary@"), retry=ONCE)
        with pytest.raises(ModelError):
            await adapter.complete(replace(at(api), spec=spec), lambda _: None)
        with pytest.raises(ModelError) as caught:
            await adapter.complete(replace(at(api), spec=spec), lambda _: None)
    assert caught.value.kind == "circuit_open"
    assert "`127.0.0.1` failed 1 times in a row" in str(caught.value)
    assert "canary" not in f"{caught.value} {caught.value.hint}"
    assert caught.value.recoverable


async def test_a_call_that_was_not_even_sent_does_not_wait_for_longer_each_time() -> None:
    gate, waits = anyio.Event(), list[float]()
    patient = Retry(seconds=60, first_wait=0.01, longest_wait=50)

    async def pause(wait: RetryWait) -> None:
        waits.append(wait.seconds)
        if len(waits) == 20:
            gate.set()
        await anyio.lowlevel.checkpoint()

    probe = reply(text("here"), gate=gate)
    async with (
        messages_api(DEAD, probe, ALIVE) as api,
        model(settings=BreakerSettings(1, lasting=0.0, rest=0.0)) as adapter,
    ):
        with anyio.fail_after(10):
            assert await ask(adapter, api) == "server"
            async with anyio.create_task_group() as group:
                group.start_soon(ask, adapter, api)
                await api.arrived(2)
                await adapter.complete(replace(at(api, retry=patient), pause=pause), lambda _: None)
    assert len(waits) >= 20
    assert max(waits) <= 0.01
