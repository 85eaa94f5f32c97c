"""Admission: an execution is born only if an answer of it can be paid. Until it ends, the price of one is kept for it.

Owns the first estimate, made before its tools are known. Without a budget on or above the execution this costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from db.status import ExecutionStatus
from registry import AgentSpec
from runner.context import PromptParts, system_prompt
from runner.guard import too_little_left
from runner.tariff import Tariff, prompt_tokens
from runner.transcript import Message

if TYPE_CHECKING:
    from runner.execution import Execution


def keep_an_answer(execution: Execution) -> None:
    """Set aside what a conclusion of an execution that is about to be born costs; raises Refusal."""
    budget, agent = execution.allowance.budget, execution.request.agent
    spec = execution.services.model_spec(agent)
    if budget is None or spec is None or execution.status is not ExecutionStatus.PENDING:
        return
    assert isinstance(agent, AgentSpec)
    request = execution.request
    tariff = Tariff(spec, execution.services.settings.models, waits=bool(request.catalogue))
    parts = PromptParts(agent, execution.name, request.role, request.catalogue, request.roster, request.brief)
    system = system_prompt(parts)
    prompt = prompt_tokens(system, [Message.of_text("user", execution.prompt)])
    if (short := budget.keep_for_conclusion(tariff, prompt)) is not None:
        raise too_little_left(execution.name, short, top_level=execution.parent is None)
