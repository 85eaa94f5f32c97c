"""The checks of `outrider doctor` about stalled executions: their process is gone, or a call waits for approval.

Owns these findings. Must not know: how they are printed. Invariant: a check changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from server.cli.checks.checkup import Finding, failed
from server.wording import count

INTERRUPTED = "`outrider serve` resumes all of them, `outrider resume ID` one tree; `outrider ps` lists them"
SHOWN = 3
"""Trees that are named."""
WAITING = "`outrider approve` lists them, `outrider approve ID` shows one and asks"


def work(database: Path) -> Iterator[Finding]:
    """Whether anything in a sound database waits for a person."""
    import anyio

    try:
        found = anyio.run(_look, database)
    except Exception as error:
        yield failed("executions", error)
        return
    if found.interrupted:
        detail = f"{found.interrupted:,} of {found.open:,} open are interrupted"
        yield Finding("executions", "attention", detail, INTERRUPTED)
    else:
        yield Finding("executions", "ok", f"{found.open:,} open, none interrupted")
    for (words, hint), trees in found.waiting.items():
        detail = f"{count(len(trees), 'interrupted tree')} cannot be resumed here: needs {words} ({_some(trees)})"
        yield Finding("interrupted", "attention", detail, hint)
    if found.questions:
        yield Finding("approvals", "attention", f"{count(found.questions, 'call')} waiting for a person", WAITING)
    else:
        yield Finding("approvals", "ok", "no call waits for a person")


def _some(trees: Sequence[str]) -> str:
    more = f" and {len(trees) - SHOWN:,} more" if len(trees) > SHOWN else ""
    return ", ".join(trees[:SHOWN]) + more


@dataclass(frozen=True, slots=True)
class _Work:
    """What stands still."""

    interrupted: int
    """Open executions that have lost their process."""
    open: int
    waiting: Mapping[tuple[str, str], Sequence[str]]
    """Trees that lack something here, by what they need and what to do about it."""
    questions: int


async def _look(database: Path) -> _Work:
    from db.store.owners import is_alive
    from server.cli.store import lacks_by_tree, reading

    async with reading(database) as reads:
        owned, waiting = await reads.open_owners(), dict[tuple[str, str], list[str]]()
        gone = [number for owner, number in owned.items() if not is_alive(database, owner)]
        lacking = await lacks_by_tree(reads, database)
        for tree, lacks in lacking.items():
            for lack in lacks:
                waiting.setdefault((str(lack), lack.hint), []).append(tree)
        for trees in waiting.values():
            short = await reads.shorts(trees[:SHOWN])
            trees[:SHOWN] = [short[tree] for tree in trees[:SHOWN]]
        return _Work(sum(gone), sum(owned.values()), waiting, len(await reads.questions.open()))
