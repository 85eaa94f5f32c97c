"""The one tool of an execution that learns from a conversation: it keeps facts, and with that its work is done.

Owns what counts as a fact here: a short sentence, few of them, and each in words that the user has really said. Text of
others in the conversation, such as a mail that the assistant quoted, can therefore not make itself remembered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from db.rows.memories import UserFact, folded
from runner.messages import ToolCall
from runner.result import Outcome, Result
from runner.tools.builtin import Arguments, OwnTool, answer, refuse
from runner.tools.protocol import ToolResult
from runner.users.memory import Memory
from runner.users.memory_tools import GENERAL, Category, sayable

KEEP_FACTS = "keep_facts"
LONGEST_FACT, LONGEST_QUOTE, SHORTEST_QUOTE = 300, 500, 3
"""Characters."""
MOST = 20
"""Facts of one call, whatever the configuration says."""


def _line(text: str) -> str:
    return " ".join(sayable(text).split())


class LearnedFact(Arguments):
    """One fact to keep."""

    content: Annotated[str, Field(max_length=LONGEST_FACT), AfterValidator(_line)] = Field(
        description="The fact, as one sentence that can be understood on its own."
    )
    category: Category = Field(default=GENERAL, description="One word for what it is about, such as `preferences`.")
    said: str = Field(max_length=LONGEST_QUOTE, description="The words of the user that say it, copied exactly.")


class LearnArguments(Arguments):
    """What to keep."""

    facts: list[LearnedFact] = Field(min_length=1, max_length=MOST, description="The facts, one thing in each.")


@dataclass(frozen=True, slots=True)
class Lesson:
    """What an execution learns from, and what becomes of it."""

    memory: Memory
    max_facts: int
    user_said: Callable[[], Awaitable[Sequence[str]]]
    """What the user said in the conversation."""
    finish: Callable[[Result], None]
    """Ends the execution with a result."""


def learning_tool(lesson: Lesson) -> OwnTool[LearnArguments]:
    """The tool; once facts are kept it keeps no more."""
    done: list[bool] = []

    async def keep(_call: ToolCall, arguments: LearnArguments) -> ToolResult:
        if done:
            return refuse("limit", "facts were kept already", "you are done")
        if len(arguments.facts) > lesson.max_facts:
            return refuse("limit", f"at most {lesson.max_facts} facts are kept at once", "give the most important ones")
        done.append(True)  # before anything is awaited: calls of one turn run at once
        said = [folded(text) for text in await lesson.user_said()]
        true = [fact for fact in arguments.facts if _is_quoted(fact.said, said)]
        if not true:
            done.clear()
            hint = "copy words of the user exactly; if they did not say it, answer `nothing`"
            return refuse("not_said", "none of these was said by the user in the words you gave", hint)
        kept = await lesson.memory.remember([(fact.category, fact.content) for fact in true])
        new, known = ([_shown(fact) for fact in kept if bool(fact.known) is old] for old in (False, True))
        told = {"stored": new, "known": known, "left_out": len(arguments.facts) - len(true)}
        summary = f"{len(new)} facts kept, {len(known)} known, {told['left_out']} left out"
        lesson.finish(Result(Outcome.COMPLETED, summary, told))
        return answer(told)

    return OwnTool(
        KEEP_FACTS,
        "Keep facts about the user for later conversations, each with the words of the user that say it. Call it once.",
        LearnArguments,
        keep,
        effect="idempotent",
    )


def _is_quoted(quote: str, said: Sequence[str]) -> bool:
    words = folded(quote)
    return len(words) >= SHORTEST_QUOTE and any(words in text for text in said)


def _shown(fact: UserFact) -> dict[str, object]:
    return {"id": fact.id, "category": fact.category, "content": fact.content}
