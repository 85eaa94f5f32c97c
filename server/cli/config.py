"""`outrider config`: the configuration itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.cli.help_page import Commands
from server.cli.options import ConfigOption, JsonOption, chosen_config

config_app = typer.Typer(cls=Commands, rich_markup_mode=None, invoke_without_command=True)


@config_app.callback()
def config(context: typer.Context) -> None:
    """Check the configuration."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@config_app.command()
def check(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The file to check.", show_default=False)] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> int:
    """Check a configuration: one line when it is good, every problem with its line when it is not."""
    from dataclasses import asdict

    from registry import ConfigError, load
    from server.cli.exits import Exit
    from server.cli.messages import put, put_json
    from server.cli.wording import count

    path = chosen_config(file or config)
    try:
        settings = load(path)
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
    if as_json:
        put_json({"ok": True, "file": str(path), **{f"{noun}s": number for noun, number in counts.items()}})
    else:
        put(f"ok: {path}: {', '.join(count(number, noun) for noun, number in counts.items())}")
    return Exit.DONE
