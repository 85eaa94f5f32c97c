"""The board of work items: numbers that only grow, nothing added twice, and items of the configuration put up once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from db.rows.executions import Place
from db.rows.work_items import Author
from runner.errors import Fenced, ItemRefused
from runner.record.events import Bus
from runner.record.recorder import Recorder
from runner.work_items.board import Board
from tests.db.store import Store, open_store
from tests.support.requirement import requirement
from tests.support.service import bench

ITEMS = """
    models: {m: {model: any}}
    agents: {Anyone: {}}
    work_items:
      board: crew
      items:
        1: {title: Build the parser, language: lean, plan: plans/1.md, depends_on: [5], complexity: complex}
        5: {title: Write the manual, status: researched}
"""


@dataclass
class Desk:
    """A database, and boards for executions in it."""

    store: Store
    recorder: Recorder

    async def board(self, place: Place | None = None, *, attempt: int = 1, name: str = "crew") -> Board:
        """The board as one attempt of an execution has it."""
        author = Author(place or await self.store.running(), attempt)
        return Board(name, self.store.database.reads.work_items, self.recorder, author)


@asynccontextmanager
async def desk(path: Path) -> AsyncIterator[Desk]:
    """A process with the database open."""
    async with open_store(path) as store:
        recorder = Recorder(Bus())
        recorder.attach(store.database.writer)
        yield Desk(store, recorder)


async def together(boards: Sequence[Board], titles: Sequence[str]) -> list[int]:
    """Add an item on each board at once; the numbers they got."""
    numbers: list[int] = []

    async def add(board: Board, title: str) -> None:
        numbers.append((await board.add(title)).number)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for board, title in zip(boards, titles, strict=True):
                group.start_soon(add, board, title)
    return sorted(numbers)


@requirement("S1-T11")
async def test_numbers_begin_at_one_and_never_fill_a_gap(tmp_path: Path) -> None:
    async with desk(tmp_path / "outrider.db") as fresh:
        assert (await (await fresh.board()).add("First")).number == 1
    async with bench(tmp_path, ITEMS, {}):
        pass  # opening it puts up the items 1 and 5

    async with desk(tmp_path / "outrider.db") as again:
        crew = await again.board()
        assert [item.number for item in await crew.all()] == [1, 5]
        assert (await crew.add("Next")).number == 6


@requirement("S1-T1")
async def test_items_added_at_once_by_several_processes_have_different_numbers(tmp_path: Path) -> None:
    async with desk(tmp_path / "outrider.db") as one, desk(tmp_path / "outrider.db") as other:
        boards = [await each.board() for _ in range(10) for each in (one, other)]

        assert await together(boards, ["The same title"] * 20) == list(range(1, 21))


async def test_an_execution_that_resumes_or_retries_finds_the_items_it_had_added(tmp_path: Path) -> None:
    async with desk(tmp_path / "outrider.db") as desk_:
        place = await desk_.store.running()
        board = await desk_.board(place)
        first = [(await board.add(title)).number for title in ("Twice", "Once", "Twice")]

        once_more = await desk_.board(place)
        again = [await once_more.add(title) for title in ("Twice", "Twice", "Once", "New")]

        assert first == [1, 2, 3]
        assert [item.number for item in again] == [1, 3, 2, 4]
        assert again[0].execution_id == place.id
        told = [each["type"] for each in desk_.store.published if each["type"].startswith("work_item.")]
        assert told == ["work_item.added"] * 4


async def test_an_item_keeps_all_that_several_link_to_it_at_once(tmp_path: Path) -> None:
    async with desk(tmp_path / "outrider.db") as one, desk(tmp_path / "outrider.db") as other:
        number = (await (await one.board()).add("Prove it", language="lean")).number
        links = [{"type": "research", "path": f"notes/{each}.md"} for each in range(8)]

        async def link(board: Board, each: dict[str, str]) -> None:
            await board.update(number, artifacts=[each])

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                for index, each in enumerate(links):
                    group.start_soon(link, await (one, other)[index % 2].board(), each)
        item = await (await one.board()).update(number, status="researched", plan="plans/1.md", artifacts=links[:2])

        assert sorted(each["path"] for each in item.artifacts) == [each["path"] for each in links]
        assert (item.status, item.plan, item.language) == ("researched", "plans/1.md", "lean")
        assert await (await other.board()).find(number) == item


async def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    async with desk(tmp_path / "outrider.db") as desk_:
        board, elsewhere = await desk_.board(), await desk_.board(attempt=2)
        number = (await board.add("Mine")).number

        for refused in (board.update(7, status="done"), board.add("  ")):
            with pytest.raises(ItemRefused) as refusal:
                await refused
            assert refusal.value.hint
        for fenced in (elsewhere.add("Late"), elsewhere.update(number, status="done")):
            with pytest.raises(Fenced):
                await fenced
        assert [(item.title, item.status) for item in await board.all()] == [("Mine", "not_started")]


async def test_items_of_the_configuration_are_put_up_once(tmp_path: Path) -> None:
    async with bench(tmp_path, ITEMS, {}):
        pass
    async with desk(tmp_path / "outrider.db") as desk_:
        crew = await desk_.board()
        await crew.update(1, status="implemented")
    async with bench(tmp_path, ITEMS.replace("Write the manual", "Another title"), {}) as service:
        rows = service.sql("select number, title, status, language, plan, depends_on, complexity from work_items")

    assert [tuple(row.values()) for row in rows] == [
        (1, "Build the parser", "implemented", "lean", "plans/1.md", "[5]", "complex"),
        (5, "Write the manual", "researched", None, None, "[]", None),
    ]
