"""A call: a message that begins with `/`, parsed into a command and its arguments.

Pure. Owns the grammar: which message is a call, the form of arguments, and the refusal of a malformed call. Invariant: a
parsed call has every argument that its command requires, and nothing left over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from registry import RESERVE_SHARE, AgentSpec, ArgumentSpec, ChainSpec, CommandSpec, fold, nearest
from runner.errors import Refusal

MOST_ITEMS = 100
"""Per call: a range is quickly written, and each number in it is work for an agent."""

SLACK_SECONDS = 10.0
"""Added to the timeout of a command, so that its agents have all of it, however long they took to start."""

_NUMBER = r"#?[0-9]{1,9}"
_SPAN = rf"{_NUMBER}(?:\s*-\s*{_NUMBER})?"
_ITEM = re.compile(rf"{_NUMBER}(?=\s|$)")
_ITEMS = re.compile(rf"{_SPAN}(?:\s*,\s*{_SPAN})*(?=\s|$)")
_WORD = re.compile(r"\S+")
_QUOTES = {'"': '"', "'": "'", "“": "”", "«": "»"}


@dataclass(frozen=True, slots=True)
class CommandCall:
    """A command with its arguments."""

    command: CommandSpec
    arguments: str
    """The text after its name."""
    values: Mapping[str, Any]
    """The same, by argument name."""
    numbers: tuple[int, ...] = ()
    """The work items it is about, in the given order."""

    @property
    def line(self) -> str:
        """The call as people would write it."""
        return f"/{self.command.name} {self.arguments}".strip()

    def about(self, number: int | None) -> str:
        """The call for a single work item, as people would write it."""
        if number is None or len(self.numbers) == 1:
            return self.line
        written = (self._written(argument, number) for argument in self.command.arguments)
        return " ".join([f"/{self.command.name}", *(each for each in written if each)])

    def seconds(self, reserve: float) -> float:
        """The timeout of a route for all of it: the command's timeout for each work item, slack for the start, and the time
        kept for the answer, at most `reserve`.
        """
        context = self.command.timeout * max(1, len(self.numbers))
        return context + min(reserve, context * RESERVE_SHARE / (1 - RESERVE_SHARE)) + min(context, SLACK_SECONDS)

    def _written(self, argument: ArgumentSpec, number: int) -> str:
        if argument.kind in ("item", "items"):
            return str(number)
        value = self.values[argument.name]
        return value if value is not None and value != argument.default else ""


def call_in(subject: AgentSpec | ChainSpec, text: str) -> CommandCall | None:
    """Parse the call in a message to an agent; None if the message is no call. Raises Refusal for a malformed call."""
    if isinstance(subject, ChainSpec) or subject.strategy != "route":
        return None
    commands = subject.route.commands
    return read_call(text, commands) if commands and text.lstrip().startswith("/") else None


def read_call(text: str, commands: Mapping[str, CommandSpec]) -> CommandCall:
    """Parse a message that begins with `/`; raises Refusal."""
    name, *rest_of_it = re.split(r"\s+", text.strip()[1:], maxsplit=1)
    command = next((each for each in commands.values() if fold(each.name) == fold(name)), None)
    if command is None:
        known = ", ".join(f"`/{each}`" for each in commands)
        near = nearest(name, commands)
        hint = (f"did you mean `/{near}`? " if near else "") + f"commands: {known}"
        raise Refusal("unknown_command", f"there is no command `/{_short(name)}`", hint, {"known": list(commands)})
    arguments = "".join(rest_of_it)
    rest, values = arguments, dict[str, Any]()
    for argument in command.arguments:
        value, rest = _taken(argument, rest, command)
        values[argument.name] = value
    if rest:
        raise misused(command, f"unexpected `{_short(rest)}`" if command.arguments else "it takes no arguments")
    numbered = command.item_argument
    given = values[numbered.name] if numbered is not None else None
    numbers = () if given is None else tuple(given) if isinstance(given, list) else (given,)
    return CommandCall(command, arguments, values, numbers)


def misused(command: CommandSpec, what: str) -> Refusal:
    """The refusal of a malformed call."""
    return Refusal("usage", f"`/{command.name}`: {what}", f"write `{command.usage}`", {"command": command.name})


def _taken(argument: ArgumentSpec, rest: str, command: CommandSpec) -> tuple[Any, str]:
    """The value of an argument, and the text left after it."""
    found = _matched(argument, rest) or 0
    value, left = (_value(argument, rest[:found], command), rest[found:].lstrip()) if found else ("", rest)
    if value != "":
        return value, left
    if argument.required:
        raise misused(
            command, f"`{_short(left)}` does not match {argument.shown}" if left else f"{argument.shown} is missing"
        )
    return argument.default, left


def _matched(argument: ArgumentSpec, rest: str) -> int | None:
    """The length of this argument at the start of the text; None if it does not match."""
    if argument.kind == "text":
        return len(rest) if rest else None
    match = {"item": _ITEM, "items": _ITEMS, "choice": _WORD}[argument.kind].match(rest)
    if match is None or (argument.kind == "choice" and _choice(argument, match[0]) is None):
        return None
    return match.end()


def _value(argument: ArgumentSpec, written: str, command: CommandSpec) -> Any:
    if argument.kind == "text":
        return _unquoted(written)
    if argument.kind == "choice":
        return _choice(argument, written)
    if argument.kind == "item":
        return int(written.lstrip("#"))
    return _numbers(written, command)


def _choice(argument: ArgumentSpec, word: str) -> str | None:
    return next((each for each in argument.choices if fold(each) == fold(word)), None)


def _unquoted(text: str) -> str:
    """Strip quotes around the whole text."""
    closing = _QUOTES.get(text[0])
    whole = closing is not None and len(text) > 1 and text.find(closing, 1) == len(text) - 1
    return text[1:-1].strip() if whole else text


def _numbers(written: str, command: CommandSpec) -> list[int]:
    """The numbers in a list such as `3, 105-107`, each once."""
    numbers: dict[int, None] = {}
    for span in re.sub(r"[\s#]", "", written).split(","):
        first, _, last = span.partition("-")
        low, high = int(first), int(last or first)
        if high < low:
            raise misused(command, f"the range `{span}` goes down")
        numbers.update(dict.fromkeys(range(low, min(high, low + MOST_ITEMS) + 1)))
        if len(numbers) > MOST_ITEMS:
            raise misused(command, f"it takes at most {MOST_ITEMS} work items at once")
    return list(numbers)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"
