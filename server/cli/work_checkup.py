"""What `outrider doctor` says about work that stands still: executions whose process is gone, calls that wait for a person.

Owns: these findings. Must not know: how they are printed. Invariant: as for every check, nothing is changed by looking.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from server.cli.checkup import Finding, failed
from server.cli.wording import count

if TYPE_CHECKING:
    from db.reads import Reads

INTERRUPTED = "`outrider serve` goes on with all of them, `outrider resume ID` with one tree; `outrider ps` lists them"
WAITING = "`outrider approve` lists them, `outrider approve ID` shows one and asks"


def work(database: Path) -> Iterator[Finding]:
    """Whether anything in a sound database waits for somebody to do something."""
    import anyio

    try:
        interrupted, open_, waiting = anyio.run(_look, database)
    except Exception as error:
        yield failed("executions", error)
        return
    if interrupted:
        yield Finding("executions", "attention", f"{interrupted:,} of {open_:,} open are interrupted", INTERRUPTED)
    else:
        yield Finding("executions", "ok", f"{open_:,} open, none interrupted")
    if waiting:
        yield Finding("approvals", "attention", f"{count(waiting, 'call')} waiting for a person", WAITING)
    else:
        yield Finding("approvals", "ok", "no call waits for a person")


async def _look(database: Path) -> tuple[int, int, int]:
    from server.cli.store import reading

    async with reading(database) as reads:
        interrupted, open_ = await _interrupted(reads, database)
        return interrupted, open_, len(await reads.questions.open())


async def _interrupted(reads: Reads, database: Path) -> tuple[int, int]:
    """How many open executions have lost their process, and how many are open."""
    from db.owners import is_alive

    owned = await reads.open_owners()
    gone = [number for owner, number in owned.items() if not is_alive(database, owner)]
    return sum(gone), sum(owned.values())
