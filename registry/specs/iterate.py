"""The `iterate` block: settings of an agent that works towards an objective task by task.

Owns: the shape of an agent's `iterate` block and IterateSpec. Must not know: how tasks are found or carried out.
Invariant: a spec is complete; the defaults here are the built-in ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from registry.text.entry import Count, Entry, Line
from registry.text.names import STAND_IN, Directories, built_in, fold
from registry.text.sources import TemplateEntry, TemplateSource
from registry.text.templates import Template

TASK_PLANNER, TASK_WORKER, COMPLETER = "TaskPlanner", "TaskWorker", "Completer"
"""The built-in agents that decide on the next task, carry it out, and give the final answer."""
COMPONENTS = (TASK_PLANNER, TASK_WORKER, COMPLETER)

MAX_ITERATIONS = 20


def is_component(name: str, description: str) -> bool:
    """Say whether an entry changes a built-in component: the user's own agent of that name has a description."""
    return fold(name.removeprefix(STAND_IN)) in map(fold, COMPONENTS) and not description


class ComponentEntry(Entry):
    """One of the agent's three components, in its long form."""

    agent: Line | None = Field(default=None, description="its agent; absent: the built-in one")
    instructions: TemplateSource | None = Field(
        default=None, description="a template instead of the built-in instructions: `objective`, `skills`, `task` …"
    )
    model: Line | None = Field(default=None, description="another model than that of the agent it works for")
    input_schema: dict[str, Any] | None = Field(
        default=None, description="JSON schema of the input it is shown, besides the fields of the agent's own"
    )
    output_schema: dict[str, Any] | None = Field(default=None, description="JSON schema of its answer")


def _component(value: object) -> object:
    """Return the long form of a component that is written as the name of an agent."""
    return {"agent": value} if isinstance(value, str) else value


Component = Annotated[ComponentEntry, BeforeValidator(_component, json_schema_input_type=str | ComponentEntry)]


class StateEntry(Entry):
    """`state:` of an iteration as written: how long it runs, and how much of it is shown."""

    max_iterations: Count = Field(default=MAX_ITERATIONS, description="how often the planner is called")
    keep_recent: Count | None = Field(default=None, description="how many of the newest tasks are shown; absent: all")
    max_tokens: Count | None = Field(default=None, description="tokens of the shown tasks; absent: no limit")


class IterateEntry(Entry):
    """`iterate:` of an agent as written."""

    objective: TemplateSource | None = Field(
        default=None, description="a template over its input: the goal; absent: its task"
    )
    planner: Component | None = Field(
        default=None, description="the agent that decides on the next task; absent: the built-in one"
    )
    worker: Component | None = Field(default=None, description="the agent that carries out tasks; absent: the built-in one")
    completer: Component | None = Field(
        default=None, description="the agent that gives the final answer; absent: the built-in one"
    )
    state: StateEntry = Field(default=StateEntry(), description="how long it iterates, and how many tasks are shown")


@dataclass(frozen=True, slots=True)
class ComponentSpec:
    """A component; None means the value of the built-in one, or of the agent it works for."""

    agent: str
    instructions: Template | None = None
    model: str | None = None
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class IterateSpec:
    """How an agent iterates."""

    objective: Template | None = None
    planner: ComponentSpec = ComponentSpec(TASK_PLANNER)
    worker: ComponentSpec = ComponentSpec(TASK_WORKER)
    completer: ComponentSpec = ComponentSpec(COMPLETER)
    max_iterations: int = MAX_ITERATIONS
    keep_recent: int | None = None
    max_tokens: int | None = None

    @property
    def components(self) -> tuple[ComponentSpec, ComponentSpec, ComponentSpec]:
        """Return all three."""
        return self.planner, self.worker, self.completer


def iterate_spec(entry: IterateEntry | None, names: Directories) -> IterateSpec:
    """Return the spec of a checked entry; without one, all defaults."""
    written = entry or IterateEntry()
    return IterateSpec(
        objective=_template(written.objective),
        planner=_component_spec(written.planner, TASK_PLANNER, names),
        worker=_component_spec(written.worker, TASK_WORKER, names),
        completer=_component_spec(written.completer, COMPLETER, names),
        max_iterations=written.state.max_iterations,
        keep_recent=written.state.keep_recent,
        max_tokens=written.state.max_tokens,
    )


def _component_spec(entry: ComponentEntry | None, ours: str, names: Directories) -> ComponentSpec:
    if entry is None:
        return ComponentSpec(built_in(ours, names.agents))
    return ComponentSpec(
        agent=built_in(ours, names.agents) if entry.agent is None else names.agents.canonical(entry.agent),
        instructions=_template(entry.instructions),
        model=None if entry.model is None else names.models.canonical(entry.model),
        input_schema=entry.input_schema,
        output_schema=entry.output_schema,
    )


def _template(entry: TemplateEntry | None) -> Template | None:
    return None if entry is None else entry.template
