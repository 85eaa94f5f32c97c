"""The shape of a fault of a model API.

Owns: what is compared after it. Must not know: any one fault.
Invariant: what is not said is the ordinary end: completed after one more call.

In every fault the model first makes the call `CALL`, which works, so that a second run of the tool would show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.faults.fault import Fault
from tests.support.messages_api import Answer, reply, text, tool_use

CALL = reply(tool_use("poke", {"where": "first"}, "toolu_0"))
POKE = tool_use("poke", {"where": "second"}, "toolu_1")
DONE = reply(text("done"))
FALLBACKS = "fallback: [second, third]"


@dataclass(frozen=True, slots=True)
class ModelFault(Fault):
    """A fault and, field by field, how the rows, the server and the tool must look afterwards."""

    answers: Sequence[Answer] = ()
    """After the first call, in order of arrival, the last one for ever."""
    status: str = "completed"
    outcome: str = "completed"
    reason: str | None = None
    code: str | None = None
    """Kind of the model error in the result."""
    said: str | None = None
    """Part of the error, or of the answer."""
    told: str = ""
    """Part of the last request: what the model got to read because of the fault."""
    requests: int = 3
    """What arrives at the server, the first call included."""
    outlasted: bool = False
    """Whether it is asked again until `retry.for` is over: then that many requests arrive at least."""
    pokes: int = 1
    model: str = ""
    """Settings of the model, as in `models.m`."""
    agent: str = ""
    """Settings of the agent."""
    within: float = 1.0


def failed(code: str, said: str, requests: int = 2) -> dict[str, Any]:
    """The end of an execution whose model could not answer."""
    return {"status": "failed", "outcome": "failed", "reason": "model", "code": code, "said": said, "requests": requests}


def outlasted(code: str, said: str, requests: int = 4) -> dict[str, Any]:
    """The end of an execution whose model could not answer for as long as it was asked again."""
    return {**failed(code, said, requests), "outlasted": True}
