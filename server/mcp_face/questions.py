"""Questions to people as MCP puts them: an elicitation for each call that must be allowed, and the reading of its answer.

Owns the words, the form, and what counts as an answer. Must not know: how a question travels. Invariant: only an explicit
yes is one; what was dismissed or cannot be read decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import mcp_types as t

if TYPE_CHECKING:
    from runner.approvals.approvals import Word
    from runner.snapshot import Question

GOES_ON = "going on after a question to a person"
"""What an execution does whose question was decided, until it says so itself."""

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "confirm": {"type": "boolean", "title": "Allow this call", "description": "It runs once, with these arguments."},
        "reason": {"type": "string", "title": "Reason", "description": "Kept with the decision; the agent reads it."},
    },
    "required": ["confirm"],
}


def can_be_asked(capabilities: t.ClientCapabilities | None) -> bool:
    """Whether a client puts forms before its person; one that names no kind of form means this one."""
    declared = capabilities.elicitation if capabilities is not None else None
    return declared is not None and (declared.form is not None or declared.url is None)


def words_of(question: Question) -> str:
    """What a person reads: who wants to call what, with which arguments, to the last character."""
    if question.kind == "repeat":
        lines = f"A restart cut off `{question.tool}`, called by {question.agent}: nobody knows whether it took effect."
        lines += "\nRun it again with these arguments?"
    else:
        lines = f"{question.agent} wants to call `{question.tool}` with these arguments:"
    return f"{lines}\n\n{question.exact}\n\nexecution {question.execution_id}, until {question.expires_at}"


def elicitation(question: Question) -> t.ElicitRequest:
    """The question as a request to a client."""
    return t.ElicitRequest(params=t.ElicitRequestFormParams(message=words_of(question), requested_schema=FORM))


def word_in(answer: Any, by: str, principal: str | None) -> Word | None:
    """What a person said, as it came over the wire; None where that was nothing."""
    from runner.approvals.approvals import Word

    said: Any = answer.model_dump() if isinstance(answer, t.ElicitResult) else answer
    if not isinstance(said, Mapping) or said.get("action") not in ("accept", "decline"):
        return None
    content = said.get("content") or {}
    confirmed = content.get("confirm") if isinstance(content, Mapping) else None
    if said["action"] == "accept" and not isinstance(confirmed, bool):
        return None
    reason = content.get("reason") if isinstance(content, Mapping) else None
    approved = said["action"] == "accept" and confirmed is True
    return Word(approved, by, reason if isinstance(reason, str) else "", principal)
