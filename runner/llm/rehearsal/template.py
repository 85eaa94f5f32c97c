"""Templates of a rehearsal: sandboxed Jinja2 over the transcript.

Owns the environment, its filters and the three uses of a source: as text, as a typed value, as an expression. Knows
nothing of scripts, requests or agents. Invariant: an undefined name is an error with its place in the script, never an
empty string in an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

import yaml
from jinja2 import StrictUndefined, TemplateError, Undefined, nodes
from jinja2.sandbox import SandboxedEnvironment
from pydantic_core import from_json, to_json

from runner.llm.protocol import ModelError

Variables = Mapping[str, Any]
Made = TypeVar("Made")
Rendering = Callable[[Variables], Any]
"""Renders a value from the variables of a scene; raises ModelError with the place of its source."""


class _Environment(SandboxedEnvironment):
    """A sandbox in which data wins: `answer.items` is the key `items` of a JSON object, not a method."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)


def read_json(text: str) -> Any:
    """The value of a JSON text, or None if it is not JSON."""
    try:
        return from_json(text)
    except ValueError:
        return None


def _read_yaml(text: str) -> Any:
    """The data of a YAML text, or None if it is not YAML: `{{ (task | find("…")) | from_yaml }}`."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None


def _clock(moment: str, pattern: str = "%H:%M:%S") -> str:
    """An ISO-8601 time for people: `{{ first.time | clock }}`."""
    return datetime.fromisoformat(moment).strftime(pattern)


def _shift(moment: str, **amount: float) -> str:
    """An ISO-8601 time, shifted: `{{ alert.startsAt | shift(minutes=-15) }}`."""
    moved = datetime.fromisoformat(moment) + timedelta(**amount)
    return moved.isoformat().replace("+00:00", "Z")


def _seconds_since(later: str, earlier: str) -> float:
    """Seconds between two ISO-8601 times: `{{ alerted | seconds_since(started) }}`."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def _find(text: str, pattern: str) -> str | None:
    """The first match of a pattern, its first group if it has one: `{{ line | find("pod=(\\S+)") }}`."""
    found = re.search(pattern, text)
    if found is None:
        return None
    return found.group(1) if found.re.groups else found.group()


def _environment() -> _Environment:
    environment = _Environment(
        undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.do"]
    )
    environment.filters.update(
        # Jinja's own tojson writes for HTML and escapes quotes and angle brackets.
        tojson=lambda value, indent=None: to_json(value, indent=indent).decode(),
        from_json=read_json,
        from_yaml=_read_yaml,
        clock=_clock,
        shift=_shift,
        seconds_since=_seconds_since,
        find=_find,
    )
    return environment


_ENVIRONMENT = _environment()


def text(source: str, where: str) -> Rendering:
    """A template that renders text."""
    template = _attempt(where, lambda: _ENVIRONMENT.from_string(source))

    def render(variables: Variables) -> str:
        return _attempt(where, lambda: template.render(variables)).strip()

    return render


def expression(source: str, where: str) -> Rendering:
    """An expression that keeps its type; `{{ … }}` around it is optional."""
    bare = source.strip()
    if bare.startswith("{{") and bare.endswith("}}"):
        bare = bare[2:-2].strip("-")
    compiled = _attempt(where, lambda: _ENVIRONMENT.compile_expression(bare, undefined_to_none=False))

    def evaluate(variables: Variables) -> Any:
        def run() -> Any:
            result = compiled(variables)
            # An unused undefined value would slip through: converting it raises.
            return str(result) if isinstance(result, Undefined) else result

        return _attempt(where, run)

    return evaluate


def sequence(source: str, where: str) -> Rendering:
    """An expression that gives a list."""
    evaluate = expression(source, where)

    def collect(variables: Variables) -> list[Any]:
        found = evaluate(variables)
        if isinstance(found, str | Mapping) or not isinstance(found, Iterable):
            raise ModelError("rehearsal", f"{where}: expected a list, got {type(found).__name__}", _HINT)
        return _attempt(where, lambda: list(found))

    return collect


def value(source: Any, where: str) -> Rendering:
    """A tree of data whose strings are templates; a string that is one `{{ … }}` keeps its type."""
    if isinstance(source, str):
        return expression(source, where) if _is_one_expression(source, where) else text(source, where)
    if isinstance(source, dict):
        fields = {key: value(item, f"{where}.{key}") for key, item in source.items()}
        return lambda variables: {key: render(variables) for key, render in fields.items()}
    if isinstance(source, list):
        items = [value(item, f"{where}[{index}]") for index, item in enumerate(source)]
        return lambda variables: [render(variables) for render in items]
    return lambda _: source


def _is_one_expression(source: str, where: str) -> bool:
    stripped = source.strip()
    if not (stripped.startswith("{{") and stripped.endswith("}}")):
        return False
    body = _attempt(where, lambda: _ENVIRONMENT.parse(stripped)).body
    outputs = body[0].nodes if len(body) == 1 and isinstance(body[0], nodes.Output) else []
    return len(outputs) == 1 and not isinstance(outputs[0], nodes.TemplateData)


def _attempt(where: str, action: Callable[[], Made]) -> Made:
    """Run `action`; errors of a template get its place."""
    try:
        return action()
    except TemplateError as error:
        raise ModelError("rehearsal", f"{where}: {error.message or 'the template is not valid'}", _HINT) from error
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, re.error) as error:
        raise ModelError("rehearsal", f"{where}: {error or type(error).__name__}", _HINT) from error


_HINT = (
    "a template may use task, input, agent, caller, session, results, result(), all_results(), deliveries, pending, "
    "message, tools"
)
