"""Codes of errors: what a program reads of a problem, whatever its type is called.

Pure. Owns the codes there are and which type of problem has which. A problem that brings a code of its own keeps it, such
as the one of a model's provider; a type nobody has named is `UNKNOWN_ERROR`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from runner.result import Problem


class Code(StrEnum):
    """What went wrong, for programs."""

    TIMEOUT = "TIMEOUT"
    VALIDATION_FAILED = "VALIDATION_FAILED"
    TOOL_UNAVAILABLE = "TOOL_UNAVAILABLE"
    TOOL_FAILED = "TOOL_FAILED"
    BUILD_ERROR = "BUILD_ERROR"
    FILE_NOT_FOUND = "FILE_NOT_FOUND"
    CYCLE_DETECTED = "CYCLE_DETECTED"
    MAX_DEPTH_EXCEEDED = "MAX_DEPTH_EXCEEDED"
    UNKNOWN_AGENT = "UNKNOWN_AGENT"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    LIMIT_REACHED = "LIMIT_REACHED"
    BUDGET_EXCEEDED = "BUDGET_EXCEEDED"
    DEPENDENCY_FAILED = "DEPENDENCY_FAILED"
    EXECUTION_FAILED = "EXECUTION_FAILED"
    INTERRUPTED = "INTERRUPTED"
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"


_CODES: Mapping[str, Code] = {
    "timeout": Code.TIMEOUT,
    "validation": Code.VALIDATION_FAILED,
    "validation_failed": Code.VALIDATION_FAILED,
    "invalid_input": Code.VALIDATION_FAILED,
    "unknown_command": Code.VALIDATION_FAILED,
    "usage": Code.VALIDATION_FAILED,
    "no_title": Code.VALIDATION_FAILED,
    "long_title": Code.VALIDATION_FAILED,
    "unknown_item": Code.VALIDATION_FAILED,
    "no_tool_call": Code.VALIDATION_FAILED,
    "planning_failed": Code.VALIDATION_FAILED,
    "tool_unavailable": Code.TOOL_UNAVAILABLE,
    "unavailable": Code.TOOL_UNAVAILABLE,
    "tool_error": Code.TOOL_FAILED,
    "build": Code.BUILD_ERROR,
    "build_error": Code.BUILD_ERROR,
    "file_not_found": Code.FILE_NOT_FOUND,
    "delegation_cycle": Code.CYCLE_DETECTED,
    "max_depth_exceeded": Code.MAX_DEPTH_EXCEEDED,
    "unknown_agent": Code.UNKNOWN_AGENT,
    "not_in_catalogue": Code.UNKNOWN_AGENT,
    "permission_denied": Code.PERMISSION_DENIED,
    "denied": Code.PERMISSION_DENIED,
    "limit": Code.LIMIT_REACHED,
    "wrapping_up": Code.LIMIT_REACHED,
    "not_started": Code.LIMIT_REACHED,
    "max_iterations": Code.LIMIT_REACHED,
    "budget": Code.BUDGET_EXCEEDED,
    "dependency_failed": Code.DEPENDENCY_FAILED,
    "execution": Code.EXECUTION_FAILED,
    "answer": Code.EXECUTION_FAILED,
    "failed": Code.EXECUTION_FAILED,
    "partial": Code.EXECUTION_FAILED,
    "blocked": Code.EXECUTION_FAILED,
    "function_failed": Code.EXECUTION_FAILED,
    "stage_failed": Code.EXECUTION_FAILED,
    "refused": Code.EXECUTION_FAILED,
    "interrupted": Code.INTERRUPTED,
    "store": Code.STORE_UNAVAILABLE,
}


def code_of(problem: Problem) -> str:
    """The code of a problem."""
    return problem.code or _CODES.get(problem.type, Code.UNKNOWN_ERROR).value
