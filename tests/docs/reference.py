"""The pages of `docs/reference` that are made from code: the command line and the configuration.

Owns: the look of these pages. Must not know: any one command or setting. Invariant: each page is a pure function of the
code, so a test can tell when it is old. `make docs` writes them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer.main

from registry import Limits, json_schema
from registry.specs.limits import MAX_CONCURRENT_ROOTS
from server.cli.main import app
from tests.docs import api_page, mcp_page
from tests.support.sources import ROOT

FOLDER = ROOT / "docs" / "reference"
MADE = "<!-- Made by `make docs`; do not edit. -->"

EXITS = """\
| exit code | means |
|---|---|
| 0 | done; a partial answer too, with a note on stderr |
| 1 | the execution failed or timed out, or its answer is partial because a required server was lost |
| 2 | the command line, the configuration or the database |
| 3 | refused by a limit |
| 4 | not found |
| 5 | cancelled |
| 130 | interrupted from the keyboard |
| 143 | stopped by `SIGTERM`; `outrider resume` continues the execution |
"""

COMMAND_LINE = f"""\
# The command line

{MADE}

Data goes to stdout, progress and notes to stderr. An error is `error:` and, where something can be done, `hint:`.
With `--json` an error is also one JSON document on stdout: `{{"error": {{"message", "hint", "kind", "exit"}}}}`.
`NO_COLOR` is honoured. Where stderr is no terminal, or `TERM` is `dumb`, progress is printed line by line.
`OUTRIDER_LOG=debug` adds log lines.

{EXITS}"""

CONFIGURATION = f"""\
# The configuration

{MADE}

One YAML file declares what exists: `--config FILE`, else `OUTRIDER_CONFIG`, else `config.yaml` in the current folder or the
nearest folder above it, else the packaged one. A file above the current folder is used only if it belongs
to you or to root. Executions are [kept beside it](../howto/operate.md#where-the-database-is): `.outrider/outrider.db`.

- An unknown key is an error, with file, line, column and a suggestion; `outrider config check` reports all of them.
- `${{NAME}}` is an environment variable, `${{NAME:-default}}` one that may be absent, `$${{` a literal `${{`. Always there:
  `${{OUTRIDER_PYTHON}}` (the interpreter), `${{OUTRIDER_HOME}}` (where Outrider is installed), `${{OUTRIDER_CONFIG_DIR}}`
  (the folder of the file).
- A duration is a number of seconds, or `250ms`, `30s`, `5m`, `2h`.
- Names of agents, chains, models, servers and users compare without case, `-` and `_`.
- Limits resolve built-in → `defaults` → agent → chain, stage, place in the stage → call. `outrider config show` prints each
  value with its source.
"""

TITLES = {
    "DefaultsEntry": "`defaults`",
    "ServiceLimitOverrides": "`limits`",
    "ModelEntry": "`models.NAME`",
    "TimeoutsEntry": "`timeouts`",
    "RetryEntry": "`retry`",
    "PriceEntry": "`price`",
    "TierEntry": "`price.above`",
    "UpstreamEntry": "`mcp_servers.NAME`",
    "ToolFilterEntry": "`tools`",
    "AgentEntry": "`agents.NAME`",
    "ReferenceEntry": "`sub_agents` in the long form",
    "ChainEntry": "`agent_chains.NAME`",
    "StageEntry": "`stages`",
    "StageAgentEntry": "`agents` of a stage in the long form",
    "SynthesisEntry": "`synthesis` in the long form",
    "UserEntry": "`users.NAME`",
    "ChatEntry": "`chat`",
    "ServeEntry": "`serve`",
    "HttpEntry": "`serve.http`",
    "TokenEntry": "`serve.http.tokens.NAME`",
    "OAuthEntry": "`serve.http.oauth`",
    "TemplateEntry": "`template` in the long form",
    "ForeignAgent": "`agents.NAME` as AIGNE writes it",
}
"""Shapes of the schema by their headings; the `limits` of agents and chains are those of `defaults` but for one."""

SAME = {"LimitOverrides": "ServiceLimitOverrides"}


WHOLE_SERVICE = ("max_concurrent_roots", "max_concurrent_model_calls")


def pages() -> dict[Path, str]:
    """Every page with its text."""
    made = {"api.md": api_page.page(), "cli.md": command_line(), "config.md": configuration(), "mcp.md": mcp_page.page()}
    return {FOLDER / name: text for name, text in made.items()}


# -- the command line --------------------------------------------------------------------------------------------------


def command_line() -> str:
    """The page of the commands."""
    program: Any = typer.main.get_command(app)
    return "\n".join(
        [COMMAND_LINE, *(part for path, command in _commands(program, ["outrider"]) for part in _entry(path, command))]
    )


def _commands(command: Any, path: list[str]) -> Iterator[tuple[list[str], Any]]:
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from _commands(each, [*path, name])


def _entry(path: list[str], command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=" ".join(path))
    usage = " ".join([*path, *(piece.replace("{", "").replace("}", "") for piece in command.collect_usage_pieces(context))])
    yield f"## `{' '.join(path)}`\n\n```\n{usage}\n```\n\n{_prose(command.help)}\n"
    rows = [
        (each.metavar or each.name, each.help) if each.param_type_name == "argument" else each.get_help_record(context)
        for each in command.get_params(context)
        if each.name != "help"
    ]
    if rows:
        yield "| | |\n|---|---|\n" + "".join(f"| `{_cell(name)}` | {_cell(about)} |\n" for name, about in rows)


def _prose(text: str | None) -> str:
    paragraphs = (text or "").strip().split("\n\n")
    return "\n\n".join(
        f"For example:\n\n```sh\n{each.removeprefix('For example: ')}\n```" if each.startswith("For example: ") else each
        for each in (" ".join(paragraph.split()) for paragraph in paragraphs)
    )


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|")


# -- the configuration -------------------------------------------------------------------------------------------------


def configuration() -> str:
    """The page of the settings."""
    schema = json_schema()
    shapes: Mapping[str, Any] = schema["$defs"]
    top = "## The file\n\n" + _table(schema)
    order = [*(name for name in TITLES if name in shapes), *(name for name in shapes if name not in {*TITLES, *SAME})]
    return "\n".join([CONFIGURATION, top, *(_shape(name, shapes[name]) for name in order)])


def _title(name: str) -> str:
    """The heading of a shape; one that has none here goes by its own name."""
    return TITLES.get(name) or f"`{re.sub('(?<=[a-z])(?=[A-Z])', '_', name.removesuffix('Entry')).lower()}`"


def _shape(name: str, shape: Mapping[str, Any]) -> str:
    built_in = {}
    if name == "ServiceLimitOverrides":
        built_in = {**dataclasses.asdict(Limits()), "max_concurrent_roots": MAX_CONCURRENT_ROOTS}
    return f"## {_title(name)}\n\n" + _table(shape, built_in)


def _table(shape: Mapping[str, Any], built_in: Mapping[str, Any] | None = None) -> str:
    required = shape.get("required", ())
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for name, node in shape["properties"].items():
        default = (built_in or {}).get(name, node.get("default"))
        said = default not in (None, "", []) and not isinstance(default, dict)  # a mapping has a table of its own
        told = "required" if name in required else f"`{_word(default)}`" if said else ""
        about = node.get("description", "") + ("; in `defaults` only" if name in WHOLE_SERVICE else "")
        lines.append(f"| `{name}` | {_kind(node)} | {told} | {_cell(about)} |")
    return "\n".join(lines) + "\n"


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _kind(node: Mapping[str, Any]) -> str:
    """What may stand there, in words."""
    if "$ref" in node:
        name = str(node["$ref"]).rpartition("/")[2]
        title = _title(SAME.get(name, name))
        return f"[{title.split('`')[1]}](#{_anchor(title)})"
    if any(each.get("pattern", "").startswith("^ *[0-9]") for each in node.get("anyOf", ())):
        return "duration"
    if "anyOf" in node:
        return " or ".join(dict.fromkeys(_kind(each) for each in node["anyOf"] if not _is_variable(each)))
    if "enum" in node or "const" in node:
        return ", ".join(f"`{each}`" for each in node.get("enum", [node.get("const")]) if each)
    if node["type"] == "array":
        return f"list of {_kind(node['items'])}"
    if node["type"] == "object":
        below = node["additionalProperties"]
        return "mapping" if below is True else f"mapping of {_kind(below)}"
    return _KINDS[node["type"]]


_KINDS = {"string": "text", "integer": "number", "number": "number", "boolean": "`true`, `false`"}


def _is_variable(node: Mapping[str, Any]) -> bool:
    return node.get("pattern") == r"\$\{"


def _anchor(title: str) -> str:
    return "".join(each for each in title.lower() if each.isalnum() or each in "_- ").replace(" ", "-")


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, text in pages().items():
        file.write_text(text, encoding="utf-8")
