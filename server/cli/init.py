"""`outrider init`: a commented configuration for a person's own servers, from flags or from answers at a terminal.

Owns the questions and the text of the file. Must not know: how a server is started. Invariant: what is written loads, and a
file that exists is never touched.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from server.cli.terminal.exits import CommandError, Exit
from server.cli.terminal.options import JsonOption, explicit_config

MODEL, AGENT = "claude-sonnet-5-5", "Assistant"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*")

HEAD = """\
# Agents of this project and the servers whose tools they use. An unknown key is an error.
# `outrider config check` checks this file, `outrider doctor` starts the servers and lists their tools.
# `${NAME}` is an environment variable, `${NAME:-default}` one that may be absent.

defaults:
  model: main                    # for agents that name none
  limits:                        # an agent may override each of them
    max_iterations: 20           # model turns; then the agent concludes with what it has
    timeout: 600s                # time for an agent that is started from outside
    agent_timeout: 300s          # time for each agent that another one dispatches
    # max_cost_usd: 0.50         # money for an agent and everything it dispatches

models:
  main:
    model: %(model)s   # needs ANTHROPIC_API_KEY; another variable: `api_key: ${MY_KEY}`
    %(base_url)s   # a server of your own that speaks the Messages API
    %(price)s   # US dollars per million tokens: costs and budgets count by it
"""

PRICE = "price: {input: 2, output: 10, cache_read: 0.20, cache_write: 2.50}"
"""Of the model that is the default here."""

NO_SERVER = """
# mcp_servers:
#   notes:
#     command: [python3, notes.py]         # a program that speaks MCP over stdio
#     cwd: .
#   search:
#     url: https://example.com/mcp         # or a server that speaks streamable HTTP
"""

SETTINGS = """\
    # tools: {allow: [search, "get_*"]}    # absent: every tool the server has
    # effects: {"get_*": read_only}        # may run again after a crash; without this a call is made at most once
    # gates: {"delete_*": ask}             # a person must allow the call
    timeout: 30s                           # of one call
"""

AGENTS = """
agents:
  %(name)s:
    description: %(description)s   # other agents read it before they dispatch this one
    mcp_servers: [%(servers)s]
    custom_instructions: |
      Use your tools before you answer. Say which tool call each finding comes from.
      Say what you could not find out.
  # Lead:                                    # an agent with `sub_agents` dispatches them
  #   description: Splits a task and hands the parts on
  #   sub_agents: [%(name)s]
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A server as a person names it."""

    name: str
    reached: str
    """A command line or an address."""
    variables: tuple[str, ...] = ()

    @property
    def is_address(self) -> bool:
        """Whether it is reached over HTTP."""
        return self.reached.startswith(("http://", "https://"))


@dataclass(frozen=True, slots=True)
class Project:
    """What the file is made from."""

    servers: Sequence[Server] = ()
    agent: str = AGENT
    model: str = MODEL
    base_url: str = ""


def init(  # noqa: PLR0913 - the options of a command are its parameters
    server: Annotated[
        list[str] | None,
        typer.Option(
            "--server", metavar="NAME=COMMAND", help="A server of yours: a command line or an address; several times."
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="SERVER.NAME", help="A variable that a server needs; several times."),
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="NAME", help=f"The first agent; else {AGENT}.")] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="ID", help=f"The model; else {MODEL}.")] = None,
    base_url: Annotated[
        str, typer.Option("--base-url", metavar="URL", help="Another server that speaks the Messages API.")
    ] = "",
    only_print: Annotated[bool, typer.Option("--print", help="Print the file, write nothing.")] = False,
    as_json: JsonOption = False,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="The file to write; else ./config.yaml.")
    ] = None,
) -> int:
    """Write a commented configuration for your own servers; asks at a terminal, or takes flags.

    For example: outrider init --server "notes=python3 notes.py"
    """
    from server.cli.terminal.output import note, put, put_json

    file = (explicit_config(config) or Path("config.yaml")).expanduser().absolute()
    if file.exists() and not only_print:
        raise CommandError(f"`{file}` exists", "edit it, or name another file with `--config`")
    if not (server or agent or model or base_url or as_json or only_print) and sys.stdin.isatty() and sys.stderr.isatty():
        project = _asked()
    else:
        project = Project(_servers(server or [], env or []), agent or AGENT, model or MODEL, base_url)
    text = text_of(project)
    _check(text, file, project)
    if only_print:
        put(text)
        return Exit.DONE
    _write(file, text)
    if as_json:
        put_json({"config": str(file), "servers": [each.name for each in project.servers], "agent": project.agent})
        return Exit.DONE
    note(f"wrote {file}")
    for step in _next_steps(project):
        note(step)
    return Exit.DONE


def text_of(project: Project) -> str:
    """The file."""
    address = f"base_url: {_scalar(project.base_url)}" if project.base_url else "# base_url: http://localhost:11434"
    price = PRICE if project.model == MODEL and not project.base_url else f"# {PRICE}"
    parts = [HEAD % {"model": _scalar(project.model), "base_url": address, "price": price}]
    parts.append("\nmcp_servers:\n" + "".join(map(_entry, project.servers)) if project.servers else NO_SERVER)
    names = ", ".join(each.name for each in project.servers)
    about = f"Works with {names}" if names else "Answers questions"
    parts.append(AGENTS % {"name": project.agent, "description": about, "servers": names})
    return "".join(parts)


def _entry(server: Server) -> str:
    lines = [f"  {server.name}:\n"]
    if server.is_address:
        lines.append(f"    url: {_scalar(server.reached)}\n")
        if server.variables:
            lines.append(f'    headers: {{Authorization: "Bearer ${{{server.variables[0]}}}"}}\n')
    else:
        words = ", ".join(map(_scalar, _split(server)))
        lines.append(f"    command: [{words}]\n    cwd: .                                 # the folder of this file\n")
        if server.variables:
            values = ", ".join(f'{name}: "${{{name}}}"' for name in server.variables)
            lines.append(f"    env: {{{values}}}   # the server sees these and no other keys of yours\n")
    return "".join([*lines, SETTINGS])


def _scalar(text: str) -> str:
    """A text as YAML: plain where that is the same, else quoted. JSON's quotes are YAML's."""
    plain = text.replace("/", "").replace("-", "").replace(".", "").replace("_", "").replace(":", "")
    return (
        text if plain.isalnum() and text[0].isalpha() and not text.endswith(":") else json.dumps(text, ensure_ascii=False)
    )


def _split(server: Server) -> list[str]:
    try:
        return shlex.split(server.reached)
    except ValueError as error:
        raise CommandError(f"the command of `{server.name}` cannot be read: {error}", "close its quotes") from None


# -- from flags --------------------------------------------------------------------------------------------------------


def _servers(given: Sequence[str], variables: Sequence[str]) -> list[Server]:
    needed = [name.partition(".")[::2] for name in variables]
    servers = []
    for each in given:
        name, _, reached = each.partition("=")
        if not name.strip() or not reached.strip():
            raise CommandError(f"`--server {each}` names no command", 'write `--server "NAME=COMMAND"` or `NAME=URL`')
        own = tuple(variable for owner, variable in needed if owner == name.strip())
        servers.append(Server(name.strip(), reached.strip(), own))
    known = {each.name for each in servers}
    for owner, variable in needed:
        if owner not in known or not variable:
            raise CommandError(f"`--env {owner}.{variable}` belongs to no `--server`", "write `--env SERVER.NAME`")
    return servers


# -- at a terminal -----------------------------------------------------------------------------------------------------


def _asked() -> Project:
    from server.cli.terminal.output import say

    say("A server gives your agent tools. An empty name ends the list.")
    servers = list(_asked_servers())
    return Project(servers, _answer("agent", AGENT), _answer("model", MODEL))


def _asked_servers() -> Iterator[Server]:
    while name := _answer("server name"):
        reached = _answer(f"command or URL of {name}")
        variables = _answer(f"variables {name} needs, such as API_TOKEN (names; empty: none)")
        if reached:
            yield Server(name, reached, tuple(variables.replace(",", " ").split()))


def _answer(question: str, otherwise: str = "") -> str:
    from server.cli.terminal.output import ask

    ask(f"{question} [{otherwise}]: " if otherwise else f"{question}: ")
    line = sys.stdin.readline()
    if not line:
        raise CommandError("the input ended before the last question", "nothing was written", Exit.CANCELLED)
    return line.strip() or otherwise


# -- the file ----------------------------------------------------------------------------------------------------------


def _check(text: str, file: Path, project: Project) -> None:
    """Refuse what would not load; variables that are not set yet are no reason."""
    import os
    import tempfile

    from registry import ConfigError, load

    for name in (project.agent, *(each.name for each in project.servers)):
        if not NAME.fullmatch(name):
            raise CommandError(f"`{name}` cannot be a name", "use letters and digits, with single `-` or `_` between them")
    needed = {name: "set later" for server in project.servers for name in server.variables}
    with tempfile.TemporaryDirectory() as folder:
        trial = Path(folder) / file.name
        trial.write_text(text, encoding="utf-8")
        try:
            load(trial, {**needed, **os.environ})
        except ConfigError as error:
            problem = error.problems[0]
            hint = problem.hint or "choose another name or value"
            raise CommandError(f"{problem.path}: {problem.message}", hint) from None


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:  # another process may have been quicker
            opened.write(text)
    except OSError as error:
        raise CommandError(f"cannot write `{file}`: {error.strerror}", "name another file with `--config`") from None


def _next_steps(project: Project) -> Iterator[str]:
    import os

    variables = [name for server in project.servers for name in server.variables]
    missing = [name for name in ("ANTHROPIC_API_KEY", *variables) if name not in os.environ]
    if missing:
        yield f"set {', '.join(f'`{name}`' for name in missing)} in your environment"
    yield "`outrider doctor` starts the servers and lists their tools"
    yield f'`outrider run {project.agent} "…"` asks the agent'
