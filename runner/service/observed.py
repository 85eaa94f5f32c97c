"""Observed executions: observers are told when one begins to live here, and how it ended.

Owns what an execution tells. Must not know: spans, metrics. Invariant: the end is told after it is stored; an execution
that another process continues ends there, and here without an outcome.
"""

from __future__ import annotations

from registry import ChainSpec, ModelSpec
from runner.core.execution import Execution
from runner.result import Outcome
from runner.telemetry.names import OTHER
from runner.telemetry.observer import ExecutionOutcome, ObservedExecution, Observers


async def observed(observers: Observers, execution: Execution) -> None:
    """Run a stored execution to its end, and tell observers of it."""
    end = observers.execution(_about(execution))
    try:
        await execution.run()
    finally:
        end(_outcome(execution))


def _about(execution: Execution) -> ObservedExecution:
    request, spec = execution.request, _model_of(execution)
    call = request.dispatch.call
    return ObservedExecution(
        place=execution.place,
        agent=request.agent.name,
        name=execution.name,
        description=request.agent.description,
        is_chain=isinstance(request.agent, ChainSpec),
        role=request.role,
        attempt=execution.life.epoch,
        model=spec.model if spec is not None else None,
        provider=spec.provider if spec is not None else "outrider",
        trace=execution.origin.trace,
        dispatched=call.flight.trace if call is not None else None,
    )


def _model_of(execution: Execution) -> ModelSpec | None:
    try:
        return execution.services.model_spec(execution.request.agent)
    except LookupError:  # a resumed agent that its configuration no longer has; it ends with that reason
        return None


def _outcome(execution: Execution) -> ExecutionOutcome | None:
    life = execution.life
    if not life.status.is_terminal:
        return None
    result = life.result
    went_wrong = life.error is not None and (result is None or result.outcome is not Outcome.BLOCKED)
    problem = result.errors[0].type if result is not None and result.errors else OTHER
    return ExecutionOutcome(
        status=life.status.value,
        outcome=result.outcome.value if result is not None else "",
        reason=result.reason if result is not None else None,
        error_type=problem if went_wrong else None,
        seconds=life.elapsed,
        cost_usd=execution.allowance.own.cost_usd,
    )
