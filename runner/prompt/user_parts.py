"""The user parts of a prompt: the time, the user, their memory, and the conversation so far.

Owns which agent sees which part and how much of it. Every agent knows the user; memory and conversation are for agents that
answer for the whole tree (the root, its planner, composer, classifier), unless an agent's `context` says otherwise. Entries
that do not fit are left out, oldest first, with a mark. Pure; `runner/users/profile.py` loads the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

from registry import AgentSpec, MemoryShown
from runner.chat import ChatMessage
from runner.roles import ORCHESTRATORS, answers_for_the_whole
from runner.text import HISTORY, Window, escape_blocks, label, tokens_of, windowed
from runner.users.profile import Profile

ORCHESTRATOR_BUDGET, SUB_AGENT_BUDGET = 8_000, 4_000
"""Tokens for the parts of a prompt besides the task."""


@dataclass(frozen=True, slots=True)
class View:
    """What an execution may see of its user."""

    memory: MemoryShown = "none"
    history: Window | None = None
    budget: int = SUB_AGENT_BUDGET
    language: str = ""
    """The language of its answer, if its prompt must state it."""
    files: bool = False
    """Whether it also sees files: they get half of the budget and the rest of the other half."""

    @property
    def share(self) -> int:
        """Tokens for the user parts."""
        return self.budget // 2 if self.files else self.budget


@dataclass(frozen=True, slots=True)
class UserParts:
    """The user parts as texts; empty where there is none."""

    time: str = ""
    user: str = ""
    memory: str = ""
    history: str = ""
    left_out: dict[str, int] | None = None
    """Number of entries that did not fit, by part."""


def view_of(agent: AgentSpec, role: str, above: Iterable[str] = (), history: int | None = None, language: str = "") -> View:
    """What an agent sees in a role, below ancestors of the roles `above`; `history` is the number of messages shown."""
    context, whole = agent.context, answers_for_the_whole(role, above)
    shown = history if whole else 0
    if context.history is not None:
        shown = context.history
    return View(
        memory=context.memory or ("full" if whole else "none"),
        history=HISTORY if shown is None else replace(HISTORY, max_entries=shown) if shown else None,
        budget=context.budget or (ORCHESTRATOR_BUDGET if role in ORCHESTRATORS else SUB_AGENT_BUDGET),
        language=language,
        files=context.level is not None,
    )


def personal(background: Profile, view: View) -> UserParts:
    """The user parts that the view allows and that fit. Half of the room is for the conversation."""
    facts = [
        f'<fact category="{label(row["category"])}">{escape_blocks(row["content"])}</fact>' for row in background.facts
    ]
    said = [_said(each, background.now.tzinfo) for each in background.history]
    kept_said = windowed(said, Window(max_tokens=view.share // 2), _tokens)
    kept_facts = windowed(facts, Window(max_tokens=view.share - sum(map(_tokens, kept_said))), _tokens)
    left_out = {"memory": len(facts) - len(kept_facts), "history": len(said) - len(kept_said)}
    return UserParts(
        time=f"<current_time>{background.now:%A, %Y-%m-%d %H:%M} ({background.user.timezone})</current_time>",
        user=_user(background, view.language),
        memory=_block("user_memory", kept_facts, left_out["memory"]),
        history=_block("conversation", kept_said, left_out["history"]),
        left_out={part: count for part, count in left_out.items() if count},
    )


def conversation(said: Sequence[ChatMessage], zone: tzinfo | None) -> str:
    """Part of a conversation, as material for an agent outside it."""
    return _block("conversation", [_said(each, zone) for each in said], 0)


NOTHING = UserParts()


def in_language(language: str) -> UserParts:
    """The user parts of a prompt without a user."""
    return UserParts(user=f"<language>{language}</language>") if language else NOTHING


def _user(background: Profile, language: str) -> str:
    user = background.user
    lines = [
        f"  <name>{label(user.name)}</name>",
        f"  <timezone>{user.timezone}</timezone>",
        f"  <locale>{user.locale}</locale>",
    ]
    told = [*lines, f"  <language>{language}</language>"] if language else lines
    return "\n".join(["<user_context>", *told, "</user_context>"])


def _said(message: ChatMessage, zone: tzinfo | None) -> str:
    at = message.at.astimezone(zone)
    return f'<said by="{message.role}" at="{at:%Y-%m-%d %H:%M}">{escape_blocks(message.content)}</said>'


def _block(name: str, entries: Sequence[str], left_out: int) -> str:
    if not entries and not left_out:
        return ""
    mark = [f"[{left_out} older left out: there is no room for more]"] if left_out else []
    return "\n".join([f"<{name}>", *mark, *entries, f"</{name}>"])


def _tokens(text: str) -> int:
    return tokens_of(len(text.encode()))
