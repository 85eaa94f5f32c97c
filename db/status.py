"""The status of an execution and the one table of its transitions. Pure; both the store and the runner use it."""

from __future__ import annotations

from enum import StrEnum


class ExecutionStatus(StrEnum):
    """Where an execution is in its life."""

    PENDING = "pending"
    """Created, not started: waiting for a slot, for its turn or for an approval."""
    RUNNING = "running"
    COMPLETED = "completed"
    """Ended with an answer; `outcome` says whether it is whole or partial."""
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    """Ended by its hard deadline; what was found is kept."""
    CANCELLED = "cancelled"
    """Ended on request. Never an error."""
    BLOCKED = "blocked"
    """Never started, because a dependency did not succeed or was not allowed."""
    SKIPPED = "skipped"
    """Never started, because it was no longer needed."""

    @property
    def is_terminal(self) -> bool:
        """Whether nothing can follow."""
        return not TRANSITIONS[self]


TRANSITIONS: dict[ExecutionStatus, frozenset[ExecutionStatus]] = {
    ExecutionStatus.PENDING: frozenset(
        {ExecutionStatus.RUNNING, ExecutionStatus.BLOCKED, ExecutionStatus.SKIPPED, ExecutionStatus.CANCELLED}
    ),
    ExecutionStatus.RUNNING: frozenset(
        {ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.TIMED_OUT, ExecutionStatus.CANCELLED}
    ),
    ExecutionStatus.COMPLETED: frozenset(),
    ExecutionStatus.FAILED: frozenset(),
    ExecutionStatus.TIMED_OUT: frozenset(),
    ExecutionStatus.CANCELLED: frozenset(),
    ExecutionStatus.BLOCKED: frozenset(),
    ExecutionStatus.SKIPPED: frozenset(),
}
"""From each status to those that may follow. Terminal is final."""

TERMINAL = frozenset(status for status, after in TRANSITIONS.items() if not after)
OPEN = frozenset(TRANSITIONS) - TERMINAL


APPROVAL = "approval"
"""`waiting_for` of an execution while an approval question about it is undecided."""

SLOT = "slot"
"""`waiting_for` of an execution without a slot: a new one waits to start, an adopted one to resume."""


def sources(target: ExecutionStatus) -> frozenset[ExecutionStatus]:
    """The statuses from which `target` may be reached: the condition of a guarded UPDATE."""
    return frozenset(status for status, after in TRANSITIONS.items() if target in after)
