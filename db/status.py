"""The status of an execution and the one table of its legal changes. Pure; both the store and the runner read it."""

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
    """Ended by somebody's wish. Never an error."""
    BLOCKED = "blocked"
    """Never started, because something it depends on did not succeed or was not allowed."""
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
"""What an execution waits for (`waiting_for`) while a question to a person about it is undecided."""

SLOT = "slot"
"""What an execution waits for (`waiting_for`) until it is its turn: a new one to begin, an adopted one to go on."""


def sources(target: ExecutionStatus) -> frozenset[ExecutionStatus]:
    """The statuses from which `target` may be reached: what a guarded UPDATE has to ask for."""
    return frozenset(status for status, after in TRANSITIONS.items() if target in after)
