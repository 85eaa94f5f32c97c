"""Many trials: some at a time, each finding kept as it comes, so that a run that was cut goes on where it stopped.

Owns: the files of a run and which trials are still to be done. Must not know: what happens in a trial.
Invariant: a finding is in the file once its trial is over, and a trial whose finding is there is not repeated.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

import anyio

from tests.faults.crash.trial import Finding, Kind, Plan, run

AT_ONCE = 2
"""Trials that run at the same time: one a core of the machine that figures are made on."""
SURVIVORS = 3
"""That end a sweep: what runs at the same time may share a write, so no two trees make exactly as many."""


class Shards:
    """The findings of one kind in a folder."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        self.kind = kind
        self._folder = folder
        self._file = folder / f"{kind}.jsonl"
        folder.mkdir(parents=True, exist_ok=True)

    def findings(self) -> list[Finding]:
        """What there is so far."""
        if not self._file.exists():
            return []
        return [Finding(**json.loads(line)) for line in self._file.read_text(encoding="utf-8").splitlines()]

    def _mend(self) -> None:
        """Forget a line that was cut short: its trial counts as not done."""
        if self._file.exists():
            whole, _, _ = self._file.read_bytes().rpartition(b"\n")
            self._file.write_bytes(whole + b"\n" if whole else b"")

    async def carry_out(self, plans: Iterable[Plan], tell: Callable[[int], None] = lambda _: None) -> list[Finding]:
        """Run the plans that have no finding yet; those of a sweep end when nothing has killed a few of them.

        `tell` hears after each how many there are.
        """
        self._mend()
        done = {finding.seed for finding in self.findings()}
        waiting = iter([plan for plan in plans if plan.seed not in done])
        survived = sum(finding.survived for finding in self.findings())

        async def work() -> None:
            nonlocal survived
            for plan in waiting:
                if survived >= SURVIVORS:
                    return
                survived += (await self._try(plan)).survived
                done.add(plan.seed)
                tell(len(done))

        async with anyio.create_task_group() as group:
            for number in range(AT_ONCE):
                group.start_soon(work, name=f"trials {number}")
        return self.findings()

    async def _try(self, plan: Plan) -> Finding:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            try:
                finding = await run(plan, Path(folder))
            except Exception as error:
                finding = Finding.of_failure(plan, error)
            if not finding.held:
                self._keep(plan, Path(folder))
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(finding)) + "\n")
        return finding

    def _keep(self, plan: Plan, folder: Path) -> None:
        """Leave what a broken promise looks like for whoever mends it."""
        kept = self._folder / f"{plan.kind}-{plan.seed}"
        kept.mkdir(exist_ok=True)
        for file in folder.iterdir():
            if file.is_file():
                (kept / file.name).write_bytes(file.read_bytes())
