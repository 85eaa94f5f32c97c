"""`outrider serve`: offer agents to MCP clients, over standard input and output or over HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.terminal.options import ConfigOption, DatabaseOption, chosen_database, chosen_settings
from server.cli.terminal.output import note

if TYPE_CHECKING:
    from server.blueprint import Blueprint
    from server.serve import Serving, Transport


def serve(
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Serve over HTTP instead: /mcp, the dashboard at / and its API; port 0 takes a free one.",
        ),
    ] = None,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Serve MCP: clients dispatch agents, wait for them and collect their results.

    Without `--http` the client starts this command and speaks over its standard input and output.
    """
    import anyio

    from server.serve import Serving

    def blueprint() -> Blueprint:
        from server.blueprint import Blueprint

        return Blueprint(chosen_settings(config), chosen_database(db, config))

    serving = Serving(blueprint) if http is None else Serving(blueprint, counts=True, tells=note)
    anyio.run(serving.run, _stdio() if http is None else _http(http, config, serving))
    return 0


def _stdio() -> Transport:
    from server.mcp_face.stdio import over_stdio

    return over_stdio


def _http(written: str, config: Path | None, serving: Serving) -> Transport:
    from server.http_face.app import Building, over_http
    from server.http_face.listen import parse_address
    from server.site import DashboardSite

    building = Building(chosen_settings(config).serve.http, os.environ, serving, DashboardSite())
    return over_http(building, parse_address(written), _tell)


def _tell(url: str) -> None:
    note(f"serving MCP at {url}; Ctrl-C stops it")
    note(f"the dashboard is at {url.removesuffix('mcp')}")
