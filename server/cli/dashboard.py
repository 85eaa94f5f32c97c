"""`outrider dashboard`: the pages on a local database, for the person at this machine."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.demo import PACE
from server.cli.terminal.options import ConfigOption, DatabaseOption, chosen_database, chosen_settings
from server.cli.terminal.output import note

if TYPE_CHECKING:
    from server.blueprint import Blueprint
    from server.serve import Serving, Transport
    from server.service import Service

LOCAL = "127.0.0.1"


def dashboard(
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="Port on this machine; 0 takes a free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address, and open no browser.")] = False,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Open the dashboard in a browser: watch, steer and start executions of this database.

    The address holds a token that opens one page, once. Executions of other processes are shown and can be steered; only
    what is started or resumed here runs here. Ctrl-C stops it; `outrider resume` resumes what was running.
    """
    import anyio

    from server.serve import Serving

    settings, database = chosen_settings(config), chosen_database(db, config)

    def blueprint() -> Blueprint:
        from server.blueprint import Blueprint

        return Blueprint(settings, database, pace=PACE)

    serving = Serving(blueprint, adopts=False, tells=note)
    anyio.run(serving.run, _pages(port, serving, opens=not no_open))
    return 0


def _pages(port: int, serving: Serving, *, opens: bool) -> Transport:
    import anyio
    import anyio.to_thread

    from registry import HttpSpec
    from server.caller.sessions import Sessions
    from server.http_face.app import ENDPOINT, Building, over_http
    from server.http_face.listen import Address
    from server.identity import LOCAL as PERSON
    from server.site import DashboardSite

    sessions = Sessions()
    listening: list[str] = []
    ready = anyio.Event()

    def tell(url: str) -> None:
        listening.append(url.removesuffix(ENDPOINT))
        ready.set()

    building = Building(HttpSpec(), {}, serving, DashboardSite(sessions, asks_everyone=True))
    carry_http = over_http(building, Address(LOCAL, port), tell)

    async def show(service: Service) -> None:
        await ready.wait()
        await service.dispatcher()  # a database that cannot be opened has no page to show
        address = f"{listening[0]}/#token={sessions.ticket(PERSON)}"
        note(f"the dashboard is at {address}\nthe token in it opens one page; Ctrl-C stops the dashboard")
        if opens and _has_display():
            await anyio.to_thread.run_sync(_open, address, abandon_on_cancel=True)

    async def carry(service: Service) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(show, service, name="show the page")
            await carry_http(service)
            group.cancel_scope.cancel("the pages are closed")

    return carry


def _has_display() -> bool:
    """Whether a browser would have a window: one for terminals would take this terminal."""
    return sys.platform in ("darwin", "win32") or bool({"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"} & os.environ.keys())


def _open(address: str) -> None:
    import webbrowser

    if not webbrowser.open(address):
        note("no browser could be opened; open the address yourself")
