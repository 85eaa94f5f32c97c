"""The faults of a model API: what the server does, and the state the execution ends in.

Owns: the declarations. Must not know: how they are run; `test_model_faults.py` does.
Invariant: everything the page says of an end is a field the test compares.

In every fault the model first calls the tool `poke`, which works, so that a second run would show; then it goes wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.faults.fault import Fault
from tests.support.messages_api import (
    Answer,
    break_off,
    cut,
    drop,
    encode_event,
    endless,
    garbage,
    mute,
    refuse,
    reply,
    stopped,
    text,
    tool_use,
)

CALL = reply(tool_use("poke", {"where": "first"}, "toolu_0"))
DONE = reply(text("done"))
PING = encode_event({"type": "ping"})
HASTE = "timeouts: {first_token: 200ms, stall: 200ms, total: 20s}"
CEILING = "timeouts: {first_token: 20s, stall: 20s, total: 300ms}"
FALLBACKS = "fallback: [second, third]"


@dataclass(frozen=True, slots=True)
class ModelFault(Fault):
    """A fault and, field by field, how the rows, the server and the tool must look afterwards."""

    answers: Sequence[Answer] = ()
    """After the first call, in order of arrival, the last one for ever."""
    status: str = "completed"
    outcome: str = "completed"
    reason: str | None = None
    code: str | None = None
    """Kind of the model error in the result."""
    said: str | None = None
    """Part of the error, or of the answer."""
    requests: int = 3
    """What arrives at the server, the first call included."""
    pokes: int = 1
    model: str = ""
    """Settings of the model, as in `models.m`."""
    agent: str = ""
    """Settings of the agent."""
    within: float = 1.0


def _failed(code: str, said: str, requests: int = 2) -> dict[str, Any]:
    return {"status": "failed", "outcome": "failed", "reason": "model", "code": code, "said": said, "requests": requests}


_SKEWED = {"date": "Wed, 21 Oct 2099 07:28:00 GMT", "retry_after": "Wed, 21 Oct 2099 07:28:00 GMT"}
_HTML = Answer(502, body=b"<html><h1>502 Bad Gateway</h1></html>")
_POKE = tool_use("poke", {"where": "second"}, "toolu_1")
_NAMELESS: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": None, "input": {}}
_MEGABYTE = "again and again " * 65_536

LIMITS = (
    ModelFault(
        "rate limit",
        "429 with `retry-after`",
        "waited for as told, then completed",
        (refuse(429, "rate_limit_error", retry_after_ms="50"), DONE),
    ),
    ModelFault(
        "rate limit, for an hour",
        "429 with `retry-after: 3600`",
        "not waited for: failed, `rate_limited`",
        (refuse(429, "rate_limit_error", retry_after="3600"),),
        **_failed("rate_limited", "status 429"),
    ),
    ModelFault(
        "rate limit, beyond the deadline",
        "429 with `retry-after: 30`, the agent has 5 s left",
        "not waited for: failed at once, `rate_limited`",
        (refuse(429, "rate_limit_error", retry_after="30"),),
        agent="timeout: 5s",
        **_failed("rate_limited", "status 429"),
    ),
    ModelFault(
        "spending limit",
        "429 without `retry-after`",
        "never repeated: failed, `rate_limited`",
        (refuse(429, "rate_limit_error"),),
        **_failed("rate_limited", "status 429"),
    ),
    ModelFault(
        "rate limit, clock wrong",
        "429 with `retry-after` as a date, by a clock decades ahead",
        "measured by the provider's own `date`, then completed",
        (refuse(429, "rate_limit_error", **_SKEWED), DONE),
    ),
)

STATUSES = (
    ModelFault("overloaded once", "529", "asked again, completed", (refuse(529, "overloaded_error"), DONE)),
    ModelFault(
        "overloaded for good",
        "529 every time",
        "failed after 3 attempts, `overloaded`",
        (refuse(529, "overloaded_error"),),
        **_failed("overloaded", "status 529", 4),
    ),
    ModelFault(
        "overloaded, with fallbacks",
        "529 from the model and its two fallbacks",
        "failed after 6 attempts altogether, `overloaded`, naming the fallbacks",
        (refuse(529, "overloaded_error"),),
        model=FALLBACKS,
        **_failed("overloaded", "`second`, `third` failed, too", 7),
    ),
    ModelFault(
        "server error", "500 every time", "failed after 3 attempts, `server`", (refuse(500),), **_failed("server", "500", 4)
    ),
    ModelFault("bad gateway", "502 with a page of HTML", "asked again, completed", (_HTML, DONE)),
    ModelFault("gateway timeout", "504", "asked again, completed", (refuse(504, "timeout_error"), DONE)),
    ModelFault(
        "told not to ask again",
        "500 with `x-should-retry: false`",
        "obeyed: failed, `server`",
        (refuse(500, x_should_retry="false"),),
        **_failed("server", "status 500"),
    ),
    ModelFault(
        "told to ask again",
        "400 with `x-should-retry: true`",
        "obeyed: completed",
        (refuse(400, "invalid_request_error", x_should_retry="true"), DONE),
    ),
    ModelFault(
        "key refused",
        "401",
        "failed, `authentication`; no fallback is asked",
        (refuse(401, "authentication_error"),),
        model=FALLBACKS,
        **_failed("authentication", "status 401"),
    ),
    ModelFault(
        "not permitted",
        "403",
        "failed, `permission`",
        (refuse(403, "permission_error"),),
        **_failed("permission", "status 403"),
    ),
    ModelFault(
        "no such model",
        "404",
        "failed, `not_found`",
        (refuse(404, "not_found_error"),),
        **_failed("not_found", "status 404"),
    ),
    ModelFault(
        "request too large",
        "413",
        "failed, `too_large`",
        (refuse(413, "request_too_large"),),
        **_failed("too_large", "status 413"),
    ),
    ModelFault(
        "prompt too long",
        "400, `prompt is too long`",
        "failed, `too_large`",
        (refuse(400, "invalid_request_error", "prompt is too long: 2 tokens > 1 maximum"),),
        **_failed("too_large", "status 400"),
    ),
    ModelFault(
        "request refused",
        "400",
        "failed, `invalid_request`",
        (refuse(400, "invalid_request_error"),),
        **_failed("invalid_request", "status 400"),
    ),
)

STREAMS = (
    ModelFault("cut before a byte", "the connection closes unanswered", "asked again, completed", (drop(), DONE)),
    ModelFault("cut in a text", "the stream ends in a word", "void and asked again, completed", (cut(DONE, 4), DONE)),
    ModelFault(
        "cut in a tool call",
        "the stream ends in the arguments",
        "that call never runs; asked again, completed",
        (cut(reply(_POKE), 5), DONE),
    ),
    ModelFault(
        "error after 200",
        "an `overloaded_error` in the stream",
        "void and asked again, completed",
        (break_off("overloaded_error"), DONE),
    ),
    ModelFault(
        "unreadable events",
        "event data that is no JSON",
        "asked again, completed",
        (endless(then=b"data: {not json}\n\n"), DONE),
    ),
    ModelFault(
        "no last event",
        "a stream without `message_stop`",
        "asked again, completed",
        (Answer(events=DONE.events[:-1]), DONE),
    ),
    ModelFault(
        "no HTTP", "another protocol on the port", "asked again, completed", (garbage(b"SSH-2.0-OpenSSH_9.9\r\n"), DONE)
    ),
    ModelFault(
        "line without end",
        "one event that never ends",
        "given up at 16 MB and not repeated: failed, `broken_stream`",
        (endless(then=b"data: " + b"x" * 262_144),),
        within=3.0,
        **_failed("broken_stream", "no end"),
    ),
    ModelFault(
        "no answer",
        "headers, then nothing",
        "given up after `timeouts.first_token`, 3 attempts: failed, `timeout`",
        (mute(),),
        model=HASTE,
        **_failed("timeout", "did not begin to answer within 0.2 s", 4),
    ),
    ModelFault(
        "only pings",
        "a `ping` every 10 ms, no answer",
        "no answer either: given up after `timeouts.first_token`, 3 attempts: failed, `timeout`",
        (Answer(for_ever=PING, pace=0.01),),
        model=HASTE,
        **_failed("timeout", "did not begin to answer within 0.2 s", 4),
    ),
    ModelFault(
        "silence in an answer",
        "a few words, then nothing",
        "given up after `timeouts.stall`, 3 attempts: failed, `timeout`",
        (endless(text("a few words"), then=b":", pace=20.0),),
        model=HASTE,
        **_failed("timeout", "fell silent in the middle of its answer, for 0.2 s", 4),
    ),
    ModelFault(
        "pings for ever",
        "a few words, then a `ping` every 10 ms",
        "given up after `timeouts.total` and not repeated: failed, `timeout`",
        (endless(text("a few words"), then=PING, pace=0.01),),
        model=CEILING,
        **_failed("timeout", "had not finished its answer after 0.3 s"),
    ),
    ModelFault(
        "slow drip",
        "a byte every 10 ms",
        "given up after `timeouts.total` and not repeated: failed, `timeout`",
        (endless(text("a few words"), then=b"d", pace=0.01),),
        model=CEILING,
        **_failed("timeout", "had not finished its answer after 0.3 s"),
    ),
)

STOPS = (
    ModelFault(
        "length limit in a text",
        "stop reason `max_tokens`",
        "continued, up to twice; the parts are one answer: completed",
        (stopped("max_tokens", text("first half, ")), reply(text("second half"))),
        said="first half, second half",
    ),
    ModelFault(
        "text in a loop",
        "a megabyte, and `max_tokens` every time",
        "continued twice, then completed, partial: `max_tokens`",
        (stopped("max_tokens", text(_MEGABYTE)), stopped("max_tokens", text("and again "))),
        outcome="partial",
        reason="max_tokens",
        requests=4,
        within=3.0,
    ),
    ModelFault(
        "length limit in a tool call",
        "`max_tokens` in the arguments",
        "that call never runs, the model is told; completed",
        (stopped("max_tokens", {**_POKE, "input": '{"where": "se'}), DONE),
    ),
    ModelFault(
        "length limit before the arguments",
        "`max_tokens` before a call has any",
        "that call never runs, the model is told; completed",
        (stopped("max_tokens", {**_POKE, "input": ""}), DONE),
    ),
    ModelFault(
        "pause",
        "stop reason `pause_turn`",
        "sent back as it is, goes on; the parts are one answer: completed",
        (stopped("pause_turn", text("searching, ")), reply(text("found"))),
        said="searching, found",
    ),
    ModelFault(
        "pauses for ever",
        "`pause_turn` every time",
        "each is a turn: completed, partial: `max_iterations`",
        (stopped("pause_turn", text("searching")),),
        outcome="partial",
        reason="max_iterations",
        requests=5,
        agent="max_iterations: 4",
    ),
    ModelFault(
        "refusal",
        "stop reason `refusal`",
        "an answer, so neither repeated nor given to a fallback: failed, `refused`",
        (stopped("refusal", text("I would rather")),),
        model=FALLBACKS,
        **_failed("refused", "declined to answer"),
    ),
    ModelFault(
        "context full",
        "stop reason `model_context_window_exceeded`",
        "nothing more is asked: completed, partial: `context_window`",
        (stopped("model_context_window_exceeded", text("so far"), _POKE),),
        outcome="partial",
        reason="context_window",
        said="so far",
        requests=2,
    ),
    ModelFault(
        "unknown stop reason",
        "a stop reason nobody knows",
        "stored as it is and read by its content: completed",
        (stopped("moon_phase", text("done")),),
        requests=2,
    ),
    ModelFault(
        "nothing said",
        "`end_turn` without content, three times",
        "asked again twice, then concluded: completed, partial: `empty_answers`",
        (reply(), reply(), reply(), DONE),
        outcome="partial",
        reason="empty_answers",
        requests=5,
    ),
)

CALLS = (
    ModelFault(
        "arguments no JSON",
        "a tool call whose arguments do not parse",
        "that call never runs, the model is told; completed",
        (reply({**_POKE, "input": '{"where": '}), DONE),
    ),
    ModelFault(
        "arguments no object",
        "a tool call whose arguments are a list",
        "that call never runs, the model is told; completed",
        (reply({**_POKE, "input": "[1, 2]"}), DONE),
    ),
    ModelFault(
        "unknown tool",
        "a call of a tool that does not exist",
        "the model is told the nearest names; completed",
        (reply(tool_use("pook", {}, "toolu_1")), DONE),
    ),
    ModelFault(
        "call without a name",
        "a `tool_use` block whose name is null",
        "no answer that can be sent back: asked again, completed",
        (reply(_NAMELESS), DONE),
    ),
    ModelFault(
        "same id in one reply",
        "two calls with one id, one of them twice",
        "each call runs once, under an id of its own; completed",
        (reply(_POKE, _POKE, {**_POKE, "input": {"where": "third"}}), DONE),
        pokes=3,
    ),
    ModelFault(
        "same id again",
        "a call with the id of an earlier turn",
        "runs under an id of its own; completed",
        (reply({**_POKE, "id": "toolu_0"}), DONE),
        pokes=2,
    ),
    ModelFault(
        "fifty calls",
        "50 tool calls in one reply",
        "all run at once and are answered in order; completed",
        (reply(*({**_POKE, "id": f"toolu_x{number}"} for number in range(50))), DONE),
        pokes=51,
    ),
    ModelFault(
        "unknown block",
        "a content block of a kind nobody knows",
        "kept and sent back unchanged; completed",
        (reply({"type": "hologram", "depth": 3}, {**_POKE, "input": {"where": "second"}}), DONE),
        pokes=2,
    ),
)

FAULTS: Sequence[ModelFault] = (*LIMITS, *STATUSES, *STREAMS, *STOPS, *CALLS)

UNREACHABLE = Fault("nobody there", "connection refused", "failed after 3 attempts, `connection`")
TLS = Fault("no TLS", "plain text on a port that should speak TLS", "failed after 3 attempts, `connection`")
INSTEAD = Fault(
    "fallback",
    "529 from the model, its fallback answers",
    "completed by the fallback, at its price, without others' thoughts",
)
DEAD = Fault(
    "dead provider",
    "500 every time, an agent and the 20 it dispatched are asking",
    "after 8 failures in a row nobody asks for 30 s: the tree ends at once, failed, `circuit_open`",
)

EVERY: Sequence[Fault] = (*FAULTS, UNREACHABLE, TLS, INSTEAD, DEAD)
