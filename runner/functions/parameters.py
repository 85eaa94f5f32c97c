"""Parameters: the values a function gets, by the names and types in its signature.

Owns the rules: `task` is the task, a parameter annotated with `Context` is the context, every other one is a field of the
input, validated and converted by its annotation. Must not know: where a function comes from or how it is called.
Invariants: a parameter that cannot be passed by name is refused before any call; a call gets only valid values.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from runner.errors import InvalidInput
from runner.functions.context import Context

TASK = "task"


class NotCallable(Exception):
    """A function that cannot be called, with the reason and a hint."""

    def __init__(self, message: str, hint: str = "change its parameters: they are given by name") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    required: bool
    type: TypeAdapter[Any]


class Parameters:
    """The parameters of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Read its signature; raises NotCallable."""
        self._fields: list[_Field] = []
        self._context: str | None = None
        self._rest = False
        """Whether it takes all other fields too (`**kwargs`)."""
        for parameter in _signature(function).parameters.values():
            self._add(parameter)

    def _add(self, parameter: Parameter) -> None:
        kind, name, annotation = parameter.kind, parameter.name, parameter.annotation
        if kind is Parameter.VAR_KEYWORD:
            self._rest = True
        elif kind in (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL):
            raise NotCallable(f"its parameter `{name}` cannot be given by name")
        elif annotation is not Context:
            self._fields.append(_Field(name, parameter.default is Parameter.empty, _adapter(name, annotation)))
        elif self._context is not None:
            raise NotCallable(f"both `{self._context}` and `{name}` are its `Context`")
        else:
            self._context = name

    def arguments(self, task: str, fields: Mapping[str, Any], context: Context) -> dict[str, Any]:
        """The values of a call; raises InvalidInput with every missing or invalid field."""
        given = {**fields, TASK: task}
        named = {field.name for field in self._fields}
        values = {name: value for name, value in fields.items() if name not in {*named, TASK}} if self._rest else {}
        faults: list[str] = []
        for field in self._fields:
            if field.name in given:
                try:
                    values[field.name] = field.type.validate_python(given[field.name])
                except ValidationError as error:
                    faults += _faults(field.name, error)
            elif field.required:
                faults.append(f"`{field.name}` is missing")
        if faults:
            raise InvalidInput(faults)
        if self._context is not None:
            values[self._context] = context
        return values


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except Exception as error:  # evaluating annotations may raise anything
        raise NotCallable(f"its parameters cannot be read: {error}") from error


def _adapter(name: str, annotation: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(Any if annotation is Parameter.empty else annotation)
    except PydanticUserError as error:
        raise NotCallable(f"values of its parameter `{name}` cannot be checked: {error.message.splitlines()[0]}") from error


def _faults(name: str, error: ValidationError) -> list[str]:
    """The faults of a value, without the value: it may be secret, or long."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [f"`{'.'.join(map(str, (name, *each['loc'])))}`: {each['msg'][:1].lower()}{each['msg'][1:]}" for each in found]
