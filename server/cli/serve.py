"""`outrider serve`: offer agents to MCP clients, over standard input and output or over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.options import ConfigOption, DatabaseOption, chosen_database, chosen_settings

if TYPE_CHECKING:
    from server.app import Blueprint


def serve(
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Serve over HTTP at /mcp instead; port 0 takes a free one."),
    ] = None,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Serve MCP: clients dispatch agents, wait for them and collect their results.

    Without `--http` the client starts this command and speaks over its standard input and output.
    """
    import anyio

    from server.serving import Serving

    def blueprint() -> Blueprint:
        from server.app import Blueprint

        return Blueprint(chosen_settings(config), chosen_database(db))

    serving = Serving(blueprint)
    if http is None:
        from server.mcp_face.stdio import over_stdio

        anyio.run(serving.run, over_stdio)
    return 0
