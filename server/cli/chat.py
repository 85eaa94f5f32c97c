"""`outrider chat`: talk to the assistant as a user, one message or line by line."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.terminal.exits import CommandError
from server.cli.terminal.options import ConfigOption, DatabaseOption, JsonOption, chosen_database, chosen_settings

if TYPE_CHECKING:
    from registry import Settings, UserSpec


def chat(
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="One message; `-` reads standard input. Without it: line by line."),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="USER", help="The user: an id or an alias; else the only user configured."),
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Talk to your assistant: progress on stderr, the answer on stdout.

    The assistant knows the earlier conversation, of this process or another. Ctrl-C stops an answer, Ctrl-D ends the
    conversation.

    For example: outrider chat --user alex "what is on tomorrow?"
    """
    import anyio

    from server.app import Blueprint
    from server.cli.checks import preflight
    from server.cli.live.chat_session import ChatSession

    database, settings = chosen_database(db, config), chosen_settings(config)
    talk = ChatSession(_speaker(settings, user), as_json=as_json)
    said = sys.stdin.read() if text == "-" else text
    preflight.check(settings, _assistant(settings), os.environ, task=said or "")
    blueprint = Blueprint(settings, database)
    return anyio.run(talk.line_by_line, blueprint) if said is None else anyio.run(talk.say, blueprint, said)


def _assistant(settings: Settings) -> str:
    if settings.chat is None:
        raise CommandError("no agent answers users", "name one in the configuration: `chat: {agent: NAME}`")
    return settings.chat.agent


def _speaker(settings: Settings, name: str | None) -> UserSpec:
    if name is not None:
        return settings.user(name)
    if len(settings.users) == 1:
        return next(iter(settings.users.values()))
    if not settings.users:
        raise CommandError("the configuration names no users", "add `users: {alex: {timezone: Europe/Berlin}}`")
    raise CommandError("no user was given", f"add `--user`: {', '.join(settings.users)}")
