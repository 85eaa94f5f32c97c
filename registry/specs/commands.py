"""Commands: messages that begin with `/`.

Owns: the shape of a route's `commands`, CommandSpec, and the default timeouts. Must not know: how a message is parsed or a
command is run. Invariant: a spec is complete; the defaults here are the built-in ones.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from registry.specs.work_items import Complexity
from registry.text.durations import Seconds
from registry.text.entry import Entry, Flag, Line, Text
from registry.text.names import Directories
from registry.text.sources import Source, TemplateSource
from registry.text.templates import Template

Kind = Literal["item", "items", "text", "choice"]
Artifact = Literal["research", "plan", "implementation", "summary", "documentation"]

TIMEOUTS = {
    "task": 300.0,
    "research": 3600.0,
    "plan": 1800.0,
    "implement": 7200.0,
    "revise": 1800.0,
    "review": 3600.0,
    "errors": 1800.0,
}
"""Default timeouts of commands with these names."""
OTHER_TIMEOUT = 3600.0

ARGUMENTS = "$ARGUMENTS"
"""In a command's text: stands for the text after its name."""

TOLD = ("item", "mode", "delegation", "rule")
"""The keys of an agent's input beside the arguments."""


def _several(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _phase(value: object) -> object:
    return {"agent": value} if isinstance(value, str) else value


Lines = Annotated[
    tuple[Line, ...], BeforeValidator(_several, json_schema_input_type=Line | tuple[Line, ...]), Field(min_length=1)
]
Complexities = Annotated[
    tuple[Complexity, ...],
    BeforeValidator(_several, json_schema_input_type=Complexity | tuple[Complexity, ...]),
    Field(min_length=1),
]


class ArgumentEntry(Entry):
    """One element of a command's `arguments`."""

    name: Line = Field(description="its name, in `usage` and in the input of the agents")
    kind: Kind = Field(
        default="text",
        description="`item`: the number of a work item; `items`: several, `105-107` or `3,5`; `choice`: one of `choices`;"
        " `text`: all the rest",
    )
    required: Flag = Field(default=True, description="whether a call without it is refused")
    choices: tuple[Line, ...] = Field(default=(), description="the values of a `choice`")
    default: Line | None = Field(default=None, description="its value when it is left out")


class WhenEntry(Entry):
    """`when:` of a rule as written; absent conditions always hold."""

    language: Lines | None = Field(default=None, description="languages of the work item")
    plan: Flag | None = Field(default=None, description="whether the work item has a plan")
    complexity: Complexities | None = Field(default=None, description="complexities of the request, as judged")


class PhaseEntry(Entry):
    """One agent of a rule, in its long form."""

    agent: Line = Field(description="the agent")
    mode: Line | None = Field(default=None, description="the mode of work, shown to the agent")
    critical: Flag = Field(default=True, description="`false`: its failure does not fail the command")


Phase = Annotated[PhaseEntry, BeforeValidator(_phase, json_schema_input_type=str | PhaseEntry)]


class RuleEntry(Entry):
    """One element of a command's `agents`: its agents and conditions."""

    agent: Line | None = Field(default=None, description="the agent that carries out the command")
    agents: tuple[Phase, ...] = Field(
        default=(), description="instead of `agent`: several in order; each is shown the results of the earlier ones"
    )
    when: WhenEntry = Field(default=WhenEntry(), description="conditions of this rule; the first matching rule is used")
    mode: Line | None = Field(default=None, description="the mode of work, shown to its agents")

    @model_validator(mode="after")
    def _somebody(self) -> Self:
        if (self.agent is None) is (not self.agents):
            raise PydanticCustomError(
                "one_of_two", "a rule names one `agent`, or several under `agents`", {"hint": "write one of the two"}
            )
        return self


Rule = Annotated[RuleEntry, BeforeValidator(_phase, json_schema_input_type=str | RuleEntry)]


class CommandEntry(Entry):
    """One entry of `commands` as written."""

    description: Text = Field(default="", description="its purpose, for people")
    usage: Line | None = Field(default=None, description="its usage line; absent: made from its arguments")
    arguments: tuple[ArgumentEntry, ...] | None = Field(
        default=None, description=f"its arguments; absent: any text if `prompt` has `{ARGUMENTS}`, else none"
    )
    prompt: Source | None = Field(
        default=None, description=f"the task of its agents, with `{ARGUMENTS}` for the text after its name"
    )
    agents: tuple[Rule, ...] = Field(default=(), description="rules that name its agents; the first matching rule is used")
    answer: TemplateSource | None = Field(
        default=None, description="instead of `agents`: a template over `items` and the arguments, answered at once"
    )
    timeout: Seconds | None = Field(default=None, description="time for one work item; absent: by its name")
    complexity: Complexity | None = Field(default=None, description="absent: judged by its work items")
    artifact: Artifact | None = Field(default=None, description="the kind of the files that its agents write")
    sets: Line | None = Field(default=None, description="the status of its work item after the command completed")


@dataclass(frozen=True, slots=True)
class ArgumentSpec:
    """An argument of a command."""

    name: str
    kind: Kind = "text"
    required: bool = True
    choices: tuple[str, ...] = ()
    default: str | None = None

    @property
    def shown(self) -> str:
        """Return it as in a line of usage."""
        words = "|".join(self.choices) if self.kind == "choice" else self.name.upper()
        return words if self.required else f"[{words}]"


@dataclass(frozen=True, slots=True)
class When:
    """The conditions of a rule; None always holds."""

    language: tuple[str, ...] | None = None
    plan: bool | None = None
    complexity: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class PhaseSpec:
    """An agent that carries out a command."""

    agent: str
    mode: str | None = None
    critical: bool = True


@dataclass(frozen=True, slots=True)
class RuleSpec:
    """The agents that work in order, and the conditions."""

    phases: tuple[PhaseSpec, ...]
    when: When = When()


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command."""

    name: str
    description: str = ""
    usage: str = ""
    arguments: tuple[ArgumentSpec, ...] = ()
    prompt: str | None = None
    rules: tuple[RuleSpec, ...] = ()
    answer: Template | None = None
    timeout: float = OTHER_TIMEOUT
    complexity: Complexity | None = None
    artifact: str | None = None
    sets: str | None = None

    @property
    def agents(self) -> tuple[str, ...]:
        """Return all agents that may carry it out, each once."""
        return tuple(dict.fromkeys(phase.agent for rule in self.rules for phase in rule.phases))

    @property
    def item_argument(self) -> ArgumentSpec | None:
        """Return the argument that names work items, or None."""
        return next((each for each in self.arguments if each.kind in ("item", "items")), None)


def command_spec(name: str, entry: CommandEntry, names: Directories) -> CommandSpec:
    """Return the spec of a checked entry."""
    arguments = tuple(_argument(each) for each in argument_entries(entry))
    written = " ".join([f"/{name}", *(argument.shown for argument in arguments)])
    return CommandSpec(
        name=name,
        description=entry.description.strip(),
        usage=entry.usage or written,
        arguments=arguments,
        prompt=None if entry.prompt is None else entry.prompt.text,
        rules=tuple(_rule(each, names) for each in entry.agents),
        answer=None if entry.answer is None else entry.answer.template,
        timeout=entry.timeout or TIMEOUTS.get(name.casefold(), OTHER_TIMEOUT),
        complexity=entry.complexity,
        artifact=entry.artifact,
        sets=entry.sets,
    )


def argument_entries(entry: CommandEntry) -> tuple[ArgumentEntry, ...]:
    """Return the arguments of a command: as declared, else derived from its text."""
    if entry.arguments is not None:
        return entry.arguments
    anything = entry.prompt is not None and ARGUMENTS in entry.prompt.text
    return (ArgumentEntry(name="arguments", required=False),) if anything else ()


def _argument(entry: ArgumentEntry) -> ArgumentSpec:
    required = entry.required and entry.default is None
    return ArgumentSpec(entry.name, entry.kind, required, entry.choices, entry.default)


def _rule(entry: RuleEntry, names: Directories) -> RuleSpec:
    phases = entry.agents or (PhaseEntry(agent=entry.agent or ""),)
    told = [PhaseSpec(names.agents.canonical(each.agent), each.mode or entry.mode, each.critical) for each in phases]
    when = When(entry.when.language, entry.when.plan, entry.when.complexity)
    return RuleSpec(tuple(told), when)
