"""A tree of a hundred is cancelled as one of a thousand is by `make faults`, where it is also timed; so are servers."""

from pathlib import Path

from tests.faults.cancel.cancelling import cancel_tree
from tests.faults.cancel.children import KINDS, cancel_children
from tests.support.requirement import requirement
from tests.support.upstream_specs import none_running


async def test_a_cancelled_tree_is_over_with_its_rows_tasks_and_sockets_and_starts_nothing_more(tmp_path: Path) -> None:
    cancelled = await cancel_tree(tmp_path, 4, 25)

    assert cancelled.broken == []
    assert cancelled.executions >= 1 + 4 + 100


@requirement("S2-CA-3", "S2-CA-5")
async def test_the_own_servers_of_cancelled_executions_are_gone_within_five_seconds_and_shared_ones_stay(
    tmp_path: Path,
) -> None:
    gone = await cancel_children(tmp_path, 4)

    assert gone.broken == []
    assert (gone.executions, gone.processes) == (1 + 4 * len(KINDS), 4 * (len(KINDS) + 2))
    assert gone.rows < 1.5, "nobody waits for servers that do not listen"
    assert gone.children < 5
    assert await none_running(0)
