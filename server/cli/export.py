"""`outrider export`: a whole tree in one file, as JSON or as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.cli.terminal.exits import CommandError
from server.cli.terminal.options import ConfigOption, DatabaseOption, chosen_database

STANDARD_OUTPUT = "-"


def export(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="An execution: its id, short or whole.")],
    as_json: Annotated[
        str | None, typer.Option("--json", metavar="FILE|-", help="A bundle for `replay`; `-` is stdout.")
    ] = None,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE|-", help="A page that needs no server; `-` is stdout.")
    ] = None,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Write everything about a tree into one file: a JSON bundle, a page to open and send, or both.

    A file that exists is replaced. Only you may read it: it holds prompts, results and arguments. Secrets of the
    configuration are not in it.
    """
    import anyio

    if as_json is None and html is None:
        as_json = STANDARD_OUTPUT
    if as_json == html:
        where = "standard output" if html == STANDARD_OUTPUT else f"`{html}`"
        raise CommandError(f"`--json` and `--html` both write to {where}", "name another file for one of them")
    anyio.run(_export, chosen_database(db, config), identifier, as_json, html)
    return 0


async def _export(database: Path, identifier: str, as_json: str | None, html: str | None) -> None:
    from server.cli.store import reading
    from server.export import bundle_of, json_text, shown_part

    async with reading(database) as reads:
        execution = await reads.resolve(identifier)
        row = await reads.execution(execution)
        assert row is not None
        if as_json is not None and row["parent_execution_id"] is not None:
            hint = f"export its tree: `outrider export {row['root_execution_id']} --json {as_json}`"
            raise CommandError(f"execution `{execution}` is inside a tree, and a replay needs the whole tree", hint)
        content = await bundle_of(reads, database, execution, recorded=as_json is not None)
    if as_json is not None:
        _write(as_json, json_text(content))
    if html is not None:
        from server.web.page_file import page_text

        _write(html, page_text(shown_part(content)))


def _write(where: str, pieces: object) -> None:
    from server.cli.terminal.output import note
    from server.export import write_out, write_private

    if where == STANDARD_OUTPUT:
        write_out(pieces)  # type: ignore[arg-type]
        return
    try:
        write_private(Path(where), pieces)  # type: ignore[arg-type]
    except OSError as error:
        hint = "name a file in a folder that you may write to"
        raise CommandError(f"cannot write `{where}`: {error.strerror or error}", hint) from error
    note(f"wrote `{where}`, {Path(where).stat().st_size:,} bytes")
