"""For whom an execution works: who is meant, what everybody below knows of them, and what stays when they are gone."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from runner.errors import Refusal
from runner.origin import User
from runner.service.order import Order
from tests.support.models import hang, say
from tests.support.reading import dispatch
from tests.support.service import Bench, bench

AGENTS = """
agents:
  Lead: {sub_agents: [Leaf], description: leads}
  Leaf: {description: looks}
"""
PEOPLE = """
users:
  alex:
    name: Alex
    timezone: America/Los_Angeles
    locale: en-US
    capabilities: [gmail, database]
    connections: [google]
    aliases: ["+15550100"]
  noa: {timezone: Asia/Jerusalem, locale: he-IL}
"""
ALEX = User("alex", "Alex", "America/Los_Angeles", "en-US", ("gmail", "database"), ("google",))


def served(service: Bench) -> dict[str, User | None]:
    """For whom each agent at work works."""
    return {execution.name: execution.origin.user for execution in service.dispatcher.tree}


async def test_an_execution_and_everything_below_it_works_for_the_user_it_was_ordered_for(tmp_path: Path) -> None:
    scripts = {"Lead": [dispatch("Leaf", "look"), say("waiting")], "Leaf": [hang()]}
    async with bench(tmp_path, AGENTS + PEOPLE, scripts) as service:
        started = await service.dispatcher.start(Order("Lead", "look", user="+15550100"))
        with anyio.fail_after(10):
            await service.model.started("Leaf")

        assert served(service) == {"Lead": ALEX, "Leaf": ALEX}
        assert ALEX.zone.key == "America/Los_Angeles"
        assert service.sql("select distinct user_id from executions") == [{"user_id": "alex"}]
        nobody = await service.dispatcher.start(Order("Leaf", "look"))
        assert service.sql("select user_id from executions where id = ?", nobody.id) == [{"user_id": None}]
        await service.dispatcher.cancel(started.id, "test", "enough")


async def test_an_unknown_user_is_refused_and_nothing_is_started(tmp_path: Path) -> None:
    async with bench(tmp_path, AGENTS + PEOPLE, {}) as service:
        with pytest.raises(Refusal, match="no user named `alexa`") as refused:
            await service.dispatcher.start(Order("Leaf", "look", user="alexa"))

        assert (refused.value.kind, refused.value.hint) == (
            "unknown_user",
            "did you mean `alex`? Known: `alex`, `noa`",
        )
        assert service.statuses() == {}


async def test_a_key_stands_for_one_user(tmp_path: Path) -> None:
    async with bench(tmp_path, AGENTS + PEOPLE, {"Leaf": [say("done")]}) as service:
        order = Order("Leaf", "look", user="alex", key="k")
        first = await service.dispatcher.start(order)

        assert (await service.dispatcher.start_once(replace(order, user="+15550100")))[0].id == first.id
        for other in ("noa", None):
            with pytest.raises(Refusal, match="was used for another dispatch"):
                await service.dispatcher.start(replace(order, user=other))


async def test_users_are_rows_that_follow_the_file_and_are_written_only_when_something_differs(tmp_path: Path) -> None:
    async def rows(people: str) -> dict[str, dict[str, str]]:
        async with bench(tmp_path, AGENTS + people, {}) as service:
            return {row["id"]: row for row in service.sql("select * from users")}

    first = await rows(PEOPLE)
    assert first["alex"]["aliases"] == '["+15550100"]'
    assert await rows(PEOPLE) == first

    moved = await rows(PEOPLE.replace("Asia/Jerusalem", "Europe/Paris"))
    assert moved["alex"] == first["alex"]
    assert moved["noa"]["timezone"] == "Europe/Paris"
    assert moved["noa"]["updated_at"] > first["noa"]["updated_at"]
    assert await rows("") == moved


async def test_what_works_for_a_user_who_is_in_no_file_any_more_goes_on_and_is_continued_for_them(tmp_path: Path) -> None:
    scripts = {"Lead": [dispatch("Leaf", "look"), say("waiting")], "Leaf": [hang()]}
    async with bench(tmp_path, AGENTS + PEOPLE, scripts) as service:
        started = await service.dispatcher.start(Order("Lead", "look", user="alex"))
        with anyio.fail_after(10):
            await service.model.started("Leaf")

    moved = PEOPLE.replace("America/Los_Angeles", "Europe/Paris")
    async with bench(tmp_path, AGENTS + moved, {}):
        pass  # another service of the same database, which resumes nothing

    opened = anyio.Event()
    later = {"Lead": [say("all done")], "Leaf": [replace(say("seen"), gate=opened)]}
    async with bench(tmp_path, AGENTS, later) as service:
        assert await service.dispatcher.adopt() == 1
        with anyio.fail_after(10):
            await service.model.started("Leaf")
        today = replace(ALEX, timezone="Europe/Paris")
        assert served(service) == {"Lead": today, "Leaf": today}
        opened.set()
        await service.ended(started.id)

        again = await service.dispatcher.resume(started.id, "and then?")
        await service.ended(again.id)
        assert service.sql("select user_id from executions where id = ?", again.id) == [{"user_id": "alex"}]
        with pytest.raises(Refusal, match="no user named `alex`"):
            await service.dispatcher.start(Order("Leaf", "look", user="alex"))
