"""Questions to a client's person: an MCP elicitation for each call that needs approval, in both eras of the protocol.

Owns the wording, the form, the parsing of an answer, and the two ways to ask. In the older era the server sends the
question to the client while the call waits. In the newer era the call returns the question, and the client calls again
with the person's answer; the state between the two calls travels through the client, sealed by the SDK and bound to the
caller, the call and a time. Invariant: only an explicit yes approves; a dismissed or unreadable answer decides nothing.
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

if TYPE_CHECKING:
    from runner.approvals.approvals import ApprovalAnswer
    from runner.snapshot import Question


Context = ServerRequestContext[Any, Any]

log = logging.getLogger("outrider.mcp")

STATE_SECONDS = 3600.0
"""Time for a person to answer a call that ended with a question. After it the client must repeat the call."""

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "confirm": {"type": "boolean", "title": "Allow this call", "description": "It runs once, with these arguments."},
        "reason": {"type": "string", "title": "Reason", "description": "Kept with the decision; the agent reads it."},
    },
    "required": ["confirm"],
}


class PersonWanted(Exception):
    """Ends a call of the newer era, which returns these questions."""

    def __init__(self, waited: Sequence[str], questions: Sequence[Question]) -> None:
        super().__init__("a person has to be asked")
        self.waited, self.questions = waited, questions


@dataclass(frozen=True, slots=True)
class Round:
    """The state of a call that ended with questions, until the client calls again."""

    waited: Sequence[str] = ()
    """The executions it waited for."""
    shown: Mapping[str, str] = field(default_factory=dict)
    """The text its person saw, by question id."""

    @classmethod
    def of(cls, state: str | None) -> Round:
        """The round before this call; an empty one for the first."""
        return cls(**json.loads(state)) if state is not None else cls()

    def after(self, wanted: PersonWanted) -> t.InputRequiredResult:
        """The result that asks. Its state has every question so far, so that none is asked twice."""
        shown = {**self.shown, **{each.id: each.shown for each in wanted.questions}}
        state = json.dumps({"waited": list(wanted.waited), "shown": shown})
        return t.InputRequiredResult(
            input_requests={each.id: elicitation(each) for each in wanted.questions}, request_state=state
        )


def sealed_rounds() -> RequestStateBoundary:
    """Seals the state of rounds, and refuses state that was not made here for the same caller."""

    def principal(ctx: Context) -> str | None:
        return identity_of(ctx.request).principal

    security = RequestStateSecurity(keys=[secrets.token_bytes(32)], ttl=STATE_SECONDS, bind_principal=principal)
    return RequestStateBoundary(security, default_audience="outrider")


class Person:
    """The person behind a client, asked within one call."""

    def __init__(self, ctx: Context, before: Round) -> None:
        self._ctx = ctx
        self.asked = set(before.shown)
        """The ids of the questions this call has asked."""

    @property
    def answers_later(self) -> bool:
        """Whether the call must end to ask: so in the newer era."""
        return self._ctx.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def ask(self, question: Question) -> t.ElicitResult | None:
        """Ask while the call waits; None if the client does not pass the question on."""
        try:
            return await self._ctx.session.elicit_form(words_of(question), FORM, self._ctx.request_id)
        except MCPError as error:
            log.info("a client did not ask its person: %r", error)
            return None


def person_behind(ctx: Context, before: Round) -> Person | None:
    """The person behind the client; None if the client supports no form."""
    return Person(ctx, before) if can_be_asked(ctx.session.client_capabilities) else None


def can_be_asked(capabilities: t.ClientCapabilities | None) -> bool:
    """Whether the client supports elicitation by form, which is also the meaning of a capability without a mode."""
    declared = capabilities.elicitation if capabilities is not None else None
    return declared is not None and (declared.form is not None or declared.url is None)


def words_of(question: Question) -> str:
    """The text of a question: the agent, the tool, and the exact arguments."""
    if question.kind == "repeat":
        lines = f"A restart cut off `{question.tool}`, called by {question.agent}: whether it took effect is unknown."
        lines += "\nRun it again with these arguments?"
    else:
        lines = f"{question.agent} wants to call `{question.tool}` with these arguments:"
    return f"{lines}\n\n{question.exact}\n\nexecution {question.execution_id}, until {question.expires_at}"


def elicitation(question: Question) -> t.ElicitRequest:
    """The question as an MCP request."""
    return t.ElicitRequest(params=t.ElicitRequestFormParams(message=words_of(question), requested_schema=FORM))


def word_in(answer: Any, by: str, principal: str | None) -> ApprovalAnswer | None:
    """Parse an answer from the wire; None if it decides nothing."""
    from runner.approvals.approvals import ApprovalAnswer

    said: Any = answer.model_dump() if isinstance(answer, t.ElicitResult) else answer
    if not isinstance(said, Mapping) or said.get("action") not in ("accept", "decline"):
        return None
    content = said.get("content") or {}
    confirmed = content.get("confirm") if isinstance(content, Mapping) else None
    if said["action"] == "accept" and not isinstance(confirmed, bool):
        return None
    reason = content.get("reason") if isinstance(content, Mapping) else None
    approved = said["action"] == "accept" and confirmed is True
    return ApprovalAnswer(approved, by, reason if isinstance(reason, str) else "", principal)
