"""Iterations for tests: a configuration with one agent that iterates, and what its three components say.

Owns: the configuration, the forms of their answers, small questions to the rows. Must not know: what a test expects.
"""

from __future__ import annotations

import json
from typing import Any

from runner.llm.protocol import Request
from tests.support.models import Turn, say
from tests.support.service import Bench


def config(iterate: str = "", agent: str = "", more: str = "") -> str:
    """The configuration, with these settings of the iteration and of its agent, and more sections."""
    settings = f"{{strategy: iterate, description: iterates, {agent} iterate: {{{iterate}}}}}"
    return f"agents:\n  Reporter: {settings}\n{more}"


def task(text: str, **more: Any) -> Turn:
    """A planner's answer: one task."""
    return say(json.dumps({"nextTask": text, "finished": False, **more}))


def tasks(*texts: str, parallel: bool = False, **more: Any) -> Turn:
    """A planner's answer: several tasks."""
    return say(json.dumps({"nextTasks": texts, "parallelTasks": parallel, **more}))


def finished(**more: Any) -> Turn:
    """A planner's answer: nothing is left to do."""
    return say(json.dumps({"finished": True, **more}))


def done(result: Any) -> Turn:
    """A worker's answer: it has succeeded."""
    return say(json.dumps({"success": True, "result": result}))


def undone(message: str, result: Any = None) -> Turn:
    """A worker's answer: it has failed."""
    return say(json.dumps({"success": False, "error": {"message": message}, "result": result}))


def first(request: Request) -> str:
    """The first message of a request."""
    return request.messages[0].text


def seats(service: Bench) -> list[tuple[str, str]]:
    """Who was started for the iteration, and how each ended, in order."""
    rows = service.sql("select step_id, status from executions where step_id is not null order by created_at, position")
    return [(row["step_id"], row["status"]) for row in rows]


def events(service: Bench, kind: str) -> list[dict[str, Any]]:
    """The payloads of all events of a kind, in order."""
    return [
        json.loads(row["payload"]) for row in service.sql("select payload from events where type = ? order by seq", kind)
    ]
