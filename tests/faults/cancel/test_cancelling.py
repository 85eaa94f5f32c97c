"""A tree of a hundred is cancelled as one of a thousand is by `make faults`, where it is also timed."""

from pathlib import Path

from tests.faults.cancel.cancelling import cancel_tree


async def test_a_cancelled_tree_is_over_with_its_rows_tasks_and_sockets_and_starts_nothing_more(tmp_path: Path) -> None:
    cancelled = await cancel_tree(tmp_path, 4, 25)

    assert cancelled.broken == []
    assert cancelled.executions >= 1 + 4 + 100
