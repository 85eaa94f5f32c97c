"""The faults of a model API: what the server does, and the state the execution ends in.

Owns: the declarations. Must not know: how they are run; `test_model_faults.py` does.
Invariant: everything the page says of an end is a field the test compares.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.faults.fault import Fault
from tests.faults.model_fault import DONE, FALLBACKS, POKE, ModelFault, failed, outlasted
from tests.faults.reply_faults import CALLS, STOPS
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
    text,
)

PING = encode_event({"type": "ping"})
HASTE = "timeouts: {first_token: 400ms, stall: 400ms, total: 20s}"
CEILING = "timeouts: {first_token: 20s, stall: 20s, total: 600ms}"


_SKEWED = {"date": "Wed, 21 Oct 2099 07:28:00 GMT", "retry_after": "Wed, 21 Oct 2099 07:28:00 GMT"}
_HTML = Answer(502, body=b"<html><h1>502 Bad Gateway</h1></html>")

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
        **failed("rate_limited", "status 429"),
    ),
    ModelFault(
        "rate limit, beyond the deadline",
        "429 with `retry-after: 30`, the agent has 5 s left",
        "not waited for: failed at once, `rate_limited`",
        (refuse(429, "rate_limit_error", retry_after="30"),),
        model="retry: {for: 60s}",
        agent="timeout: 5s",
        **failed("rate_limited", "status 429"),
    ),
    ModelFault(
        "rate limit, without a time",
        "429 without `retry-after`",
        "asked again, completed",
        (refuse(429, "rate_limit_error"), DONE),
    ),
    ModelFault(
        "spending limit",
        "429 that says so",
        "never repeated: failed, `credit`",
        (refuse(429, "rate_limit_error", "You have reached your specified API usage limits."),),
        **failed("credit", "status 429"),
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
        "asked again until `retry.for` is over, then failed, `overloaded`",
        (refuse(529, "overloaded_error"),),
        **outlasted("overloaded", "status 529"),
    ),
    ModelFault(
        "overloaded, with fallbacks",
        "529 from the model and its two fallbacks",
        "all asked in turn until `retry.for` is over, then failed, `overloaded`, naming the fallbacks",
        (refuse(529, "overloaded_error"),),
        model=FALLBACKS,
        **outlasted("overloaded", "`second`, `third` failed, too", 7),
    ),
    ModelFault(
        "server error",
        "500 every time",
        "asked again until `retry.for` is over, then failed, `server`",
        (refuse(500),),
        **outlasted("server", "500"),
    ),
    ModelFault("bad gateway", "502 with a page of HTML", "asked again, completed", (_HTML, DONE)),
    ModelFault("gateway timeout", "504", "asked again, completed", (refuse(504, "timeout_error"), DONE)),
    ModelFault(
        "told not to ask again",
        "500 with `x-should-retry: false`",
        "obeyed: failed, `server`",
        (refuse(500, x_should_retry="false"),),
        **failed("server", "status 500"),
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
        **failed("authentication", "status 401"),
    ),
    ModelFault(
        "not permitted",
        "403",
        "failed, `permission`",
        (refuse(403, "permission_error"),),
        **failed("permission", "status 403"),
    ),
    ModelFault(
        "no such model",
        "404",
        "failed, `not_found`",
        (refuse(404, "not_found_error"),),
        **failed("not_found", "status 404"),
    ),
    ModelFault(
        "request too large",
        "413",
        "failed, `too_large`",
        (refuse(413, "request_too_large"),),
        **failed("too_large", "status 413"),
    ),
    ModelFault(
        "prompt too long",
        "400, `prompt is too long`",
        "failed, `too_large`",
        (refuse(400, "invalid_request_error", "prompt is too long: 2 tokens > 1 maximum"),),
        **failed("too_large", "status 400"),
    ),
    ModelFault(
        "no credit",
        "400, `Your credit balance is too low`",
        "failed, `credit`",
        (refuse(400, "invalid_request_error", "Your credit balance is too low to access the API."),),
        **failed("credit", "Your credit balance is too low"),
    ),
    ModelFault(
        "region not served",
        "403, `unsupported country`",
        "failed, `region`",
        (refuse(403, "permission_error", "Access from an unsupported country, region, or territory is not allowed."),),
        **failed("region", "status 403"),
    ),
    ModelFault(
        "request refused",
        "400",
        "failed, `invalid_request`",
        (refuse(400, "invalid_request_error"),),
        **failed("invalid_request", "status 400"),
    ),
)

STREAMS = (
    ModelFault("cut before a byte", "the connection closes unanswered", "asked again, completed", (drop(), DONE)),
    ModelFault("cut in a text", "the stream ends in a word", "void and asked again, completed", (cut(DONE, 4), DONE)),
    ModelFault(
        "cut in a tool call",
        "the stream ends in the arguments",
        "that call never runs; asked again, completed",
        (cut(reply(POKE), 5), DONE),
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
        **failed("broken_stream", "no end"),
    ),
    ModelFault(
        "no answer",
        "headers, then nothing",
        "given up after `timeouts.first_token`, asked again until `retry.for` is over: failed, `timeout`",
        (mute(),),
        model=HASTE,
        within=1.5,
        **outlasted("timeout", "did not begin to answer within 0.4 s", 3),
    ),
    ModelFault(
        "only pings",
        "a `ping` every 10 ms, no answer",
        "no answer either: given up after `timeouts.first_token`, asked again, completed",
        (Answer(for_ever=PING, pace=0.01), DONE),
        model=HASTE,
    ),
    ModelFault(
        "silence in an answer",
        "a few words, then nothing",
        "given up after `timeouts.stall`, void and asked again, completed",
        (endless(text("a few words"), then=b":", pace=20.0), DONE),
        model=HASTE,
    ),
    ModelFault(
        "pings for ever",
        "a few words, then a `ping` every 10 ms",
        "given up after `timeouts.total` and not repeated: failed, `timeout`",
        (endless(text("a few words"), then=PING, pace=0.01),),
        model=CEILING,
        **failed("timeout", "had not finished its answer after 0.6 s"),
    ),
    ModelFault(
        "slow drip",
        "a byte every 10 ms",
        "given up after `timeouts.total` and not repeated: failed, `timeout`",
        (endless(text("a few words"), then=b"d", pace=0.01),),
        model=CEILING,
        **failed("timeout", "had not finished its answer after 0.6 s"),
    ),
)

FAULTS: Sequence[ModelFault] = (*LIMITS, *STATUSES, *STREAMS, *STOPS, *CALLS)

_OUTLASTED = "asked again until `retry.for` is over, then failed, `connection`"
UNREACHABLE = Fault("nobody there", "connection refused", _OUTLASTED)
TLS = Fault("no TLS", "plain text on a port that should speak TLS", _OUTLASTED)
INSTEAD = Fault(
    "fallback",
    "529 from the model, its fallback answers",
    "completed by the fallback, at its price, without others' thoughts",
)
DEAD = Fault(
    "dead provider",
    "500 every time, an agent and the 20 it dispatched are asking",
    "after 8 failures in a row one request is sent every 5 s; each agent fails when its `retry.for` is over",
)

EVERY: Sequence[Fault] = (*FAULTS, UNREACHABLE, TLS, INSTEAD, DEAD)
