"""`outrider diff`: two trees side by side, execution by execution."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.terminal.exits import Exit
from server.cli.terminal.options import ConfigOption, DatabaseOption, JsonOption, chosen_database

if TYPE_CHECKING:
    from server.views.figures import ComparedPair, TreeComparison

MARKS = {"same": "=", "changed": "~", "only_a": "-", "only_b": "+"}


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="An execution: its id, short or whole.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    as_json: JsonOption = False,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Compare two trees: which executions are in both, and what changed. Exit 0 if equal, 1 if not.

    Executions are paired by their place in the tree. `=` is the same, `~` changed, `-` only in A, `+` only in B. Cost and
    time are told, but do not make trees different.
    """
    import anyio

    from server.cli.terminal.output import put, put_json

    found = anyio.run(_compared, chosen_database(db, config), a, b)
    put_json(found.model_dump(mode="json")) if as_json else put(_table(found))
    return Exit.DONE if found.equal else Exit.FAILED


async def _compared(database: Path, a: str, b: str) -> TreeComparison:
    from server.cli.store import reading
    from server.views.views import Views

    async with reading(database) as reads:
        return await Views(reads, database).compare(await reads.resolve(a), await reads.resolve(b))


def _table(found: TreeComparison) -> str:
    from server.cli.terminal.output import one_line

    lines = [f"{'equal' if found.equal else 'different'}: {found.a.short_id} and {found.b.short_id}"]
    for pair in found.pairs:
        changes = f"  {', '.join(pair.differs)}" if pair.differs else ""
        lines.append(f"{MARKS[pair.change]} {'  ' * pair.level}{pair.agent}  {_sides(pair)}{changes}")
        if "answer" in pair.differs and pair.a is not None and pair.b is not None:
            indent = "  " * (pair.level + 2)
            lines += [f"{indent}- {one_line(pair.a.answer, 100)}", f"{indent}+ {one_line(pair.b.answer, 100)}"]
    a, b = found.a, found.b
    lines.append(
        f"executions {a.executions} / {b.executions} · tokens {a.tokens:,} / {b.tokens:,} · "
        f"cost ${a.cost_usd:.4f} / ${b.cost_usd:.4f} · time {a.seconds:.1f}s / {b.seconds:.1f}s"
    )
    return "\n".join(lines)


def _sides(pair: ComparedPair) -> str:
    sides = [f"{each.short_id} {each.outcome or each.status}" for each in (pair.a, pair.b) if each is not None]
    return " / ".join(sides)
