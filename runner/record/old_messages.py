"""Messages stored before the column `data` existed: their meaning is recovered from the sentences in use then.

Rows without `data` were written by versions up to migration 0019. The sentences here are frozen: they never change, and no
new row is read this way. Without such rows this module is not needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from db.rows.reads import Record

_REASONS = {
    "Your time is nearly over.": "time_budget",
    "You have used all your turns.": "max_iterations",
    "The token budget is used up.": "token_budget",
    "The cost budget is used up.": "cost_budget",
    "You were asked to come to a conclusion now.": "asked",
    "You have not said anything for a while.": "empty_answers",
}
_COUNTDOWN = {
    "This is your last turn with tools;": "last_turn",
    "Of your time, about": "seconds",
    "Of a budget of $": "usd",
}
_TURNS = re.compile(r"Of your \d+ turns,")
_TOKENS = re.compile(r"Of a budget of [\d,]+ tokens,")
_IN_TIME = "See to what matters most, and come to a conclusion in time."
_CARRY_ON = "Carry on with your task from where you stopped."
_MESSAGE = "Whoever you work for has something to say meanwhile."
_REPORT = re.compile(r'<report agent="[^"\n]*" execution_id="(\w+)"')
_NOTES = re.compile(r"<summary>\n(.*)\n</summary>", re.DOTALL)
_CALL_LINE = re.compile(r"^- (\S+): .*$", re.MULTILINE)
_CITED = "Calls that were cited; read_result(execution_id=…) shows their results:"
_OTHERS = "Other calls that can be cited; read_result(execution_id=…) shows their results:"


def data_of(row: Record) -> Mapping[str, Any]:
    """The meaning of a stored message, as data."""
    if row["data"] is not None:
        stored: Mapping[str, Any] = from_json(row["data"])
        return stored
    texts = [block.get("text", "") for block in from_json(row["content"])]
    match row["kind"]:
        case "conclude":
            return {"reason": next((_REASONS[words] for words in _REASONS if texts[0].startswith(words)), "asked")}
        case "note":
            return {"low": _counted_down(texts[0])}
        case "task":
            return {"carry_on": True} if texts[0] == _CARRY_ON else {}
        case "delivery":
            return {"blocks": [_block(text) for text in texts]}
        case _:
            return {}


def _counted_down(note: str) -> list[str]:
    if not note.endswith(_IN_TIME):
        return []
    low = [what for words, what in _COUNTDOWN.items() if words in note]
    return low + ["turns"] * bool(_TURNS.search(note)) + ["tokens"] * bool(_TOKENS.search(note))


def _block(text: str) -> Sequence[str]:
    if (report := _REPORT.match(text)) is not None:
        return ("report", report[1])
    return ("message",) if text.startswith(_MESSAGE) else ("other",)


def summary_record(texts: Sequence[str]) -> Mapping[str, Any]:
    """The record of a summary, from its first two texts: the notes, and the list of agents and calls."""
    notes, listed = _NOTES.search(texts[0]), texts[1]
    calls = {found[1]: found[0] for found in _CALL_LINE.finditer(listed)}
    cited = listed.partition(_CITED)[2].partition(_OTHERS)[0]
    return {
        "notes": notes[1] if notes is not None else "",
        "calls": calls,
        "cited": [identifier for identifier, line in calls.items() if line in cited],
    }
