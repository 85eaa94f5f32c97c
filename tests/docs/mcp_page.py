"""The page of the MCP face and the table of tools in the README, made from the tools themselves.

Owns: the look of both. Must not know: any one tool. Invariant: both are pure functions of the
code, so a test can tell when they are old.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import mcp.types as t

from registry import ChatSpec, load
from server.identity import LOCAL
from server.mcp_face.app_tools import META, SHOWN_BY_VIEW
from server.mcp_face.calls import ERROR, ERROR_TYPES
from server.mcp_face.introduction import APP_TYPE, APPS, TASKS, TREE_VIEW
from server.mcp_face.resources import RESOURCES, TEMPLATES
from server.mcp_face.schemas import ExecutionState
from server.mcp_face.tools import STARTING, TABLE, listed
from tests.support.sources import ROOT

README = ROOT / "README.md"
OPENED, CLOSED = "<!-- tools: made by `make docs` -->", "<!-- /tools -->"

HEAD = """\
# What MCP clients see

<!-- Made by `make docs`; do not edit. -->

`outrider serve` speaks MCP over standard input and output, `outrider serve --http HOST:PORT` over streamable HTTP at
`/mcp`; both serve the revisions 2025-11-25 (and older, with a handshake) and 2026-07-28. The answers are the same
everywhere: text for a model that gets nothing else, and structured content as the output schemas promise.

- A dispatched agent belongs to the service and not to the call, the request or the connection. A client that cancels,
  times out or disconnects ends its own wait and nothing else.
- No call waits longer than 50 seconds. A wait that runs out is a normal answer with the status, the last activity, the
  usage so far, how long this agent usually takes and when to ask again.
- With authentication an execution belongs to the principal that started it. For other callers it does not exist.
- `list_agents` lists the latest executions of the caller's principal, without authentication those of its session.
  `list_executions` lists all that the caller may see.
- Every id argument accepts a short id: the last six characters, or the beginning. It is looked up among the
  caller's own executions; an ambiguous one is refused.
- `usage` and `cost_usd` are the own usage of an execution. `subtree_usage`, `subtree_cost_usd` and the like include
  everything below it, running executions too; they are absent for an execution without children.
- A field without a value is absent, never null. An output schema names the fields that are always there and those that
  clients act on; an answer may have more. Costs are rounded to a millionth of a dollar.
"""

ERRORS = """\
## Errors

A refusal is a result with `isError` and a text `error: …`, then `hint: …`. It has no structured content, because clients
check that against the tool's output schema. Programs find the same in `_meta`, under
`{key}`: `{{"type", "message", "hint"}}`. Arguments are refused by name; their values are not repeated.
The types are {types}.
"""

TASK_WORDS = """\
## Tasks

A client of the newer revision that declares the extension `{extension}` gets {tools} as tasks. The task is the
execution: the same id, durable before it is returned, cancelled with everything below it. It is `working` until the
execution has ended, `completed` with the answer of `get_result` (marked as an error unless the execution
completed), `cancelled`, or `failed` for a fault of Outrider's own.
"""

APP_WORDS = """\
## The view of a tree

A client that declares the extension `{extension}` with the MIME type `{type}`, in `initialize`
or, in the newer revision, with each request, is offered the view `{view}`
([MCP Apps](https://modelcontextprotocol.io/extensions/apps), 2026-01-26). {shown} carries it in `_meta.ui`. The
tools below are for the view alone: other clients neither see them nor can call them. They answer in the shapes of the
HTTP API. Every client may read `{view}`: one HTML document that loads nothing. No tool for a view decides an
approval, because only the host keeps such tools from the model.
"""


def tools() -> list[t.Tool]:
    """The tools a local client sees with the configuration that comes with Outrider, with an agent that answers users."""
    settings = load(ROOT / "config.yaml", {})
    settings = replace(settings, chat=ChatSpec(next(iter(settings.agents))))
    return [t.Tool.model_validate(tool) for tool in listed(settings, LOCAL)]


def tools_for_views() -> list[t.Tool]:
    """The tools that only clients with views are shown besides."""
    shown = listed(load(ROOT / "config.yaml", {}), LOCAL, has_apps=True)
    return [t.Tool.model_validate(tool) for tool in shown if tool.get("_meta") not in (None, SHOWN_BY_VIEW)]


def page() -> str:
    """The whole page."""
    return "\n".join(
        [
            HEAD,
            "## Tools\n",
            *_tools(tools()),
            ERRORS.format(key=ERROR, types=_names(sorted(ERROR_TYPES))),
            *_resources(),
            _tasks(),
            *_apps(),
        ]
    )


def table() -> str:
    """The tools in the README: one line each."""
    rows = [f"| `{tool.name}({_signature(tool)})` | {_first_sentence(tool)} |" for tool in tools()]
    return "\n".join(["| tool | does |", "|---|---|", *rows])


def rewritten(readme: str) -> str:
    """The README with its table of tools as the code makes it now."""
    before, rest = readme.split(OPENED)
    return before + f"{OPENED}\n{table()}\n{CLOSED}" + rest.split(CLOSED)[1]


def _tools(shown: Iterable[t.Tool]) -> Iterator[str]:
    for tool in shown:
        assert tool.annotations is not None
        hints = {
            "read-only": tool.annotations.read_only_hint,
            "destructive": tool.annotations.destructive_hint,
            "idempotent": tool.annotations.idempotent_hint,
            "open world": tool.annotations.open_world_hint is not False,
        }
        said = ", ".join(name for name, is_so in hints.items() if is_so) or "none"
        yield f"### `{tool.name}`\n\n{_description(tool)}\n\nHints: {said}.\n"
        if tool.input_schema["properties"]:
            yield "| argument | | |\n|---|---|---|\n" + "".join(
                _argument(tool, *each) for each in tool.input_schema["properties"].items()
            )
        answer = ", ".join(f"`{name}`" for name in (tool.output_schema or {})["properties"])
        more = ", and what else `get_result` answers" if issubclass(TABLE[tool.name].answer, ExecutionState) else ""
        yield f"Answers {answer}{more}.\n"


def _argument(tool: t.Tool, name: str, schema: Mapping[str, Any]) -> str:
    required = "required" if name in tool.input_schema.get("required", ()) else ""
    if not required and schema.get("default") is not None:
        required = f"default `{schema['default']}`"
    return f"| `{name}` | {schema['description']} | {required} |\n"


def _resources() -> Iterator[str]:
    yield "## Resources and prompts\n\n| address | content |\n|---|---|"
    for resource in RESOURCES:
        yield f"| `{resource.uri}` | {resource.description} |"
    for template in TEMPLATES:
        yield f"| `{template.uri_template}` | {template.description} |"
    yield "\nAll of them are JSON. Ids are completed; subscribers are notified of changes, in both revisions."
    yield "Each chain is a prompt with its input as fields.\n"


def _tasks() -> str:
    return TASK_WORDS.format(extension=TASKS, tools=_names(sorted(STARTING)))


def _apps() -> Iterator[str]:
    shown = _names([name for name, meta in META.items() if meta == SHOWN_BY_VIEW])
    yield APP_WORDS.format(extension=APPS, type=APP_TYPE, view=TREE_VIEW, shown=shown)
    yield from _tools(tools_for_views())


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _description(tool: t.Tool) -> str:
    """Without the agents and chains of one configuration."""
    return (tool.description or "").split("\n\n", 1)[0]


def _first_sentence(tool: t.Tool) -> str:
    return _description(tool).split(". ", 1)[0].rstrip(".")


def _signature(tool: t.Tool) -> str:
    required = tool.input_schema.get("required", ())
    return ", ".join(name if name in required else f"{name}?" for name in tool.input_schema["properties"])


if __name__ == "__main__":
    README.write_text(rewritten(README.read_text(encoding="utf-8")), encoding="utf-8")
