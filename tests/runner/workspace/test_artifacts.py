"""Artifacts: the files that agents wrote are named in their results, and in those of whoever they worked for."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from runner.service.order import Order
from tests.runner.prompt.filed import CONFIG, edit, files, made, write
from tests.runner.resume.resuming import after_a_stop
from tests.runner.strategies.plan.planned import A, plan
from tests.support.models import call, fail, hang, say
from tests.support.reading import dispatch
from tests.support.requirement import requirement
from tests.support.service import bench


@pytest.fixture(autouse=True)
def source(tmp_path: Path) -> None:
    """The folder that is only read."""
    (tmp_path / "src").mkdir()


async def test_files_are_artifacts_once_beside_what_was_reported(tmp_path: Path) -> None:
    report = call(
        "finish", status="completed", summary="written", artifacts=[{"type": "report", "path": "docs/a.md"}, {"type": "x"}]
    )
    async with bench(tmp_path, CONFIG, {}) as service:
        service.model.scripts["Writer"] = [
            write("./a.md") + write("b.md") + write("../c.md"),
            edit("a.md", "text", "more") + edit("b.md", "none", ""),
            report,
        ]
        ended = await service.run("Writer")

        assert made(ended) == [{"type": "x"}, {"type": "report", "path": "docs/a.md"}, *files("docs/b.md")]


@requirement("S1-ST8-2")
async def test_an_execution_that_times_out_has_the_files_it_had_written_as_artifacts(tmp_path: Path) -> None:
    scripts = {
        "Writer": [write("report.md"), hang(), hang()],
        "Lead": [dispatch("Writer", timeout_seconds=0.6), say("waiting"), hang(), hang()],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        ended = await service.run("Writer", timeout=0.6)
        assert ended.result is not None
        assert (ended.status, ended.result.outcome, ended.result.errors[0].type) == ("timed_out", "partial", "timeout")
        assert made(ended) == files("docs/report.md")
        assert ended.result.summary == "it timed out; it had written a file"

        above = await service.run("Lead", timeout=1.2)
        assert above.status == "timed_out"
        assert made(above) == files("docs/report.md")


async def test_an_execution_that_is_cancelled_or_fails_has_its_files_as_artifacts_too(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Writer": [write("report.md"), hang()], "Own": []}) as service:
        started = await service.dispatcher.start(Order("Writer", "write"))
        with anyio.fail_after(10):
            await service.model.started("Writer", 2)
        await service.dispatcher.cancel(started.id, "tester", "enough")
        stopped = await service.ended(started.id)
        assert (stopped.status, made(stopped)) == ("cancelled", files("docs/report.md"))

        service.model.scripts["Own"] = [write("x/y.md", workspace="notes"), fail(recoverable=False)]
        failed = await service.run("Own")
        assert (failed.status, made(failed)) == ("failed", files("notes/x/y.md"))
        assert failed.result is not None
        assert failed.result.outcome == "failed"


async def test_callers_pass_on_what_was_made_for_them(tmp_path: Path) -> None:
    scripts = {
        "Lead": [dispatch("Writer"), say("waiting"), say("done")], "Writer": [write("a.md"), say("written")],
        "Planner": [plan(A)], "A": [write("b.md"), say("alpha")],
    }  # fmt: skip
    async with bench(tmp_path, CONFIG, scripts) as service:
        assert made(await service.run("Lead")) == files("docs/a.md")
        assert made(await service.run("Planned")) == files("docs/b.md")


async def test_what_was_written_before_a_restart_is_told_after_it(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Writer": [write("a.md"), hang()]}) as service:
        started = await service.dispatcher.start(Order("Writer", "write"))
        with anyio.fail_after(10):
            await service.model.started("Writer", 2)

    async with after_a_stop(tmp_path, {"Writer": [write("b.md"), say("done")]}, config=CONFIG) as service:
        assert made(await service.ended(started.id)) == files("docs/a.md", "docs/b.md")
