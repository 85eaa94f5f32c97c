"""The only tool of an extraction: it stores facts about the user and ends the execution.

A fact is stored only with words that the user really said. So text of others in the conversation, such as a mail that
the assistant quoted, cannot get itself remembered.
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
from runner.users.memory_tools import GENERAL, Category, stored_text

KEEP_FACTS = "keep_facts"
LONGEST_FACT, LONGEST_QUOTE, SHORTEST_QUOTE = 300, 500, 3
"""Characters."""
MOST = 20
"""Facts in one call; a hard cap over the configured one."""


def _line(text: str) -> str:
    return " ".join(stored_text(text).split())


class QuotedFact(Arguments):
    content: Annotated[str, Field(max_length=LONGEST_FACT), AfterValidator(_line)] = Field(
        description="The fact, as one sentence that can be understood on its own."
    )
    category: Category = Field(default=GENERAL, description="One word for what it is about, such as `preferences`.")
    said: str = Field(max_length=LONGEST_QUOTE, description="The words of the user that say it, copied exactly.")


class KeepFactsArguments(Arguments):
    facts: list[QuotedFact] = Field(min_length=1, max_length=MOST, description="The facts, one thing in each.")


@dataclass(frozen=True, slots=True)
class ExtractionScope:
    """The memory of one extraction, its limits, and the way to end it."""

    memory: Memory
    max_facts: int
    user_said: Callable[[], Awaitable[Sequence[str]]]
    """The user's messages in the conversation."""
    finish: Callable[[Result], None]
    """Ends the execution with this result."""


def learning_tool(lesson: ExtractionScope) -> OwnTool[KeepFactsArguments]:
    """The tool; it stores facts once, and refuses every later call."""
    done: list[bool] = []

    async def keep(_call: ToolCall, arguments: KeepFactsArguments) -> ToolResult:
        if done:
            return refuse("limit", "facts were already stored", "you are done")
        if len(arguments.facts) > lesson.max_facts:
            return refuse("limit", f"at most {lesson.max_facts} facts are stored at once", "give the most important ones")
        done.append(True)  # before the first await: calls of one turn run concurrently
        said = [folded(text) for text in await lesson.user_said()]
        true = [fact for fact in arguments.facts if _is_quoted(fact.said, said)]
        if not true:
            done.clear()
            hint = "quote the user's words exactly; if they did not say it, answer `nothing`"
            return refuse("not_said", "none of these quotes is in the user's messages", hint)
        kept = await lesson.memory.remember([(fact.category, fact.content) for fact in true])
        new, known = ([_shown(fact) for fact in kept if bool(fact.known) is old] for old in (False, True))
        outcome = {"stored": new, "known": known, "left_out": len(arguments.facts) - len(true)}
        summary = f"{len(new)} facts kept, {len(known)} known, {outcome['left_out']} left out"
        lesson.finish(Result(Outcome.COMPLETED, summary, outcome))
        return answer(outcome)

    return OwnTool(
        KEEP_FACTS,
        "Keep facts about the user for later conversations, each with the words of the user that say it. Call it once.",
        KeepFactsArguments,
        keep,
        effect="idempotent",
    )


def _is_quoted(quote: str, said: Sequence[str]) -> bool:
    words = folded(quote)
    return len(words) >= SHORTEST_QUOTE and any(words in text for text in said)


def _shown(fact: UserFact) -> dict[str, object]:
    return {"id": fact.id, "category": fact.category, "content": fact.content}
