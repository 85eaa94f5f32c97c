"""The routing table of a command: the first of its rules that holds says who works.

Pure. Names of languages compare as all names do. Invariant: the same question gets the same rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from registry import CommandSpec, Complexity, When, fold


@dataclass(frozen=True, slots=True)
class Question:
    """What a rule may look at."""

    language: str
    has_plan: bool
    complexity: Complexity


def rule_for(command: CommandSpec, question: Question) -> int | None:
    """The number of the rule that holds, if one does."""
    return next((index for index, rule in enumerate(command.rules) if _holds(rule.when, question)), None)


def _holds(when: When, question: Question) -> bool:
    return (
        (when.language is None or fold(question.language) in map(fold, when.language))
        and (when.plan is None or when.plan is question.has_plan)
        and (when.complexity is None or question.complexity in when.complexity)
    )
