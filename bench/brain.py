"""The replies of the fake model: a tiny program inside the conversation itself, so that no state is kept between requests.

Owns: the directives and the answers to them. Must not know: any wire format. Invariant: equal conversations, equal replies.

- `FANOUT n=50 turns=4` in a user's text makes a supervisor: it calls the delegate tool 50 times, each with the task
  `WORK id=<i> turns=4`, and says `DONE n=50 ok=50` when 50 good results are there, `WAITING` until then.
- `WORK id=7 turns=4` makes a worker: one `lookup(key="7-<lookup>")` a turn, then `RESULT id=7 ok=<good lookups>`. With
  `calls=2` behind it, two lookups a turn.

A supervisor's directive may continue with `tool=NAME arg=NAME extra={...}`: the delegate tool, its argument for the task
and further constant arguments. The lookup tool is the offered tool whose name ends in `lookup`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.lookup import VALUE_PREFIX

FANOUT = re.compile(r"FANOUT n=(\d+) turns=(\d+)(?: tool=(\S+))?(?: arg=(\S+))?(?: extra=(\{.*?\}))?")
WORK = re.compile(r"WORK id=(\S+) turns=(\d+)(?: calls=(\d+))?")


class NoDirective(Exception):
    """A conversation without a directive: the contestant did not pass the task on."""

    def __init__(self, text: str) -> None:
        super().__init__(f"neither `FANOUT` nor `WORK` in the text of the user: {text[:200]!r}")


@dataclass(frozen=True, slots=True)
class Conversation:
    """The input of the fake model."""

    user_text: str
    tool_results: Sequence[str]
    tool_names: Sequence[str]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Thought:
    """A reply of the model: some calls, or a text."""

    supervisor: bool
    text: str = ""
    calls: Sequence[Call] = ()


def think(conversation: Conversation) -> Thought:
    """Answer a conversation; raises NoDirective."""
    if match := FANOUT.search(conversation.user_text):
        return _supervise(conversation, match)
    if match := WORK.search(conversation.user_text):
        return _work(conversation, match[1], int(match[2]), int(match[3] or 1))
    raise NoDirective(conversation.user_text)


def _supervise(conversation: Conversation, directive: re.Match[str]) -> Thought:
    count, turns = int(directive[1]), int(directive[2])
    if conversation.tool_results:
        good = _good_results(conversation, turns)
        return Thought(True, text=f"{'DONE' if good >= count else 'WAITING'} n={count} ok={good}")

    tool, argument = directive[3] or "delegate", directive[4] or "task"
    extra = json.loads(directive[5]) if directive[5] else {}
    return Thought(True, calls=[Call(tool, {argument: f"WORK id={i} turns={turns}", **extra}) for i in range(count)])


def _good_results(conversation: Conversation, turns: int) -> int:
    """The number of workers that reported success for every lookup.

    Results are in tool results or, if sub-agents run in the background, in a later text of the user; a result that is shown
    twice, as a summary and in full, counts once.
    """
    good = re.compile(rf"RESULT id=(\S+) ok={turns}\b")
    return len({id_ for text in (*conversation.tool_results, conversation.user_text) for id_ in good.findall(text)})


def _work(conversation: Conversation, id_: str, turns: int, calls: int) -> Thought:
    done = conversation.tool_results
    if len(done) < turns * calls:
        tool = next((name for name in conversation.tool_names if name.endswith("lookup")), "lookup")
        return Thought(False, calls=[Call(tool, {"key": f"{id_}-{len(done) + more}"}) for more in range(calls)])

    return Thought(False, text=f"RESULT id={id_} ok={sum(VALUE_PREFIX in result for result in done)}")
