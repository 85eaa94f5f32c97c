"""Walk through the code along one dispatch as it runs: the files of ours it enters, in order, and how often it comes back.

    python tools/walk.py [dispatch|get_result|resume] [--root CHECKOUT]

`dispatch`: an orchestrator dispatches an agent, from the reply that asks for it to the prompt that shows the result.
`get_result`: `dispatch_agent`, then `get_result`, over MCP in memory; the life of the agent itself is left out.
`resume`: an interrupted orchestrator whose owner is gone, with a child at work, from its adoption to its end.
The service is real, on a temporary SQLite file; the model is scripted, and no part of the walk.

What is counted is what a reader does who follows the calls and reads each function once, when it is first called:
- A *step* is the first call of a function of ours by a function in another file of ours. Calls inside a file are no steps;
  code between the two that is not ours, such as a task group or the MCP library, is passed through.
- Left out is a call that explains itself where it stands: of a property, a special method (`__init__`) or a function whose
  body is one statement, as long as it leads to no function that counts. So are functions made by dataclasses. Small words
  such as texts, ids and clocks are counted like everything else, once each.
- The walk stands in the file of the caller, then in the file of the called function, for each step in turn. Each task is
  walked whole, in the order in which tasks began; callbacks of the event loop count as one more, the last. Tasks that
  waited before the walk began (timers, watchers) and threads (the writer, which commits) are left out.
- A *return* is a stand in a file that the walk has stood in before and has left: by a call into it, or because a called
  function returned and its caller took a further step.

The last line is `N files, M returns`. No module is named here, so any checkout can be walked, by its own interpreter.
"""

from __future__ import annotations

import argparse
import ast
import dis
import importlib
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import anyio

PACKAGES = ("db", "outrider", "outrider_sre", "registry", "runner", "server")
CONFIG = "agents: {Lead: {sub_agents: [Scout]}, Scout: {description: looks}}"
CALLBACKS = "callbacks"
RESUME = dis.opmap.get("RESUME")
BEGINS = 3
"""The bits of a RESUME instruction that are zero where a function begins, and not where a coroutine goes on."""


@dataclass
class Call:
    """One call of a function of ours."""

    file: str
    function: str
    plain: bool
    """Whether it explains itself where it stands, unless it leads on."""
    caller: Call | None = None
    task: str = ""
    counts: bool = False


@dataclass
class Walk:
    """The calls of one run, and the walk that they make."""

    root: Path
    calls: list[Call] = field(default_factory=list)
    _frames: dict[FrameType, Call | None] = field(default_factory=dict)
    """Every frame seen, kept alive so that none is taken for another; None for those of tasks that waited before."""

    def begin(self) -> None:
        """Trace from here on; what is under way in this task calls, but was not called."""
        stack: list[FrameType] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            stack.append(frame)
            frame = frame.f_back
        task = _task()
        caller: Call | None = None
        for frame in reversed(stack):
            if (file := self._file(frame.f_code.co_filename)) is not None:
                caller = self._frames[frame] = Call(file, frame.f_code.co_qualname, plain=False, caller=caller, task=task)
        sys.settrace(self._called)

    def end(self) -> None:
        """Trace no more."""
        sys.settrace(None)
        self._frames.clear()

    def _file(self, name: str) -> str | None:
        path = name.removeprefix(f"{self.root}/")
        return path if path != name and path.partition("/")[0] in PACKAGES else None

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call. It must not fail: an error here is raised in the code that is traced."""
        code = frame.f_code
        file = self._file(code.co_filename)
        if event != "call" or file is None or frame in self._frames or _is_part(code):
            return
        found, caller = self._caller(frame)
        if not _begins(frame) or (found and caller is None):
            self._frames[frame] = None
            return
        call = Call(file, code.co_qualname, _is_plain(code), caller, caller.task if caller else _task())
        self._frames[frame] = call
        self.calls.append(call)

    def _caller(self, frame: FrameType) -> tuple[bool, Call | None]:
        """Whether a function of ours called this one, by whatever way, and which; None for one that is left out."""
        below = frame.f_back
        while below is not None and below not in self._frames:
            below = below.f_back
        return (below is not None, self._frames[below] if below is not None else None)

    def stands(self, without: str = "") -> Iterator[tuple[str, str, str]]:
        """Task, file and function of each stand, without the tasks of an agent."""
        for call in reversed(self.calls):
            call.counts = call.counts or not call.plain
            if call.counts and call.caller is not None:
                call.caller.counts = True
        tasks = sorted(dict.fromkeys(call.task for call in self.calls), key=lambda task: task == CALLBACKS)
        read: set[tuple[str, str]] = set()
        for task in tasks:
            for call in self.calls:
                if call.task != task or not call.counts or (without and task.startswith(without)):
                    continue
                above = call.caller
                if (above is not None and above.file == call.file) or (call.file, call.function) in read:
                    continue
                read.add((call.file, call.function))
                if above is not None:
                    yield task, above.file, above.function
                yield task, call.file, call.function


def _task() -> str:
    """The name of the task that runs: an execution's begins with its agent."""
    try:
        return anyio.get_current_task().name or ""
    except RuntimeError:
        return CALLBACKS


def _begins(frame: FrameType) -> bool:
    """Whether a call begins a function, and does not go on with a coroutine."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return at < 0 or code[at] != RESUME or not code[at + 1] & BEGINS


def _is_part(code: CodeType) -> bool:
    """Whether it is a comprehension: a part of the function it stands in."""
    return code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


@cache
def _is_plain(code: CodeType) -> bool:
    """Whether it is a special method, a property or a function of one statement."""
    special = code.co_name.startswith("__") and code.co_name.endswith("__")
    return special or code.co_firstlineno not in _wordy(Path(code.co_filename))


@cache
def _wordy(file: Path) -> set[int]:
    """The first lines of the functions of a file that are no properties and have more than one statement."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            statements = sum(isinstance(part, ast.stmt) for each in body for part in ast.walk(each))
            if statements > 1 and not any("property" in ast.unparse(each) for each in node.decorator_list):
                found.add(min([node.lineno, *(each.lineno for each in node.decorator_list)]))
    return found


# -- what is walked ----------------------------------------------------------------------------------------------------


def _support(module: str) -> Any:
    """A module of the checkout's tests: they start a service the same way in every layout."""
    return importlib.import_module(f"tests.support.{module}")


@dataclass
class Scene:
    """The two agents, and what the model says for them."""

    walk: Walk
    begins: bool = False
    """Whether the walk begins with the first reply of the lead, and ends when it is shown the result."""
    waits: bool = False
    """Whether the scout never answers."""
    model: Any = None

    def scripts(self) -> dict[str, Any]:
        """What is said, by agent."""
        return {"Lead": self.lead, "Scout": self.scout}

    def lead(self, request: Any) -> Any:
        """Dispatch the scout, wait for it, be done."""
        say, dispatch = _support("models").say, _support("reading").dispatch
        if sum(message.role == "assistant" for message in request.messages) == 0:
            if self.begins:
                self.walk.begin()
            return dispatch("Scout", "look")
        if not _support("reading").delivered(request):
            return say("I wait")
        if self.begins:
            self.walk.end()
        return say("done")

    async def scout(self, _: Any) -> Any:
        """Answer once the lead waits, so that every walk is the same."""
        if self.waits:
            await anyio.sleep_forever()
        if self.begins:
            await self.model.started("Lead", 2)
        return _support("models").say("all is clear")


async def dispatch(walk: Walk, folder: Path) -> None:
    """An orchestrator dispatches an agent."""
    scene = Scene(walk, begins=True)
    async with _support("service").bench(folder, CONFIG, scene.scripts()) as service:
        scene.model = service.model
        await service.run("Lead", "look around")


async def get_result(walk: Walk, folder: Path) -> None:
    """An MCP client dispatches an agent and asks for its result."""
    async with (
        _support("face").face(folder, CONFIG, Scene(walk).scripts()) as face,
        face.client() as client,
    ):
        walk.begin()
        started = await client.client.call_tool("dispatch_agent", {"name": "Scout", "task": "look"})
        execution = started.structured_content["execution_id"]
        await client.client.call_tool("get_result", {"execution_id": execution})
        walk.end()


async def resume(walk: Walk, folder: Path) -> None:
    """A service goes on with what another left."""
    scene = Scene(walk, waits=True)
    bench = _support("service").bench
    async with bench(folder, CONFIG, scene.scripts()) as service, anyio.create_task_group() as group:
        group.start_soon(partial(service.run, "Lead", "look around"))
        await service.model.started("Scout")
        await service.until(lambda: service.sql("select id from executions where waiting_for = 'children'"))
        group.cancel_scope.cancel()
    async with bench(folder, CONFIG, Scene(walk).scripts()) as service:
        [root] = service.sql("select id from executions where parent_execution_id is null")
        walk.begin()
        await service.dispatcher.adopt()
        await service.ended(root["id"])
        walk.end()


WALKS: dict[str, Callable[[Walk, Path], Awaitable[None]]] = {
    "dispatch": dispatch,
    "get_result": get_result,
    "resume": resume,
}


def told(walk: Walk, without: str) -> Iterator[str]:
    """The walk in lines: task by task, a line for each stand, `↩` before one that is a return."""
    stood: set[str] = set()
    returns: Counter[str] = Counter()
    here, at, line = "", "", ""
    for task, file, function in walk.stands(without):
        name = function.rpartition(".")[2]
        if file == at and task == here:
            line += "" if line.endswith(f" {name}") else f", {name}"
            continue
        if line:
            yield line
        if task != here:
            yield f"[{task.partition(' ')[0]}]"
        if file == at:  # another task goes on where the last one was
            mark = "  "
        else:
            mark = "↩ " if file in stood else "  "
            returns[file] += file in stood
        line = f"{mark}{file}: {name}"
        stood.add(file)
        here, at = task, file
    yield line
    yield "most returns: " + ", ".join(f"{file} {count}" for file, count in returns.most_common(8))
    yield f"{len(stood)} files, {returns.total()} returns"


def main() -> None:
    """Walk, and print the walk."""
    parser = argparse.ArgumentParser(description="Walk through the code along one dispatch as it runs.")
    parser.add_argument("walk", nargs="?", choices=WALKS, default="dispatch")
    parser.add_argument("--root", type=Path, default=Path(__file__).parent.parent, help="the checkout to walk")
    asked = parser.parse_args()
    root = asked.root.resolve()
    sys.path.insert(0, str(root))
    walk = Walk(root)
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(WALKS[asked.walk], walk, Path(folder))
    if not walk.calls:
        sys.exit(f"error: nothing of {root} was called: another checkout is imported\nhint: use its own interpreter")
    without = "Scout" if asked.walk == "get_result" else ""
    sys.stdout.write("".join(f"{line}\n" for line in told(walk, without)))


if __name__ == "__main__":
    main()
