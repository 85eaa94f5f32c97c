"""Upstreams: the MCP servers whose tools agents use.

Owns: the shape of an `mcp_servers` entry and UpstreamSpec. Must not know: how a server is started or called.
Invariant: a server has exactly one of a command and an address.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from registry.specs.models import web_address
from registry.specs.tool_filter import ToolFilter, ToolFilterEntry, tool_filter
from registry.text.durations import Seconds
from registry.text.entry import Count, Entry, Flag, Line, Text

Effect = Literal["read_only", "idempotent", "at_most_once", "ask"]
Gate = Literal["ask", "none"]
Isolation = Literal["shared", "per_execution"]

DEFAULT_START_TIMEOUT = 10.0
DEFAULT_MAX_RESULT_BYTES = 50_000

_HEADER_VALUE = re.compile(r"[^\x00-\x20\x7f](?:[^\x00-\x08\x0a-\x1f\x7f]*[^\x00-\x20\x7f])?")

_ONLY_WITH = {"env": "command", "cwd": "command", "headers": "url"}


def _words(value: object) -> object:
    if isinstance(value, str):
        raise PydanticCustomError(
            "command",
            "`command` must be a list: the program and its arguments",
            {"hint": "write it as `[program, argument, ...]`; no shell is involved"},
        )
    return value


def _header_value(value: str) -> str:
    # Checked here: an error while sending would carry the value into logs and prompts.
    if value and not _HEADER_VALUE.fullmatch(value):
        raise PydanticCustomError(
            "header",
            "a header must not begin or end with white space or contain control characters",
            {"hint": "check the variable it comes from: it may be empty or end with a line break"},
        )
    return value


class UpstreamEntry(Entry):
    """One entry of `mcp_servers` as written."""

    command: (
        Annotated[
            tuple[Line, ...],
            BeforeValidator(_words, json_schema_input_type=list[str]),
            Field(min_length=1),
        ]
        | None
    ) = Field(default=None, description="program and arguments of a server that speaks over stdio")
    env: dict[str, Text] = Field(default={}, description="environment variables for the command")
    cwd: Line | None = Field(default=None, description="working folder of the command; relative to this file")
    url: Annotated[Line, AfterValidator(web_address)] | None = Field(
        default=None, description="address of a server that speaks streamable HTTP"
    )
    headers: dict[str, Annotated[Text, AfterValidator(_header_value)]] = Field(
        default={}, description="headers sent to the address"
    )
    description: Text = Field(default="", description="the purpose of the server, for people")
    instructions: Text = Field(default="", description="how to use its tools, for the agents that have them")
    tools: ToolFilterEntry | None = Field(default=None, description="which of its tools agents may use")
    effects: dict[str, Effect] = Field(default={}, description="whether a tool may run again; names or `*` patterns")
    gates: dict[str, Gate] = Field(default={}, description="whether a call needs an approval; names or `*` patterns")
    trust_annotations: Flag = Field(
        default=False, description="trust the server's annotations of tools that `effects` and `gates` do not name"
    )
    timeout: Seconds | None = Field(default=None, description="time for one call; absent: the agent's `tool_timeout`")
    start_timeout: Seconds = Field(default=DEFAULT_START_TIMEOUT, description="time to start and answer the first request")
    max_result_bytes: Count = Field(
        default=DEFAULT_MAX_RESULT_BYTES,
        description="the longest result shown to a model as a whole; `read_result` reads the rest",
    )
    isolation: Isolation = Field(default="shared", description="one connection for all executions, or one for each")
    required: Flag | None = Field(
        default=None, description="whether its agents need it to work; absent: only those without another server"
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise PydanticCustomError(
                "one_way",
                "a server needs exactly one of `command` and `url`",
                {
                    "about": ("command", "url"),
                    "hint": "`command: [program, ...]` starts one over stdio, `url: https://...` reaches one over HTTP",
                },
            )
        for name, owner in _ONLY_WITH.items():
            if name in self.model_fields_set and getattr(self, owner) is None:
                raise PydanticCustomError(
                    "no_effect",
                    "`{name}` has no effect without `{owner}`",
                    {"name": name, "owner": owner, "at": name, "about": (owner,), "hint": f"remove `{name}`"},
                )
        return self


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class UpstreamSpec:
    """A server that agents may name. `timeout` None: the limits of the calling agent decide.

    Fields that may carry a secret are not in its representation, so that no log line shows one.
    """

    name: str
    command: tuple[str, ...] | None = field(default=None, repr=False)
    env: Mapping[str, str] = field(default_factory=_nothing, hash=False, repr=False)
    cwd: Path | None = None
    url: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=_nothing, hash=False, repr=False)
    description: str = ""
    instructions: str = ""
    tools: ToolFilter = ToolFilter()
    effects: Mapping[str, Effect] = field(default_factory=_nothing, hash=False)
    gates: Mapping[str, Gate] = field(default_factory=_nothing, hash=False)
    imposed_gates: Mapping[str, Gate] = field(default_factory=_nothing, hash=False)
    """The gates of a later configuration: a call waits for an approval if either of the two requires it."""
    trust_annotations: bool = False
    timeout: float | None = None
    start_timeout: float = DEFAULT_START_TIMEOUT
    max_result_bytes: int = DEFAULT_MAX_RESULT_BYTES
    isolation: Isolation = "shared"
    required: bool | None = None
    """Whether agents need it to work; None if that depends on the agent."""

    def effect_of(self, tool: str) -> Effect | None:
        """Return the configured effect of a tool."""
        return _setting_of(tool, self.effects)

    def gate_of(self, tool: str) -> Gate | None:
        """Return the configured gate of a tool."""
        return "ask" if _setting_of(tool, self.imposed_gates) == "ask" else _setting_of(tool, self.gates)


V = TypeVar("V")


def _setting_of(tool: str, settings: Mapping[str, V]) -> V | None:
    """The setting of a tool: by its exact name, else by the first matching pattern."""
    exact = settings.get(tool)
    if exact is not None:
        return exact
    return next((value for pattern, value in settings.items() if fnmatchcase(tool, pattern)), None)


def upstream_spec(name: str, entry: UpstreamEntry, folder: Path) -> UpstreamSpec:
    """Return the spec of a checked entry; paths are relative to the folder of the configuration file."""
    return UpstreamSpec(
        name=name,
        command=entry.command,
        env=MappingProxyType(dict(entry.env)),
        cwd=None if entry.cwd is None else folder / entry.cwd,
        url=entry.url,
        headers=MappingProxyType(dict(entry.headers)),
        description=entry.description,
        instructions=entry.instructions,
        tools=tool_filter(entry.tools),
        effects=MappingProxyType(dict(entry.effects)),
        gates=MappingProxyType(dict(entry.gates)),
        trust_annotations=entry.trust_annotations,
        timeout=entry.timeout,
        start_timeout=entry.start_timeout,
        max_result_bytes=entry.max_result_bytes,
        isolation=entry.isolation,
        required=entry.required,
    )
