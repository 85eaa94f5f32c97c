"""What went wrong with a model call, in our words.

Owns the one mapping from exceptions of the SDK, the transport and the stream to ModelError, and whether asking again can
help. Knows neither waiting nor other models. Invariant: of what a provider wrote, only the status code and an error type
from a known list reach a message; the rest may hold anything and would end up in a prompt.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from registry import ModelSpec
from runner.llm.patience import OutOfPatience
from runner.llm.protocol import ModelError
from runner.llm.stream import StreamError


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt: the error it would end with, whether to try again, and when the provider wants that."""

    error: ModelError
    retryable: bool
    retry_after: float | None = None


_TYPE_KINDS = {
    "authentication_error": "authentication",
    "billing_error": "permission",
    "permission_error": "permission",
    "invalid_request_error": "invalid_request",
    "not_found_error": "not_found",
    "request_too_large": "too_large",
    "rate_limit_error": "rate_limited",
    "overloaded_error": "overloaded",
    "timeout_error": "timeout",
    "api_error": "server",
}
"""The error types the Messages API documents; no other is ever repeated."""

_STATUS_KINDS = {
    400: "invalid_request",
    401: "authentication",
    402: "permission",
    403: "permission",
    404: "not_found",
    408: "timeout",
    409: "server",
    413: "too_large",
    422: "invalid_request",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}

_RECOVERABLE = frozenset({"rate_limited", "overloaded", "timeout", "connection", "broken_stream", "server"})

_LAPSES = {
    "first_token": "did not begin to answer within {seconds:g} s",
    "stall": "fell silent in the middle of its answer, for {seconds:g} s",
    "total": "had not finished its answer after {seconds:g} s",
}

_HINTS = {
    "authentication": "check the key in `{key}`",
    "permission": "check what the key in `{key}` may use, and its credit",
    "invalid_request": "check `models.{name}` in the configuration, and that the endpoint knows this model's settings",
    "not_found": "check `models.{name}.model` in the configuration",
    "too_large": "shorten the task, or let fewer results be delivered in full",
    "rate_limited": "wait, or lower `max_concurrent_agents`; a spending limit is raised at the provider",
    "overloaded": "try again in a few minutes, or name a `fallback` for `models.{name}`",
    "timeout": "try again, or name a `fallback` for `models.{name}`",
    "connection": "check the network and the address of the endpoint",
    "broken_stream": "try again; if it goes on, check what lies between here and the endpoint",
    "server": "try again, or name a `fallback` for `models.{name}`",
    "unknown": "the log has the details",
}


def missing_key(spec: ModelSpec) -> ModelError:
    """The error of a model whose key is not in the environment."""
    return ModelError(
        "authentication",
        f"the model `{spec.name}` needs a key and `{spec.api_key_env}` is not set",
        f"set `{spec.api_key_env}`, or name a `rehearsal` for `models.{spec.name}`",
    )


def failure_of(error: Exception, spec: ModelSpec) -> Failure | None:
    """What an exception of a model call means, or None when it is no failure of the call but a bug."""
    import aiohttp
    import anthropic
    import httpx2

    match error:
        case ModelError():
            return Failure(error, retryable=False)
        case OutOfPatience():
            return _of_lapse(error, spec)
        case anthropic.APIStatusError():
            return _of_status(error.status_code, error.response.headers, error.body, spec)
        # The transport calls every failure to connect, and a connection dropped before the headers, a connect timeout.
        case anthropic.APITimeoutError() if not isinstance(error.__cause__, httpx2.ConnectTimeout):
            return _failure("timeout", "gave no answer", spec)
        case anthropic.APIConnectionError():
            return _failure("connection", "could not be reached", spec)
        case anthropic.AnthropicError():
            return _failure("unknown", f"could not be asked ({type(error).__name__})", spec)
        case StreamError():
            return _of_stream(error.type, spec)
        case httpx2.TimeoutException():
            return _failure("timeout", "stopped in the middle of its answer", spec)
        case httpx2.HTTPError() | httpx2.StreamError() | aiohttp.ClientError() | OSError():
            return _failure("broken_stream", "was cut off in the middle of its answer", spec)
    return None


def _of_status(status: int, headers: Mapping[str, str], body: object, spec: ModelSpec) -> Failure:
    named, words = _error_in(body)
    kind = _STATUS_KINDS.get(status) or ("server" if status >= 500 else _TYPE_KINDS.get(named, "unknown"))
    if kind == "invalid_request" and "prompt is too long" in words:
        kind = "too_large"
    wait = retry_after(headers)
    retryable = kind in _RECOVERABLE
    if status == 429:
        # A spending limit is also a 429, but without a time after which asking again could help.
        retryable = wait is not None
    retryable = {"true": True, "false": False}.get(headers.get("x-should-retry", ""), retryable)
    shown = f" ({named})" if named in _TYPE_KINDS else ""
    failure = _failure(kind, f"answered with status {status}{shown}", spec)
    return Failure(failure.error, retryable, wait)


def _of_lapse(error: OutOfPatience, spec: ModelSpec) -> Failure:
    what = _LAPSES[error.lapse].format(seconds=error.seconds)
    hint = f"raise `models.{spec.name}.timeouts.{error.lapse}`, or name a `fallback` for `models.{spec.name}`"
    told = ModelError("timeout", f"the model `{spec.name}` {what}", hint, recoverable=True)
    # What was not finished in all that time would not be the second time either; another model may be quicker.
    return Failure(told, retryable=error.lapse != "total")


def _of_stream(type_: str, spec: ModelSpec) -> Failure:
    kind = _TYPE_KINDS.get(type_)
    if type_ == "oversized":
        failure = _failure("broken_stream", "sent an answer that has no end", spec)
        return Failure(failure.error, retryable=False)
    if kind is None:
        return _failure("broken_stream", "sent an answer that broke off or could not be read", spec)
    return _failure(kind, f"broke off its answer ({type_})", spec)


def _failure(kind: str, what: str, spec: ModelSpec) -> Failure:
    hint = _HINTS[kind].format(name=spec.name, key=spec.api_key_env)
    recoverable = kind in _RECOVERABLE
    return Failure(ModelError(kind, f"the model `{spec.name}` {what}", hint, recoverable=recoverable), recoverable)


def _error_in(body: object) -> tuple[str, str]:
    """Error type and message of an error body; both only to be compared with, never to be shown."""
    found: Any = body.get("error") if isinstance(body, Mapping) else None
    if not isinstance(found, Mapping):
        return "", ""
    return str(found.get("type")), str(found.get("message"))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the provider asks us to wait, from `retry-after-ms` or `retry-after` (seconds or a date)."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers.get(name, "")) * unit)
        except ValueError:
            continue
    until = _moment(headers.get("retry-after", ""))
    if until is None:
        return None
    # A date is measured by the clock that wrote it: ours may be wrong by hours.
    now = _moment(headers.get("date", ""))
    return max(0.0, until - (time.time() if now is None else now))


def _moment(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
