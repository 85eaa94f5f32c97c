"""The pages `--help` prints and the commands behind them: plain text, grouped by what a person wants to do.

Owns: the order and form of a help page, and what an unknown command is answered. Must not know: any one command.
Invariant: nothing but typer is imported for a help page.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer.core import TyperCommand, TyperGroup

from server.cli.terminal.exits import CommandError
from server.cli.terminal.options import NAME, program

OTHER, EXAMPLE = "Commands", f"For example: {NAME}"
LONGEST = 200
"""Characters of a command's first sentence; more than any has."""


class Page(TyperCommand):
    """One command: its arguments by their names alone, then its options."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what it does; an example is written as it can be typed here."""
        with _examples(self, "help"):
            super().format_help_text(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write both lists."""
        _parameters(self, ctx, formatter)


class Commands(TyperGroup):
    """Several commands, under the headings they were registered with."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write an example, as it can be typed here."""
        with _examples(self, "epilog"):
            super().format_epilog(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands before the options: they are what a reader looks for."""
        self.format_commands(ctx, formatter)
        _parameters(self, ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write every command with the first sentence of its help."""
        headings: dict[str, list[tuple[str, str]]] = {}
        widest = max(map(len, self.commands))
        for name, command in self.commands.items():
            if not command.hidden:
                heading = getattr(command, "rich_help_panel", None)
                rows = headings.setdefault(heading if isinstance(heading, str) else OTHER, [])
                rows.append((name.ljust(widest), command.get_short_help_str(limit=LONGEST)))
        for heading, rows in headings.items():
            with formatter.section(heading):
                formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command; an unknown one is answered with the nearest there is."""
        name = args[0]
        if name in self.commands or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches

        near = get_close_matches(name, self.commands, n=1)
        path = ctx.command_path
        hint = f"did you mean `{path} {near[0]}`?" if near else f"`{path} --help` lists the commands"
        raise CommandError(f"no command `{path} {name}`", hint)


@contextmanager
def _examples(command: Any, attribute: str) -> Iterator[None]:
    text = getattr(command, attribute)
    setattr(command, attribute, text and text.replace(EXAMPLE, f"{EXAMPLE.removesuffix(NAME)}{program()}"))
    try:
        yield
    finally:
        setattr(command, attribute, text)


def _parameters(command: Any, ctx: Any, formatter: Any) -> None:
    parameters = command.get_params(ctx)
    arguments = [(each.metavar or each.name, each.help or "") for each in parameters if each.param_type_name == "argument"]
    records = [each.get_help_record(ctx) for each in parameters if each.param_type_name == "option"]
    for heading, rows in (("Arguments", arguments), ("Options", [each for each in records if each is not None])):
        if rows:
            with formatter.section(heading):
                formatter.write_dl(rows)
