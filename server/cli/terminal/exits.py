"""The exit codes, and the one place that turns an exception into a message, a hint and a code.

Owns the table from exceptions to exits. Must not know: commands. Invariant: an unexpected error is still reported in words.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import NamedTuple


class Exit(IntEnum):
    """What the shell is told. Stable: scripts rely on it."""

    DONE = 0
    FAILED = 1
    """The execution failed or timed out."""
    USAGE = 2
    """The command line, the configuration or the database."""
    REFUSED = 3
    """By a limit."""
    NOT_FOUND = 4
    CANCELLED = 5
    INTERRUPTED = 130
    """From the keyboard."""
    STOPPED = 143
    """By SIGTERM or the end of the terminal: what is left of the execution can be resumed."""


_BY_STATUS = {"completed": Exit.DONE, "cancelled": Exit.CANCELLED}


def exit_of_status(status: str) -> Exit:
    """The exit of a command that waited for an execution."""
    return _BY_STATUS.get(status, Exit.FAILED)


class CommandError(Exception):
    """A command that cannot do what it was asked to, told for people."""

    def __init__(self, message: str, hint: str = "", code: Exit = Exit.USAGE, *, names_places: bool = True) -> None:
        super().__init__(message)
        self.hint, self.code = hint, code
        self.names_places = names_places
        """Whether something was looked for in the configuration or the database, if it was not found."""


class CommandFailure(NamedTuple):
    """An exception as the shell and its user see it."""

    message: str
    hint: str
    code: int


def explain(error: BaseException) -> CommandFailure:
    """Turn an exception into words and an exit code; what was not found is told with the files that were looked into."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    failure = _explained(error)
    from server.cli.terminal.options import look_elsewhere, places_used

    if failure.code == Exit.NOT_FOUND and getattr(error, "names_places", True):
        return failure._replace(message=failure.message + places_used(), hint=failure.hint + look_elsewhere())
    if _is_missing_database(error):
        return failure._replace(hint=failure.hint + look_elsewhere())
    return failure


def _is_missing_database(error: BaseException) -> bool:
    from db.errors import NoDatabase

    return isinstance(error, NoDatabase)


def _explained(error: BaseException) -> CommandFailure:
    if isinstance(error, CommandError):
        return CommandFailure(str(error), error.hint, error.code)
    told = getattr(error, "format_message", None)
    if told is not None:  # typer's errors of usage share this method and nothing public besides
        return _usage(error, str(told()).strip())
    code = _code_of(error)
    if code is not None:
        return _listed(str(error), str(getattr(error, "hint", "")), code)
    if isinstance(error, OSError):
        return CommandFailure(f"{error.filename or 'the system'}: {error.strerror or error}", "", Exit.USAGE)
    return CommandFailure(
        f"an internal error: {type(error).__name__}: {error}",
        "this is a bug in Outrider; `OUTRIDER_LOG=debug` shows where it comes from",
        Exit.FAILED,
    )


def _usage(error: BaseException, message: str) -> CommandFailure:
    """An error of typer's in our manner; its classes are private, what they carry is not."""
    path = getattr(getattr(error, "ctx", None), "command_path", "outrider")
    hint = f"`{path} --help` shows how it is used"
    option = getattr(error, "option_name", None)
    parameter = getattr(error, "param", None)
    if message.startswith("No such option"):
        near = getattr(error, "possibilities", None) or ()
        return CommandFailure(f"no option `{option}`", f"did you mean `{near[0]}`?" if near else hint, Exit.USAGE)
    if message.startswith("Missing") and parameter is not None:
        return CommandFailure(f"`{parameter.metavar or parameter.name}` is missing", hint, Exit.USAGE)
    if extra := re.fullmatch(r"Got unexpected extra argument\(?s?\)? \((.*)\)", message):
        hint = f"put several words in quotes; {hint}"
        return CommandFailure(f"unexpected argument `{extra[1]}`", hint, Exit.USAGE)
    message = re.sub(r"'([^']*)'", r"`\1`", message.rstrip(".").replace("Value error, ", ""))
    return CommandFailure(message[:1].lower() + message[1:], hint, Exit.USAGE)


def _listed(message: str, hint: str, code: int) -> CommandFailure:
    """A report of several problems gets a heading; a single one ends with its hint already."""
    lines = message.splitlines()
    if hint and lines and lines[-1].strip() == f"hint: {hint}":
        message = "\n".join(lines[:-1])
    elif len(lines) > 1 and not hint:
        problems = sum(not line.startswith("  hint: ") for line in lines)
        message = f"the configuration has {problems} problems\n\n{message}"
    return CommandFailure(message, hint, code)


_MISTAKES = ("unavailable", "invalid_input", "unknown_command", "usage")
"""Refusals that no limit is behind."""


def _code_of(error: BaseException) -> Exit | None:
    """The code of an error of ours; the imports wait, because most commands never fail."""
    from db.errors import StoreError, UnknownExecution

    if isinstance(error, UnknownExecution):
        return Exit.NOT_FOUND
    if isinstance(error, StoreError):
        return Exit.USAGE
    from runner.errors import Refusal, RunnerError

    if isinstance(error, RunnerError):
        by_a_limit = isinstance(error, Refusal) and error.kind not in _MISTAKES
        return Exit.REFUSED if by_a_limit else Exit.USAGE
    from registry.text.errors import RegistryError, UnknownName
    from runner.llm.protocol import ModelError

    if isinstance(error, UnknownName):
        return Exit.NOT_FOUND
    from server.http_face.errors import HttpFault

    return Exit.USAGE if isinstance(error, RegistryError | ModelError | HttpFault) else None
