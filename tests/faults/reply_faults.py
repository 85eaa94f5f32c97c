"""Faults of a model that answers, but not as hoped: how a reply stops, and what it calls.

Owns: the declarations. Must not know: how they are run.
Invariant: everything the page says of an end is a field the test compares.
"""

from __future__ import annotations

from typing import Any

from tests.faults.model_fault import DONE, FALLBACKS, POKE, ModelFault, failed
from tests.support.messages_api import reply, stopped, text, tool_use

_NAMELESS: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": None, "input": {}}
_MEGABYTE = "again and again " * 65_536

STOPS = (
    ModelFault(
        "length limit in a text",
        "stop reason `max_tokens`",
        "continued, up to twice; the parts are one answer: completed",
        (stopped("max_tokens", text("first half, ")), reply(text("second half"))),
        said="first half, second half",
        told="Continue exactly where it stopped",
    ),
    ModelFault(
        "text in a loop",
        "a megabyte, and `max_tokens` every time",
        "continued twice, then completed, partial: `max_tokens`",
        (stopped("max_tokens", text(_MEGABYTE)), stopped("max_tokens", text("and again "))),
        outcome="partial",
        reason="max_tokens",
        requests=4,
        within=3.0,
    ),
    ModelFault(
        "length limit in a tool call",
        "`max_tokens` in the arguments",
        "that call never runs, the model is told; completed",
        (stopped("max_tokens", {**POKE, "input": '{"where": "se'}), DONE),
        told="was cut off at the length limit",
    ),
    ModelFault(
        "length limit before the arguments",
        "`max_tokens` before a call has any",
        "that call never runs, the model is told; completed",
        (stopped("max_tokens", {**POKE, "input": ""}), DONE),
        told="was cut off at the length limit",
    ),
    ModelFault(
        "pause",
        "stop reason `pause_turn`",
        "sent back as it is, goes on; the parts are one answer: completed",
        (stopped("pause_turn", text("searching, ")), reply(text("found"))),
        said="searching, found",
        told='{"role":"assistant","content":[{"type":"text","text":"searching, "}]}]}',
    ),
    ModelFault(
        "pauses for ever",
        "`pause_turn` every time",
        "each is a turn: completed, partial: `max_iterations`",
        (stopped("pause_turn", text("searching")),),
        outcome="partial",
        reason="max_iterations",
        requests=5,
        agent="max_iterations: 4",
    ),
    ModelFault(
        "refusal",
        "stop reason `refusal`",
        "an answer, so neither repeated nor given to a fallback: failed, `refused`",
        (stopped("refusal", text("I would rather")),),
        model=FALLBACKS,
        **failed("refused", "declined to answer"),
    ),
    ModelFault(
        "context full",
        "stop reason `model_context_window_exceeded`, and nothing to leave out",
        "nothing more is asked: completed, partial: `context_window`",
        (stopped("model_context_window_exceeded", text("so far"), POKE),),
        outcome="partial",
        reason="context_window",
        said="so far",
        requests=2,
    ),
    ModelFault(
        "unknown stop reason",
        "a stop reason nobody knows",
        "stored as it is and read by its content: completed",
        (stopped("moon_phase", text("done")),),
        requests=2,
    ),
    ModelFault(
        "nothing said",
        "`end_turn` without content, three times",
        "asked again twice, then concluded: completed, partial: `empty_answers`",
        (reply(), reply(), reply(), DONE),
        outcome="partial",
        reason="empty_answers",
        requests=5,
        told="Answer now, without tools",
    ),
)

CALLS = (
    ModelFault(
        "arguments no JSON",
        "a tool call whose arguments do not parse",
        "that call never runs, the model is told; completed",
        (reply({**POKE, "input": '{"where": '}), DONE),
        told="the arguments of `poke` are not a JSON object",
    ),
    ModelFault(
        "arguments no object",
        "a tool call whose arguments are a list",
        "that call never runs, the model is told; completed",
        (reply({**POKE, "input": "[1, 2]"}), DONE),
        told="the arguments of `poke` are not a JSON object",
    ),
    ModelFault(
        "unknown tool",
        "a call of a tool that does not exist",
        "the model is told the nearest names; completed",
        (reply(tool_use("pook", {}, "toolu_1")), DONE),
        told="there is no tool `pook`",
    ),
    ModelFault(
        "call without a name",
        "a `tool_use` block whose name is null",
        "no answer that can be sent back: asked again, completed",
        (reply(_NAMELESS), DONE),
    ),
    ModelFault(
        "same id in one reply",
        "two calls with one id, one of them twice",
        "each call runs once, under an id of its own; completed",
        (reply(POKE, POKE, {**POKE, "input": {"where": "third"}}), DONE),
        pokes=3,
    ),
    ModelFault(
        "same id again",
        "a call with the id of an earlier turn",
        "runs under an id of its own; completed",
        (reply({**POKE, "id": "toolu_0"}), DONE),
        pokes=2,
    ),
    ModelFault(
        "fifty calls",
        "50 tool calls in one reply",
        "all run at once and are answered in order; completed",
        (reply(*({**POKE, "id": f"toolu_x{number}"} for number in range(50))), DONE),
        pokes=51,
    ),
    ModelFault(
        "unknown block",
        "a content block of a kind nobody knows",
        "kept and sent back unchanged; completed",
        (reply({"type": "hologram", "depth": 3}, {**POKE, "input": {"where": "second"}}), DONE),
        pokes=2,
        told='{"type":"hologram","depth":3}',
    ),
)
