"""Another process on the same database: what `tests/db/test_processes.py` starts.

Owns: a program `python -m tests.db.neighbour PATH TASK …` that does what one line of standard input after another tells it.
Must not know: what a test expects. Invariant: it answers each line with one line, only after the commit.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from db.errors import StoreError
from db.rows import transcript
from db.rows.executions import Place
from db.status import ExecutionStatus
from tests.db.store import Store, beginning, birth, draft, ending, message, model_call, open_store, place_of


async def write(store: Store, count: int) -> list[str]:
    """Create executions from twenty tasks at once, each starting and ending its own; answer their ids."""
    made: list[str] = []

    async def live() -> None:
        for _ in range(count):
            new = draft(owner=store.database.owner)
            for step in (birth(new), beginning(place_of(new)), ending(place_of(new))):
                assert (await store.apply(step)).held
            made.append(new.id)

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(live)
    return made


async def end(store: Store, identifiers: list[str], status: str) -> list[bool]:
    """End executions; answer which of the ends held."""
    ends = [ending(Place(each, None, each), ExecutionStatus(status)) for each in identifiers]
    return [ticket.held for ticket in await store.together(*ends)]


async def spend(store: Store, identifier: str) -> None:
    """Model calls without end, each told on standard output once it is committed."""
    place, turn = Place(identifier, None, identifier), 0
    while True:
        turn += 1
        await store.apply(transcript.reply(1, model_call(place, turn, cost_usd=0.125), message(place, turn), [], []))
        say(turn)


async def limited(store: Store, size: int) -> list[str]:
    """Let files grow to `size` bytes only, write until it fails, lift the limit, write again; answer what was said."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    said: list[str] = []
    while not said:
        try:
            await store.database.writer.apply(birth(draft(task="x" * 20_000)), patient=False)
        except StoreError as error:
            said = [type(error).__name__, str(error), error.hint]
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    held = (await store.apply(birth(draft(task="after")))).held
    return [*said, "written again" if held else "refused"]


def say(answer: Any) -> None:
    """One line of JSON."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


TASKS: dict[str, Callable[..., Awaitable[Any]]] = {"write": write, "end": end, "spend": spend, "limited": limited}


async def main(path: Path) -> None:
    """Open the database, tell its owner, do what is asked until standard input ends."""
    async with open_store(path) as store:
        say(store.database.owner)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            task, *arguments = json.loads(line)
            say(await TASKS[task](store, *arguments))


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
