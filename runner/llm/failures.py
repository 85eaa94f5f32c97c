"""Failures of model calls, classified.

Owns the one mapping from exceptions of endpoint, transport and stream to ModelError, and whether a retry can help.
Knows neither waits nor other models. Invariant: a message may end up in a prompt, so of the provider's text only the
status and a known error type enter it; the rest is kept beside it, for people.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime

from registry import ModelSpec
from runner.llm.endpoint import StatusRefused, Unasked, Unreached, transport_errors
from runner.llm.protocol import ModelError
from runner.llm.stream import StreamError
from runner.llm.timeouts import AnswerTimeout
from runner.provider_error import Hide, ProviderError, plain, provider_error


@dataclass(frozen=True, slots=True)
class ModelFailure:
    """A failed attempt: its error, whether to retry, and after how long if the provider says so."""

    error: ModelError
    retryable: bool
    retry_after: float | None = None
    elsewhere: bool = False
    """Whether another model may succeed."""
    midway: bool = False
    """Whether the answer had begun: its tokens may be billed, so few such attempts are made."""


FailureOf = Callable[[Exception], ModelFailure | None]
"""Says which failure an exception means; None for a bug."""


@dataclass(frozen=True, slots=True)
class AskedModel:
    """The model that an attempt asked, and what explaining its failure needs."""

    spec: ModelSpec
    hide: Hide = lambda text: text
    """Masks secrets in the provider's text."""
    defined_at: str = ""
    """Where the configuration defines the model, as `config.yaml:7`."""


_TYPE_KINDS = {
    "authentication_error": "authentication",
    "billing_error": "credit",
    "permission_error": "permission",
    "invalid_request_error": "invalid_request",
    "not_found_error": "not_found",
    "request_too_large": "too_large",
    "rate_limit_error": "rate_limited",
    "overloaded_error": "overloaded",
    "timeout_error": "timeout",
    "api_error": "server",
}
"""The documented error types of the Messages API; messages repeat no others."""

_STATUS_KINDS = {
    400: "invalid_request",
    401: "authentication",
    402: "credit",
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

_PHRASE_KINDS = (
    (re.compile(r"(?i)prompt is too long|context (?:length|window)|too many (?:input )?tokens"), "too_large"),
    (re.compile(r"(?i)credit balance|insufficient (?:credit|funds|balance|quota)|out of credit"), "credit"),
    (re.compile(r"(?i)usage limits?\b|spend(?:ing)? (?:limit|cap)|monthly (?:limit|quota|budget)"), "credit"),
    (re.compile(r"(?i)unsupported (?:country|region)|not (?:available|supported) in your (?:country|region)"), "region"),
)
"""Phrases of providers that say more than the status. Only used for refusals (4xx)."""

_RECOVERABLE = frozenset({"rate_limited", "overloaded", "timeout", "connection", "broken_stream", "server"})
_ELSEWHERE = frozenset({"credit"})
"""A retry does not help, but a fallback with another key may."""

_LAPSES = {
    "first_token": "did not begin to answer within {seconds:g} s",
    "stall": "fell silent in the middle of its answer, for {seconds:g} s",
    "total": "had not finished its answer after {seconds:g} s",
}

_MEANING = {
    "credit": "the credit or spending limit of the key is used up",
    "region": "the provider does not serve this country or region",
    "too_large": "the prompt is too long for the model",
}
"""The meaning of the kinds that are recognised by the provider's phrases."""

_HINTS = {
    "authentication": "check the key in `{key}`: the provider rejects it",
    "credit": "add credit or raise the spending limit at the provider, or put another key into `{key}`",
    "permission": "check what the key in `{key}` may use, such as the model `{model}`",
    "region": "use an endpoint that serves your region: `models.{name}.base_url`",
    "invalid_request": "check `models.{name}` in the configuration, and that the endpoint knows this model's settings",
    "not_found": "the endpoint knows no model `{model}`: correct `models.{name}.model`{at}",
    "no_endpoint": "check the address of the endpoint: `models.{name}.base_url`, or `ANTHROPIC_BASE_URL`",
    "too_large": "shorten the task, or let fewer results be delivered in full",
    "rate_limited": "wait, lower `max_concurrent_agents`, or raise `models.{name}.retry.for`",
    "overloaded": "try again in a few minutes, raise `models.{name}.retry.for`, or name a `fallback` for `models.{name}`",
    "timeout": "try again, or name a `fallback` for `models.{name}`",
    "connection": "check the network and the address of the endpoint",
    "broken_stream": "try again; if it persists, check proxies between here and the endpoint",
    "server": "try again, or name a `fallback` for `models.{name}`",
    "unknown": "see the log",
}


class EndpointSuspended(ModelError):
    """The breaker of the endpoint is open; it is probed again after some seconds."""

    def __init__(self, message: str, hint: str, seconds: float, provider: ProviderError | None) -> None:
        super().__init__("circuit_open", message, hint, recoverable=True, provider=provider)
        self.seconds = seconds


def missing_key(spec: ModelSpec) -> ModelError:
    """The error of a model whose key is not set."""
    return ModelError(
        "authentication",
        f"the model `{spec.name}` needs a key and `{spec.api_key_env}` is not set",
        f"set `{spec.api_key_env}`, or name a `rehearsal` for `models.{spec.name}`",
    )


def failure_of(error: Exception, asked: AskedModel) -> ModelFailure | None:
    """The failure that an exception means; None for a bug."""
    match error:
        case ModelError():
            wait = error.seconds if isinstance(error, EndpointSuspended) else None
            return ModelFailure(error, wait is not None, wait, elsewhere=error.recoverable)
        case AnswerTimeout():
            return _of_lapse(error, asked)
        case StatusRefused():
            provider = provider_error(error.status, error.headers, error.body, asked.hide)
            return _of_status(error.status, error.headers, provider, asked)
        case Unreached():
            return _failure("connection", "could not be reached", asked)
        case StreamError():
            return _of_stream(error, asked)
        case Unasked():
            return _failure("unknown", f"could not be asked ({error})", asked)
    if isinstance(error, transport_errors()):
        return _failure("broken_stream", "was cut off in the middle of its answer", asked, midway=True)
    return None


def _of_status(status: int, headers: Mapping[str, str], provider: ProviderError, asked: AskedModel) -> ModelFailure:
    named = provider.type if provider.type in _TYPE_KINDS else None
    kind = _STATUS_KINDS.get(status) or ("server" if status >= 500 else _TYPE_KINDS.get(named or "", "unknown"))
    kind = _kind_by_phrase(provider, kind) if status < 500 else kind
    wait = retry_after(headers)
    retryable = kind in _RECOVERABLE
    retryable = {"true": True, "false": False}.get(headers.get("x-should-retry", ""), retryable)
    failure = _failure(kind, f"answered with status {status}{f' ({named})' if named else ''}", asked, provider)
    return replace(failure, retryable=retryable, retry_after=wait)


def _kind_by_phrase(provider: ProviderError, kind: str) -> str:
    """The kind by the provider's phrases, where they say more than the status."""
    return next((known for pattern, known in _PHRASE_KINDS if pattern.search(provider.message)), kind)


def _of_lapse(error: AnswerTimeout, asked: AskedModel) -> ModelFailure:
    spec = asked.spec
    what = _LAPSES[error.lapse].format(seconds=error.seconds)
    hint = f"raise `models.{spec.name}.timeouts.{error.lapse}`, or name a `fallback` for `models.{spec.name}`"
    model_error = ModelError("timeout", f"the model `{spec.name}` {what}", hint, recoverable=True)
    # An answer that did not finish in that time would not finish in a second attempt; another model may be faster.
    return ModelFailure(model_error, retryable=error.lapse != "total", elsewhere=True, midway=error.lapse == "stall")


def _of_stream(error: StreamError, asked: AskedModel) -> ModelFailure:
    provider = ProviderError(plain(error.said, asked.hide), request_id=error.request_id)
    if error.type == "oversized":
        failure = _failure("broken_stream", "sent an answer that has no end", asked, provider)
        return replace(failure, retryable=False)
    kind = _TYPE_KINDS.get(error.type)
    if kind is None:
        what = "sent an answer that broke off or could not be read"
        return _failure("broken_stream", what, asked, provider, midway=True)
    provider = ProviderError(provider.message, error.type, request_id=error.request_id)
    kind = _kind_by_phrase(provider, kind) if kind not in _RECOVERABLE else kind
    return _failure(kind, f"broke off its answer ({error.type})", asked, provider)


def _failure(
    kind: str, what: str, asked: AskedModel, provider: ProviderError | None = None, *, midway: bool = False
) -> ModelFailure:
    spec, recoverable = asked.spec, kind in _RECOVERABLE
    # A 404 without an error of the Messages API comes from some other service.
    hint = "no_endpoint" if kind == "not_found" and (provider is None or provider.type != "not_found_error") else kind
    at = f" at {asked.defined_at}" if asked.defined_at else ""
    model_error = ModelError(
        kind,
        f"the model `{spec.name}` {what}" + (f": {_MEANING[kind]}" if kind in _MEANING else ""),
        _HINTS[hint].format(name=spec.name, key=spec.api_key_env, model=spec.model, at=at),
        recoverable=recoverable,
        provider=provider or None,
    )
    return ModelFailure(model_error, recoverable, elsewhere=recoverable or kind in _ELSEWHERE, midway=midway)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `retry-after` (seconds or a date)."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers.get(name, "")) * unit)
        except ValueError:
            continue
    until = _moment(headers.get("retry-after", ""))
    if until is None:
        return None
    # A date is relative to the clock that wrote it: ours may be wrong by hours.
    now = _moment(headers.get("date", ""))
    return max(0.0, until - (time.time() if now is None else now))


def _moment(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
