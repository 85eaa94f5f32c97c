"""Functions: the Python callables that a configuration names, found, checked and called.

Owns how `module:name` becomes a callable, and where it runs: `async` ones in the event loop, others in daemon threads that
a cancelled caller abandons. Must not know: executions. Invariants: a function that cannot be called is a configuration
problem, reported before anything runs; an abandoned call never reaches the event loop.
"""

from __future__ import annotations

import contextvars
import importlib
import inspect
import logging
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel

from registry import ConfigError, ConfigProblem, Settings
from runner.functions.context import Context
from runner.functions.parameters import NotCallable, Parameters
from runner.text import FENCE, json_of

log = logging.getLogger("outrider.functions")

PUBLIC_NAMES = {
    "runner.board:add_item": "outrider:add_item",
    "runner.error_log:open_errors": "outrider:open_errors",
}
"""Built-in functions: their names in older configurations, and their public names."""
MOVED_MODULES = {"runner.function_context": "runner", "runner.board": "runner.work_items.board"}
"""Modules that users' functions import from: their old names, and where they are now."""

AgentFunction = Callable[[str, Any], Awaitable[Any]]
"""An agent of a program that embeds Outrider: takes task and input, returns text, data or a Result."""


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of a function call."""

    task: str
    input: Any
    context: Callable[[], Context]


Called = Callable[[Call], Awaitable[Any]]


def registered(functions: Mapping[str, AgentFunction]) -> dict[str, Called]:
    """The functions that a program registered, by agent."""

    def called(function: AgentFunction, call: Call) -> Awaitable[Any]:
        return function(call.task, call.input)

    return {name: partial(called, function) for name, function in functions.items()}


def configured(settings: Settings) -> dict[str, Called]:
    """The functions that a configuration names, by agent; raises ConfigError with every one that cannot be called.

    Modules beside the configuration are importable, and never hide an installed one.
    """
    wanted = {name: agent.function for name, agent in settings.agents.items() if agent.function}
    folder = str(settings.source.parent)
    if wanted and folder not in sys.path:
        sys.path.append(folder)
    for old, new in MOVED_MODULES.items() if wanted else ():
        sys.modules.setdefault(old, _Moved(old, new))
    found: dict[str, Called] = {}
    problems: list[ConfigProblem] = []
    for name, function in wanted.items():
        try:
            found[name] = _Function(_find(function, settings.source.parent))
        except NotCallable as error:
            message = f"`{function}` cannot be called: {error}"
            problems.append(settings.located.problem(("agents", name, "function"), message, error.hint))
    if problems:
        raise ConfigError(problems)
    return found


class _Moved(ModuleType):
    """A module under its old name: imports from it work, and log a warning with the new name."""

    def __init__(self, name: str, new: str) -> None:
        super().__init__(name)
        self._new = new

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        log.warning("`from %s import %s` has moved: write `from %s import %s`", self.__name__, name, self._new, name)
        return getattr(importlib.import_module(self._new), name)


class _Function:
    """A callable with its parameters."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function, self._parameters = function, Parameters(function)
        self._waits = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)

    async def __call__(self, call: Call) -> Any:
        context = call.context()
        arguments = self._parameters.arguments(call.task, _fields(call), context)
        try:
            if self._waits:
                return await self._function(**arguments)
            returned = await in_thread(partial(self._function, **arguments), context.path[-1])
            return await returned if inspect.isawaitable(returned) else returned
        finally:
            context.cancelled = True


def _fields(call: Call) -> Mapping[str, Any]:
    """The input's fields, over those of a task that is a JSON object: an agent that dispatches may only give a task."""
    said: Any = None
    if call.task.lstrip().startswith(("{", FENCE)):
        try:
            said = json_of(call.task)
        except ValueError:
            said = None  # the task only looks like JSON
    layers = (each for each in (said, call.input) if isinstance(each, Mapping))
    return {str(name): value for layer in layers for name, value in layer.items()}


def _find(named: str, folder: Path) -> Callable[..., Any]:
    if named in PUBLIC_NAMES:
        log.warning("`function: %s` has moved: write `%s`", named, PUBLIC_NAMES[named])
        named = PUBLIC_NAMES[named]
    module_name, _, path = named.partition(":")
    module = _imported(module_name)
    _refuse_another(module, module_name, folder)
    here: Any = module
    for step in path.split("."):
        here = getattr(here, step, None)
    if here is None:
        raise NotCallable(f"`{module_name}` has no `{path}`", f"look into {module.__file__ or module_name}")
    if not callable(here):
        raise NotCallable(f"`{path}` is not a function", "name a function")
    return here  # type: ignore[no-any-return]  # a callable of which nothing else is known


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            if (other := _imported_already(error.name or "")) is not None:
                hint = f"give your module `{other.__name__}` another name"
                raise NotCallable(
                    f"`{name}` needs `{error.name}`, but `{other.__name__}` is {other.__file__}", hint
                ) from error
            raise NotCallable(f"`{name}` needs the missing module `{error.name}`", f"install `{error.name}`") from error
        hint = f"put `{name.partition('.')[0]}.py` beside the configuration, or install it"
        raise NotCallable(f"no module `{error.name}`", hint) from error
    except (Exception, SystemExit) as error:  # importing a module may raise anything
        raise NotCallable(
            f"`{name}` cannot be imported: {type(error).__name__}: {error}", f"try `python -c 'import {name}'`"
        ) from error


def _imported_already(name: str) -> ModuleType | None:
    """The loaded module with the first part of a dotted name: Outrider's own top-level names are taken in this process."""
    top, dot, _ = name.partition(".")
    return sys.modules.get(top) if dot else None


def _refuse_another(module: ModuleType, name: str, folder: Path) -> None:
    """Refuse a module beside the configuration whose name is taken: it would never be imported."""
    top = name.partition(".")[0]
    beside = [each for each in (folder / f"{top}.py", folder / top) if each.exists()]
    file = module.__file__
    if beside and file is not None and not Path(file).resolve().is_relative_to(folder.resolve()):
        raise NotCallable(f"`{top}` is another module: {file}", f"give `{beside[0].name}` another name")


async def in_thread(call: Callable[[], Any], name: str) -> Any:
    """Call a blocking function in a daemon thread."""
    loop, done = anyio.lowlevel.current_token(), anyio.Event()
    returned: list[Any] = []
    raised: list[BaseException] = []

    def work() -> None:
        try:
            returned.append(call())
        except BaseException as error:  # whatever it is: the caller waits for this end
            raised.append(error)
        with suppress(anyio.RunFinishedError):
            anyio.from_thread.run_sync(done.set, token=loop)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name=name, daemon=True).start()
    await done.wait()
    if raised:
        raise raised[0]
    return returned[0]
