"""Built-in tools: each has a name, a description for models, validated arguments and a handler.

Owns the validation: unknown, missing and invalid arguments are refused, naming the field and never echoing its value.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticUndefined, to_json

from db.errors import UnknownExecution
from registry.text.durations import LONGEST
from runner.messages import Tool, ToolCall
from runner.tools.protocol import ToolResult

SERVER = "orchestrator"
"""The reserved server name under which calls of built-in tools are recorded."""

MOST_PROBLEMS, LONGEST_NAME = 5, 60
"""Caps of a refusal: the names of arguments come from the caller, in any number and length."""

_MESSAGES = {
    "extra_forbidden": "is not an argument of this tool",
    "missing": "is required",
    "dict_type": "is wrong: it should be an object",
}
"""In place of messages that the validation library writes for programmers."""


class Arguments(BaseModel):
    """The arguments of a built-in tool: strict, without undeclared fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True, slots=True)
class OwnTool(Generic[A]):
    """A built-in tool."""

    name: str
    description: str
    arguments: type[A]
    run: Callable[[ToolCall, A], Awaitable[ToolResult]]
    effect: str = "read_only"

    def definition(self) -> Tool:
        """The definition that models get."""
        return _definition(self.name, self.description, self.arguments, self.effect)


@cache
def _definition(name: str, description: str, arguments: type[Arguments], effect: str) -> Tool:
    # Cached for each kind of tool, not for each execution: a schema costs more than the rest of a small execution.
    schema = compact(arguments.model_json_schema())
    for named, field in arguments.model_fields.items():
        schema["properties"][named]["description"] = field.description
        if field.default not in (None, "", PydanticUndefined):
            schema["properties"][named]["default"] = field.default
    return Tool(name, description, schema, label=name, server=SERVER, effect=effect)


OMITTED = ("title", "description", "default", "minLength", "exclusiveMinimum")
"""Left out of a schema: the names say it, or a refusal does."""
NO_LIMIT: tuple[tuple[str, Any], ...] = (("additionalProperties", True), ("items", {}), ("maximum", LONGEST))
"""Limits without effect."""


def compact(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema in its shortest form: no null beside a type, and no separate definition that is used only once."""
    definitions = schema.get("$defs", {})
    whole = to_json(schema).decode()
    shared = [name for name in definitions if whole.count(f'"#/$defs/{name}"') > 1]

    def short(value: Any) -> Any:
        if isinstance(value, list):
            return [short(each) for each in value]
        if not isinstance(value, dict):
            return value
        if (name := str(value.get("$ref", "")).rpartition("/")[2]) and name not in shared:
            return short(definitions[name])
        if "anyOf" in value:
            kinds = [each for each in value["anyOf"] if each != {"type": "null"}]
            return short(kinds[0]) if len(kinds) == 1 else {"anyOf": short(kinds)}
        said = {key: each for key, each in value.items() if key not in OMITTED and (key, each) not in NO_LIMIT}
        return {key: named(each) if key == "properties" else short(each) for key, each in said.items()}

    def named(parts: Mapping[str, Any]) -> dict[str, Any]:
        return {name: short(part) for name, part in parts.items()}

    body: dict[str, Any] = short({key: value for key, value in schema.items() if key != "$defs"})
    return {**body, "$defs": named({name: definitions[name] for name in shared})} if shared else body


def answer(value: Any, mark: str = "", **more: Any) -> ToolResult:
    """A structured answer, shown as JSON; `mark` is a mark of Outrider's that follows it."""
    return ToolResult(to_json(value).decode() + mark, structured=value, mark=mark, **more)


def refuse(kind: str, message: str, hint: str, *, ran: bool = False) -> ToolResult:
    """An error for a model: what failed and why, and a hint."""
    problem = {"type": kind, "message": message, "hint": hint}
    return ToolResult(f"error: {message}\nhint: {hint}", is_error=True, structured=problem, error_type=kind, ran=ran)


class OwnTools:
    """A `ToolExecutor` over built-in tools."""

    def __init__(self, tools: Sequence[OwnTool[Any]]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._definitions = [tool.definition() for tool in tools]

    async def list_tools(self) -> Sequence[Tool]:
        """Always the same, in the same order."""
        return self._definitions

    async def call(self, call: ToolCall) -> ToolResult:
        """Validate the arguments, then run the tool."""
        tool = self._tools.get(call.name)
        if tool is None:
            return refuse("unknown_tool", f"there is no tool `{call.name[:200]}`", "use one of the tools you were given")
        try:
            arguments = tool.arguments.model_validate(dict(call.arguments))
        except ValidationError as error:
            return _invalid(tool, error)
        try:
            return await tool.run(call, arguments)
        except UnknownExecution as error:
            return refuse("not_found", str(error), error.hint)

    async def close(self) -> None:
        """Nothing is open."""


def _invalid(tool: OwnTool[Any], error: ValidationError) -> ToolResult:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    problems = [_problem(each) for each in found[:MOST_PROBLEMS]]
    if len(found) > MOST_PROBLEMS:
        problems.append(f"and {len(found) - MOST_PROBLEMS} more")
    known = ", ".join(f"`{name}`" for name in tool.arguments.model_fields) or "none"
    message = f"the arguments of `{tool.name}` were refused: {'; '.join(problems)}"
    return refuse("invalid_arguments", message, f"its arguments are: {known}")


def _problem(found: ErrorDetails) -> str:
    name = ".".join(str(part) for part in found["loc"]) or "arguments"
    shown = "".join(letter if letter.isprintable() and letter != "`" else "?" for letter in name[:LONGEST_NAME])
    what = _MESSAGES.get(found["type"]) or "is wrong: " + found["msg"].removeprefix("Value error, ")
    return f"`{shown}{'…' if len(name) > LONGEST_NAME else ''}` {what}"
