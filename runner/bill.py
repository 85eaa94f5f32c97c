"""The bill of one model call, as its row: what was used, by whose count, and what that costs.

Owns the making of `model_calls` rows. Knows no budget. Invariant: what is charged without having been counted says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from db.clock import stamp
from db.ids import new_id
from db.rows.transcript import ModelCall
from registry import ModelSpec, Settings, Tokens, cost_of
from runner.llm.protocol import Reply, Usage
from runner.purse import Amount
from runner.recall import LOST
from runner.work import Work


@dataclass(frozen=True, slots=True)
class Bill:
    """What one call comes to."""

    call: ModelCall
    used: Amount


def bill_of(work: Work, spec: ModelSpec, reply: Reply, identifier: str, started: str) -> Bill:
    """For a reply: a fallback has its own price, a rehearsal none."""
    usage, tokens = reply.usage, _tokens(reply.usage)
    price = None if reply.rehearsed else _answering(work.settings, spec, reply.model).price
    cost = cost_of(tokens, price)
    call = ModelCall(
        id=identifier,
        execution_id=work.place.id,
        turn=work.allowance.own.turns + 1,
        model=reply.model,
        stop_reason=reply.stop_reason,
        request_id=reply.request_id,
        rehearsed=int(reply.rehearsed),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
        cost_usd=cost.usd,
        pricing="rehearsed" if reply.rehearsed else cost.completeness,
        started_at=started,
        finished_at=stamp(),
    )
    return Bill(call, Amount(tokens.total, cost.usd))


def bill_of_lost(work: Work, spec: ModelSpec, prompt: int, worst: Amount, started: str) -> Bill:
    """For a call that was cut by the end of another process: nobody knows what it used, so its worst case is charged."""
    rehearsed = work.model is not None and work.model.rehearses
    used = Amount(worst.tokens, 0.0 if rehearsed else worst.usd)
    call = ModelCall(
        id=new_id(),
        execution_id=work.place.id,
        turn=work.allowance.own.turns + 1,
        model=spec.model,
        stop_reason=LOST,
        request_id=None,
        rehearsed=int(rehearsed),
        input_tokens=min(prompt, used.tokens),
        output_tokens=max(0, used.tokens - prompt),
        cache_read_tokens=0,
        cache_write_tokens=0,
        cost_usd=used.usd,
        pricing=LOST,
        started_at=started,
        finished_at=started,
    )
    return Bill(call, used)


def _answering(settings: Settings, spec: ModelSpec, model: str) -> ModelSpec:
    return next((each for each in (spec, *settings.models.values()) if each.model == model), spec)


def _tokens(usage: Usage) -> Tokens:
    """The tokens, each counted once."""
    brief = usage.cache_write_tokens - usage.cache_write_1h_tokens
    return Tokens(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, brief, usage.cache_write_1h_tokens)
