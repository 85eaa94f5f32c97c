"""`outrider config`: check the configuration, show its effective values, and print its schema."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.terminal.help_page import Commands, Page
from server.cli.terminal.options import ConfigOption, JsonOption, chosen_config, chosen_database

if TYPE_CHECKING:
    from registry import Settings

config_app = typer.Typer(cls=Commands, rich_markup_mode=None, invoke_without_command=True)


@config_app.callback()
def config(context: typer.Context) -> None:
    """Check the configuration, show what holds, print its schema."""
    if context.invoked_subcommand is None:
        from server.cli.terminal.output import put

        put(context.get_help())


FileArgument = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="The file; else as without it.", show_default=False)
]


def _check_rehearsals(settings: Settings) -> None:
    """A rehearsal that cannot be played is a problem of the file that names it; raises ConfigError."""
    from registry import ConfigError, ConfigProblem
    from runner.llm.protocol import ModelError
    from runner.llm.rehearsal.script import load_rehearsal

    problems: dict[Path, ConfigProblem] = {}
    for name, spec in settings.models.items():
        if spec.rehearsal is None:
            continue
        try:
            load_rehearsal(spec.rehearsal)
        except ModelError as error:
            where = settings.located.position(("models", name, "rehearsal"))
            line, column = (where.line, where.column) if where is not None else (0, 0)
            found = ConfigProblem(settings.source.name, line, column, f"models.{name}.rehearsal", str(error), error.hint)
            problems.setdefault(spec.rehearsal, found)
    if problems:
        raise ConfigError(list(problems.values()))


@config_app.command(cls=Page)
def check(
    file: FileArgument = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> int:
    """Check a configuration: one line when it is good, every problem with its line when it is not."""
    from dataclasses import asdict

    from registry import ConfigError, check_endpoints, load
    from runner.functions.callables import configured
    from server.cli.terminal.exits import Exit
    from server.cli.terminal.output import note, put, put_json
    from server.wording import count

    path = chosen_config(file or config)
    try:
        settings = load(path)
        _check_rehearsals(settings)
        check_endpoints(settings, os.environ)
        configured(settings)
    except ConfigError as error:
        if not as_json:
            raise
        put_json({"ok": False, "file": str(path), "problems": [asdict(problem) for problem in error.problems]})
        return Exit.USAGE
    counts = {
        "agent": len(settings.agents),
        "chain": len(settings.chains),
        "server": len(settings.upstreams),
        "model": len(settings.models),
    }
    warnings = _about_workspaces(settings, chosen_database(None, file or config))
    if as_json:
        numbers = {f"{noun}s": number for noun, number in counts.items()}
        put_json({"ok": True, "file": str(path), **numbers, "warnings": warnings})
    else:
        for warning in warnings:
            note(warning)
        put(f"ok: {path}: {', '.join(count(number, noun) for noun, number in counts.items())}")
    return Exit.DONE


def _about_workspaces(settings: Settings, database: Path) -> list[str]:
    """Workspaces around the database: their tools leave it out, but whatever else works in that folder does not."""
    place = database.resolve()
    around = {
        spec.name: None
        for agent in settings.agents.values()
        for spec in agent.workspaces
        if place.is_relative_to(spec.path.resolve())
    }
    return [
        f"the workspace `{name}` contains the database `{database}`: agents cannot reach it, but servers and programs that "
        "work in that folder can; `--db` names another place"
        for name in around
    ]


@config_app.command(cls=Page)
def show(file: FileArgument = None, as_json: JsonOption = False, config: ConfigOption = None) -> int:
    """Show the effective configuration: each value with its line, `built-in` or `default`; never a secret."""
    from dataclasses import asdict

    from registry import chain_limits, describe, load, values
    from server.cli.terminal.output import put, put_json

    settings = load(chosen_config(file or config))
    if not as_json:
        put(describe(settings))
        return 0
    places = [place for chain in settings.chains.values() for place in chain_limits(settings, chain)]
    limits = {
        place.place: {each.path: {"value": each.value, "origin": each.origin} for each in place.limits} for place in places
    }
    put_json({"file": str(settings.source), "values": [asdict(each) for each in values(settings)], "chain_limits": limits})
    return 0


@config_app.command(cls=Page)
def schema() -> int:
    """Print the JSON schema of the configuration file, for editors."""
    from registry import json_schema
    from server.cli.terminal.output import put_json

    put_json(json_schema())
    return 0
