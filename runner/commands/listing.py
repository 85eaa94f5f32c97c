"""A listing: the answer of a command that nobody works for, made from the work items there are.

Pure. The template is the configuration's; what stands in items is put in as it is and never taken for a part of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from registry import Template, TooMuch
from runner.board import WorkItem
from runner.commands.call import Call
from runner.commands.errand import shown_item
from runner.result import Outcome, Problem, Result, failed, summarise


def listing(call: Call, template: Template, items: Sequence[WorkItem]) -> Result:
    """The template with all work items in it, and what was written behind the command's name."""
    values = {**call.values, "items": [shown_item(each) for each in items]}
    try:
        text = template.render(values, str).strip()
    except TooMuch as fault:
        return failed(Problem("answer", f"the answer of `/{call.command.name}` cannot be made: {fault}", recoverable=False))
    return Result(Outcome.COMPLETED, summarise(text) or "there is nothing", text)
