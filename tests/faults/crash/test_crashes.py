"""Trees whose process is killed: nothing acknowledged is lost, nothing runs on, nothing happens twice.

`make faults` tries many more. `OUTRIDER_SEED` repeats a run; a failure names the seeds of its trials.
"""

from pathlib import Path

import anyio
import pytest

from tests.faults.crash.seeds import SEED
from tests.faults.crash.shards import Shards
from tests.faults.crash.trial import Finding, Kind, Plan


async def tried(folder: Path, kind: Kind, seeds: range, *, fresh: bool = False) -> list[Finding]:
    """The findings of some trials."""
    with anyio.fail_after(50):
        return await Shards(folder, kind).carry_out(Plan.of(kind, seed, fresh=fresh) for seed in seeds)


@pytest.mark.parametrize(
    ("kind", "count"), [("tree", 4), ("plan", 3), ("nest", 2), ("tool", 2), ("stop", 2), ("again", 1), ("together", 1)]
)
async def test_a_killed_tree_keeps_its_promises(tmp_path: Path, kind: Kind, count: int) -> None:
    found = await tried(tmp_path, kind, range(SEED, SEED + count))

    assert len(found) == count
    assert {finding.seed: finding.broken for finding in found if finding.broken} == {}
    assert [finding.resumed for finding in found] == [finding.interrupted for finding in found]
    assert {finding.status for finding in found} <= {"completed", "cancelled" if kind == "stop" else "completed"}


async def test_a_fresh_process_that_is_killed_keeps_its_promises(tmp_path: Path) -> None:
    [finding] = await tried(tmp_path, "tree", range(SEED, SEED + 1), fresh=True)

    assert finding.broken == {}, finding
    assert finding.resumed == finding.interrupted


@pytest.mark.parametrize(("kind", "write"), [("sync", 12), ("plan-sync", 40)])
async def test_a_process_killed_at_a_write_to_the_disk_keeps_its_promises(tmp_path: Path, kind: Kind, write: int) -> None:
    [finding] = await tried(tmp_path, kind, range(write, write + 1))

    assert not finding.survived
    assert finding.broken == {}
    assert finding.resumed == finding.interrupted > 0


async def test_a_run_that_was_cut_goes_on_where_it_stopped(tmp_path: Path) -> None:
    shards = Shards(tmp_path, "tool")
    [first] = await tried(tmp_path, "tool", range(1, 2))
    with (tmp_path / "tool.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"kind": "tool", "se')

    both = await shards.carry_out([Plan.of("tool", 1), Plan.of("tool", 2)])

    assert both[0] == first
    assert [finding.seed for finding in both] == [1, 2]
