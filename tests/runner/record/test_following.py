"""Following a tree: late, slowly, from another process; nothing is missed, nothing is told twice, and nobody is held up."""

import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from db.errors import UnknownExecution
from db.rows.executions import Place
from runner.core.views import INTERRUPTED
from runner.llm.protocol import Request
from runner.record.facts import Noticed
from runner.service.order import Order
from server.app import Blueprint, open_service
from tests.support.events import Follower, followed, payload, stored
from tests.support.models import ScriptedModel, Turn, call, gate, say
from tests.support.reading import dispatch
from tests.support.requirement import requirement
from tests.support.service import Bench, OneModel, bench, settings_of
from tests.support.shell import Shell, held, make_shell

CONFIG = """
agents:
  Lead: {sub_agents: [Left], limits: {max_iterations: 100}}
  Left: {description: looks left}
"""


def numbers(follower: Follower) -> list[int]:
    """The numbers of the stored events somebody was told of, in that order."""
    return [event["seq"] for event in stored(follower.told)]


def all_numbers(service: Bench, root: str) -> list[int]:
    """Those of a whole tree."""
    return [row["seq"] for row in service.sql("select seq from events where root_execution_id = ? order by seq", root)]


@requirement("S2-OB-8")
async def test_a_follower_that_comes_late_or_comes_back_gets_every_event_once(tmp_path: Path) -> None:
    opened = anyio.Event()
    scripts = {"Lead": [dispatch("Left"), say("waiting"), say("done")], "Left": [gate(opened, say("left"))]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        await service.model.started("Left")
        async with followed(service.dispatcher, started.id) as late:
            first: list[int] = []
            async with aclosing(service.dispatcher.events(started.id)) as events:
                async for event in events:  # one that goes away in the middle …
                    first += [event["seq"]] if event["seq"] is not None else []
                    if len(first) == 4:
                        break
            async with followed(service.dispatcher, started.id, after=first[-1]) as back:  # … and comes back
                opened.set()
        async with followed(service.dispatcher, started.id, after=first[-1]) as afterwards:
            pass
        async with followed(service.dispatcher, started.id, after=all_numbers(service, started.id)[-1]) as nothing:
            pass

        everything = all_numbers(service, started.id)
        assert numbers(late) == everything
        assert first + numbers(back) == everything
        assert first + numbers(afterwards) == everything
        assert nothing.told == []
        with pytest.raises(UnknownExecution):
            await anext(service.dispatcher.events("nobody"))


@requirement("S2-OB-8")
async def test_what_happens_while_the_rows_are_read_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = anyio.Event()
    async with bench(tmp_path, CONFIG, {"Left": [gate(opened, say("left"))]}) as service:
        started = await service.dispatcher.start(Order("Left"))
        await service.model.started("Left")
        services, place = service.dispatcher.services, Place(started.id, None, started.id)
        read, reads = services.database.reads.events, list[Any]()

        async def read_while_something_happens(root: str, after: int = 0, limit: int = 1) -> Any:
            if not reads:
                await services.recorder.record(Noticed(place, "upstream.note", {}))  # in the rows, and told live, too
            reads.append(await read(root, after, limit))
            if not reads[-1]:  # everything was read: what comes now comes live
                opened.set()
            return reads[-1]

        monkeypatch.setattr(services.database.reads, "events", read_while_something_happens)
        async with followed(service.dispatcher, started.id) as follower:
            pass

        assert "upstream.note" in [event["type"] for event in follower.told]
        assert numbers(follower) == all_numbers(service, started.id)


@requirement("S2-OB-11", "S2-OB-8")
async def test_a_reader_that_stalls_is_dropped_slows_no_execution_and_catches_up_from_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.record.events.BACKLOG", 10)
    turns = 30

    def work(request: Request) -> Turn:
        return call("list_agents") if len(request.messages) < 2 * turns else say("done")

    async with bench(tmp_path, CONFIG, {"Lead": work}) as service:
        bus = service.dispatcher.services.bus
        started = await service.dispatcher.start(Order("Lead", timeout=20))
        heard = Follower()
        with anyio.fail_after(20):
            async with aclosing(service.dispatcher.events(started.id)) as events:
                heard.told.append(await anext(events))
                ended = await service.dispatcher.wait(started.id)  # nobody reads, and it runs to its end
                assert not bus.watched(started.id)
                async for event in events:
                    heard.told.append(event)

        assert ended.status == "completed"
        assert numbers(heard) == all_numbers(service, started.id)
        assert len(numbers(heard)) > 3 * turns


@requirement("S2-OB-11")
async def test_a_reader_that_lags_holds_a_bounded_number_of_events(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Left": [say("left")]}) as service:
        bus = service.dispatcher.services.bus
        async with bus.watch(backlog=5) as stream:
            await service.run("Left")
            kept = [event async for event in stream]
        assert len(kept) == 5


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A folder to type commands in."""
    return make_shell(tmp_path)


@asynccontextmanager
async def beside(shell: Shell) -> AsyncIterator[Bench]:
    """A service of this process on the database of the shell."""
    folder = shell.folder / "beside"
    folder.mkdir()
    model = ScriptedModel({})
    async with open_service(Blueprint(settings_of(folder, CONFIG), shell.database, models=OneModel(model))) as dispatcher:
        yield Bench(dispatcher, model, shell.database)


@requirement("S2-OB-6", "S2-OB-8")
async def test_a_tree_of_another_process_is_followed_to_its_end(shell: Shell) -> None:
    gate_ = shell.gate("gate")
    with shell.start("run", "Lead", "go", GATE=str(gate_)), ExitStack() as closed:
        closed.enter_context(held(gate_))
        root = shell.rows("select id from executions where parent_execution_id is null")[0]["id"]
        async with beside(shell) as service:
            async with followed(service.dispatcher, root) as follower:
                closed.close()
            ended = await service.dispatcher.wait(root)
            assert ended.status == "completed"
            assert numbers(follower) == all_numbers(service, root)
            assert payload(follower.told[-1])["status"] == "completed"


@requirement("S2-LE-20")
async def test_a_caller_that_waits_for_a_process_that_dies_is_told(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.record.events.OWNER_SECONDS", 0.1)
    gate_ = shell.gate("gate")
    with shell.start("run", "Lead", "go", GATE=str(gate_)) as running, held(gate_):
        root = shell.rows("select id from executions where parent_execution_id is null")[0]["id"]
        async with beside(shell) as service:
            running.send_signal(signal.SIGSTOP)
            with anyio.move_on_after(0.3) as patience:  # it may wake up and write: frozen is not gone
                await service.dispatcher.wait(root)
            assert patience.cancelled_caught
            async with followed(service.dispatcher, root) as follower:
                running.kill()
                told = await service.dispatcher.wait(root)
            assert (told.status, told.activity) == ("running", INTERRUPTED)
            assert numbers(follower) == all_numbers(service, root)
            assert service.statuses() == {"Lead": ["running"], "Waiter": ["running"]}

            assert await service.dispatcher.cancel(root, "a person", "it is gone") == "requested"
            assert service.statuses() == {"Lead": ["cancelled"], "Waiter": ["cancelled"]}
            assert service.sql("select id from tool_calls where finished_at is null") == []
            assert (await service.dispatcher.wait(root)).status == "cancelled"
