"""Steps that a person must allow: a yes counts once and for all, and a question ends with its plan."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from db.engine import sqlite_library
from runner.dispatcher import Order
from tests.runner.planned import config, plan, step, steps
from tests.support.gated import asked
from tests.support.models import say
from tests.support.service import bench

SCRIPTS = {"Planner": [plan(step("s", "A", requiresConfirmation=True))], "A": [say("alpha")], "Composer": [say("done")]}
USED = (
    "update approvals set decision = 'approved', decided_at = requested_at, used_at = requested_at",
    "update tool_calls set status = 'started'",
)
"""What a process leaves that ends after it has used a yes up, and before it has noted the outcome."""


async def test_a_yes_that_was_used_before_a_crash_is_not_asked_for_again(tmp_path: Path) -> None:
    async with bench(tmp_path, config(), SCRIPTS) as service:
        started = await service.dispatcher.start(Order("Assistant", "do a"))
        await asked(service)
    with closing(sqlite_library().connect(service.database)) as connection, connection:
        for statement in USED:
            assert connection.execute(statement).rowcount == 1

    async with bench(tmp_path, config(), SCRIPTS) as service:
        await service.dispatcher.adopt()
        ended = await service.ended(started.id)
        assert ended.result is not None
        assert ended.result.text == "done"
        assert steps(service) == {"s": "completed"}
        assert service.sql("select kind from approvals") == [{"kind": "gate"}]


async def test_a_plan_that_is_cancelled_while_a_person_is_asked_leaves_no_question(tmp_path: Path) -> None:
    async with bench(tmp_path, config(), SCRIPTS) as service:
        started = await service.dispatcher.start(Order("Assistant", "do a"))
        await asked(service)
        await service.dispatcher.cancel(started.id, by="Ada", reason="not today")
        assert (await service.ended(started.id)).status == "cancelled"
        [call] = service.sql("select status, error_type, result from tool_calls")
        assert (call["status"], call["error_type"]) == ("failed", "cancelled")
        assert "not carried out" in call["result"]
        assert service.sql("select decision from approvals") == [{"decision": "withdrawn"}]
        assert service.sql("select status from plans") == [{"status": "failed"}]
