"""What we say to a model in the middle of its work, and how we know again what we said."""

from __future__ import annotations

from collections.abc import Sequence

from runner.countdown import Low

CONCLUDE = {
    "time_budget": "Your time is nearly over.",
    "max_iterations": "You have used all your turns.",
    "token_budget": "The token budget is used up.",
    "cost_budget": "The cost budget is used up.",
    "asked": "You were asked to come to a conclusion now.",
    "empty_answers": "You have not said anything for a while.",
}


def conclude_note(reason: str, *, in_form: bool = False) -> str:
    """The last question: a conclusion from what is there, in the form it has to have if there is one."""
    wanted = ", as JSON that fits the schema." if in_form else ": what you found, on what evidence, and what remains open."
    return f"{CONCLUDE.get(reason, 'It is time to conclude.')} Answer now, without tools, from what you have{wanted}"


def reason_of(question: str) -> str:
    """Why a conclusion was asked for, from the question that asked for it."""
    return next((reason for reason, words in CONCLUDE.items() if question.startswith(words)), "asked")


COUNTDOWN = {
    "last_turn": "This is your last turn with tools; after it you will be asked for your conclusion.",
    "turns": "Of your {limit:.0f} turns, {left:.0f} are left.",
    "seconds": "Of your time, about {left:.0f} seconds are left.",
    "usd": "Of a budget of ${limit:.4f}, ${left:.4f} are left for you and whoever shares it.",
    "tokens": "Of a budget of {limit:,.0f} tokens, {left:,.0f} are left for you and whoever shares it.",
}
IN_TIME = "See to what matters most, and come to a conclusion in time."


def countdown_note(low: Sequence[Low]) -> str:
    """What runs low, in words."""
    return " ".join([*(COUNTDOWN[each.what].format(left=each.left, limit=each.limit) for each in low), IN_TIME])


def counted_down(note: str) -> list[str]:
    """What a remark of ours said to run low."""
    return [what for what, words in COUNTDOWN.items() if words.partition("{")[0] in note and note.endswith(IN_TIME)]


GO_ON = (
    "Your answer was cut at the length limit of one message. Go on exactly where it stopped, repeat nothing, "
    "and come to an end soon."
)
CARRY_ON = "Carry on with your task from where you stopped."
SAY_SOMETHING = "Your last message was empty. Go on with the task: call a tool, or give your answer as text."
