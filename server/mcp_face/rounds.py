"""Rounds: a call that waits asks its client's person, and goes on with the answer. Both eras of the protocol.

Owns the two ways. In the older era the question is a request to the client while the call waits; in the newer one the
answer to the call is the question, and the client calls again with what its person said. What is remembered between two
such calls travels through the client, sealed by the SDK: bound to the caller, the call and a time.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import mcp_types as t
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from server.identity import identity_of
from server.mcp_face.questions import FORM, can_be_asked, elicitation, words_of

if TYPE_CHECKING:
    from runner.snapshot import Question

Context = ServerRequestContext[Any, Any]

log = logging.getLogger("outrider.mcp")

STATE_SECONDS = 3600.0
"""How long a person may take to answer a call that ended with a question; then the client calls again."""


class PersonWanted(Exception):
    """Leaves a call of the newer era: its answer is a question."""

    def __init__(self, waited: Sequence[str], questions: Sequence[Question]) -> None:
        super().__init__("a person has to be asked")
        self.waited, self.questions = waited, questions


@dataclass(frozen=True, slots=True)
class Round:
    """What a call that asks remembers until it is called again."""

    waited: Sequence[str] = ()
    """The executions it waited for."""
    shown: Mapping[str, str] = field(default_factory=dict)
    """What its person was shown, by question."""

    @classmethod
    def of(cls, state: str | None) -> Round:
        """The round before this call; none when it is the first."""
        return cls(**json.loads(state)) if state is not None else cls()

    def after(self, wanted: PersonWanted) -> t.InputRequiredResult:
        """The answer that asks, and remembers all that was asked so far: nobody is asked twice by one call."""
        shown = {**self.shown, **{each.id: each.shown for each in wanted.questions}}
        state = json.dumps({"waited": list(wanted.waited), "shown": shown})
        return t.InputRequiredResult(
            input_requests={each.id: elicitation(each) for each in wanted.questions}, request_state=state
        )


def sealed_rounds() -> RequestStateBoundary:
    """Seals what goes out and opens what comes back; whatever is not ours, or not the caller's, is refused."""

    def principal(ctx: Context) -> str | None:
        return identity_of(ctx.request).principal

    security = RequestStateSecurity(keys=[secrets.token_bytes(32)], ttl=STATE_SECONDS, bind_principal=principal)
    return RequestStateBoundary(security, default_audience="outrider")


class Person:
    """The person behind a client, as far as one of its calls can reach."""

    def __init__(self, ctx: Context, before: Round) -> None:
        self._ctx = ctx
        self.asked = set(before.shown)
        """What was asked in this call already."""

    @property
    def answers_later(self) -> bool:
        """Whether the call has to end for its question to be put."""
        return self._ctx.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def ask(self, question: Question) -> t.ElicitResult | None:
        """Put a question while the call waits; None when the client does not pass it on."""
        try:
            return await self._ctx.session.elicit_form(words_of(question), FORM, self._ctx.request_id)
        except MCPError as error:
            log.info("a client did not ask its person: %r", error)
            return None


def person_behind(ctx: Context, before: Round) -> Person | None:
    """Whoever can be asked over this call, if anybody."""
    return Person(ctx, before) if can_be_asked(ctx.session.client_capabilities) else None
