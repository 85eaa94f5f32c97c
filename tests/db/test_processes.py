"""Several processes on one file: nothing lost, nothing twice, events numbered once, a crash that leaves the sums right."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from db.database import open_database
from db.store.owners import Ownership, is_alive, sweep
from db.store.unit import Event
from db.store.writer import changes
from tests.db.store import Store, birth, connected, draft, names_in, open_store, rows_of
from tests.support.requirement import requirement
from tests.support.sources import ROOT


class Neighbour:
    """A process of its own with the same database open."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-m", "tests.db.neighbour", str(path)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *task: Any) -> None:
        """Give it something to do."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """What it says next."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def kill(self) -> None:
        """End it as an operating system does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """Let it finish, if it is still there."""
        self.process.communicate(timeout=20)


@contextmanager
def neighbours(path: Path, count: int) -> Iterator[list[Neighbour]]:
    """Processes with the same database open; what each says first is its owner."""
    started = [Neighbour(path) for _ in range(count)]
    try:
        yield started
    except BaseException:  # a test that failed or was cancelled waits for no process, and says what it failed by
        for each in started:
            each.kill()
            each.process.communicate()
        raise
    for each in started:
        each.close()


def test_four_processes_writing_at_once_lose_nothing_and_number_every_event_once(tmp_path: Path) -> None:
    path = tmp_path / "outrider.db"
    with neighbours(path, 4) as processes:
        owners = {each.answer() for each in processes}
        for each in processes:
            each.ask("write", 12)
        made = [identifier for each in processes for identifier in each.answer()]

    assert len(owners) == 4
    assert len(made) == len(set(made)) == 4 * 20 * 12
    with connected(path) as connection:
        assert connection.execute("pragma integrity_check").fetchone()[0] == "ok"
        rows = connection.execute("select id, status, owner from executions").fetchall()
        numbers = [row[0] for row in connection.execute("select seq from events order by seq")]
    assert {row["id"] for row in rows} == set(made)
    assert {row["status"] for row in rows} == {"completed"}
    assert {row["owner"] for row in rows} == owners
    assert numbers == list(range(1, 3 * len(made) + 1))
    assert names_in(tmp_path / "outrider.db-owners") == set()


@requirement("S2-DB-10")
async def test_of_two_processes_that_end_an_execution_one_wins_and_the_other_is_told(store: Store) -> None:
    places = [await store.running() for _ in range(50)]
    with neighbours(store.path, 2) as processes:
        for each, status in zip(processes, ("completed", "failed"), strict=True):
            await anyio.to_thread.run_sync(each.answer)
            each.ask("end", [place.id for place in places], status)
        held = [await anyio.to_thread.run_sync(each.answer) for each in processes]

    for place, completed, failed in zip(places, *held, strict=True):
        assert [completed, failed].count(True) == 1
        assert store.row(place)["status"] == ("completed" if completed else "failed")


@requirement("S2-LE-5")
def test_a_process_that_is_killed_leaves_what_it_told_and_sums_that_fit(tmp_path: Path) -> None:
    path = tmp_path / "outrider.db"

    async def prepare() -> str:
        async with open_store(path) as store:
            return (await store.running()).id

    identifier = anyio.run(prepare)
    neighbour = Neighbour(path)
    owner = neighbour.answer()
    assert is_alive(path, owner)
    neighbour.ask("spend", identifier)
    told = max(neighbour.answer() for _ in range(40))

    neighbour.kill()

    assert not is_alive(path, owner)
    row = rows_of(path, "select * from executions")[0]
    calls = rows_of(path, "select count(*) as n, sum(input_tokens) as fresh, sum(cost_usd) as cost from model_calls")[0]
    view = rows_of(path, "select * from execution_tree")[0]
    assert calls["n"] == row["turns"] >= told
    assert (calls["fresh"], calls["cost"]) == (row["input_tokens"], row["cost_usd"])
    assert (view["subtree_tokens"], view["subtree_cost_usd"]) == (116 * row["turns"], row["cost_usd"])
    assert rows_of(path, "select count(*) as n from messages")[0]["n"] == row["turns"]
    assert rows_of(path, "pragma integrity_check") == [{"integrity_check": "ok"}]
    neighbour.process.communicate()


def test_the_sign_of_life_ends_with_its_process_and_only_then_is_swept(tmp_path: Path) -> None:
    path = tmp_path / "outrider.db"
    dead, alive = Neighbour(path), Neighbour(path)
    gone, there = dead.answer(), alive.answer()
    sweep(path)
    assert is_alive(path, gone)

    dead.kill()

    assert not is_alive(path, gone)
    assert is_alive(path, there)
    sweep(path)
    assert names_in(tmp_path / "outrider.db-owners") == {there}
    alive.close()
    assert not is_alive(path, there)
    assert names_in(tmp_path / "outrider.db-owners") == set()
    dead.process.communicate()


async def test_a_sign_of_life_survives_any_number_of_sweeps_at_the_moment_it_is_made(tmp_path: Path) -> None:
    path = tmp_path / "outrider.db"
    (tmp_path / "outrider.db-owners").mkdir()
    stop = False
    made: list[Ownership] = []

    def sweeping() -> None:
        while not stop:
            sweep(path)

    def make() -> None:
        made.extend(Ownership(path) for _ in range(100))

    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(anyio.to_thread.run_sync, sweeping)
        await anyio.to_thread.run_sync(make)
        stop = True

    assert all(is_alive(path, each.owner) for each in made)
    for each in made:
        each.close()
    assert names_in(tmp_path / "outrider.db-owners") == set()


async def test_a_write_of_another_process_is_noticed_within_a_second(store: Store) -> None:
    with neighbours(store.path, 1) as (neighbour,):
        await anyio.to_thread.run_sync(neighbour.answer)
        async with aclosing(changes(store.database.writer)) as looks:
            await anext(looks)  # the first look
            neighbour.ask("write", 1)
            made = await anyio.to_thread.run_sync(neighbour.answer)
            with anyio.fail_after(1):
                await anext(looks)

    assert len(await store.database.reads.roots(100)) == len(made)


async def test_a_process_is_not_told_of_its_own_writes(store: Store) -> None:
    async with aclosing(changes(store.database.writer, interval=0.01)) as looks:
        await anext(looks)
        await store.database.writer.apply(birth(draft()))
        with anyio.move_on_after(0.1) as scope:
            await anext(looks)

    assert scope.cancelled_caught


async def test_the_sign_of_life_outlasts_the_last_write(tmp_path: Path) -> None:
    path = tmp_path / "outrider.db"
    alive: list[bool] = []

    def publish(_: Sequence[Event]) -> None:
        alive.append(len(names_in(tmp_path / "outrider.db-owners")) == 1)

    async with open_database(path, publish) as database:
        database.writer.post(birth(draft()))

    assert alive == [True]
    assert not is_alive(path, database.owner)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are a POSIX notion")
def test_a_disk_that_refuses_is_told_for_people_and_writing_goes_on_when_it_recovers(tmp_path: Path) -> None:
    path = tmp_path / "outrider.db"
    with neighbours(path, 1) as (neighbour,):
        neighbour.answer()
        neighbour.ask("limited", 1_000_000)
        kind, message, hint, after = neighbour.answer()

    assert (kind, after) == ("DatabaseUnavailable", "written again")
    assert str(path) in message
    assert "disk" in hint
    assert rows_of(path, "pragma integrity_check") == [{"integrity_check": "ok"}]
    assert [row["task"] for row in rows_of(path, "select task from executions order by created_at")][-1] == "after"
