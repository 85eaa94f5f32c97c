"""`make faults`: measure guarantees, print the table of their figures, write the page.

Owns: which are measured, and a run's progress, in a folder of its own: a run that was cut goes on where it stopped, as long
as the code is the same. Must not know: any promise. Invariant: a figure is kept only if its promise held.

`python -m tests.faults.guarantees.run [NAME …]`; without names all of them.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.faults.guarantees import page
from tests.faults.guarantees.declared import EVERY
from tests.faults.guarantees.guarantee import Broken, Course, Guarantee
from tests.support.sources import ROOT


@dataclass(frozen=True)
class Desk:
    """Where a run works, and where it leaves what it found."""

    progress: Path = ROOT / ".faults"
    figures: Path = page.KEPT
    page: Path = page.PAGE


def machine() -> str:
    """What the figures were measured on."""
    return f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def revision() -> str:
    """The code as it is, with what is not committed."""
    return "".join(
        subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True, encoding="utf-8").stdout
        for words in (["rev-parse", "HEAD"], ["diff", "HEAD", "--", ":!docs", ":!tests/faults/guarantees/figures.json"])
    )


@dataclass(frozen=True)
class Run:
    """Some guarantees on their way to figures."""

    wanted: Sequence[Guarantee]
    folder: Path
    seed: int

    @classmethod
    def begin(cls, wanted: Sequence[Guarantee], desk: Desk, code: str) -> Run:
        """Go on with the run of the same guarantees and the same code that was cut, or begin anew."""
        folder = desk.progress / "+".join(each.name for each in wanted)[:100]
        file = folder / "run.json"
        kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        given = int(os.environ.get("OUTRIDER_SEED", "0"))
        if kept.get("code") != code or (given and given != kept["seed"]):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            kept = {"code": code, "seed": given or secrets.randbelow(10**9)}
            file.write_text(json.dumps(kept), encoding="utf-8")
        return cls(wanted, folder, int(kept["seed"]))

    def measure(self) -> dict[str, dict[str, Any]]:
        """Measure what is not measured yet; the figures by name, without those whose promise does not hold."""
        figures: dict[str, dict[str, Any]] = {}
        for each in self.wanted:
            done = self.folder / each.name / "figure.json"
            if not done.exists():
                self._measure(each, done)
            if done.exists():
                figures[each.name] = json.loads(done.read_text(encoding="utf-8"))
        return figures

    def _measure(self, each: Guarantee, done: Path) -> None:
        done.parent.mkdir(exist_ok=True)
        spent = done.with_name("seconds")
        before, began = float(spent.read_text(encoding="utf-8")) if spent.exists() else 0.0, time.monotonic()

        def seconds() -> float:
            return round(before + time.monotonic() - began, 1)

        def tell(words: str) -> None:
            spent.write_text(str(seconds()), encoding="utf-8")
            note(f"{each.name}: {words} ({seconds():.0f} s)")

        note(f"{each.name}: {each.promise}")
        try:
            found = each.measure(Course(done.parent, self.seed, tell))
        except Broken as error:
            note(f"error: `{each.name}` does not hold (seed {self.seed}): {error}")
            return
        today = datetime.now(UTC).date().isoformat()
        figure = {**asdict(found), "seconds": seconds(), "seed": self.seed, "date": today, "machine": machine()}
        done.write_text(json.dumps(figure), encoding="utf-8")
        note(f"{each.name}: {found.figure} (n = {found.n:,}, {seconds():.0f} s)")

    def end(self) -> None:
        """Forget its progress: the next run measures anew."""
        shutil.rmtree(self.folder)


def note(words: str) -> None:
    """Say how far it is."""
    sys.stderr.write(words + "\n")
    sys.stderr.flush()


def chosen(names: Sequence[str], declared: Sequence[Guarantee]) -> Sequence[Guarantee]:
    """The guarantees of these names, or all; exits with a hint when a name is unknown."""
    known = {each.name: each for each in declared}
    if unknown := [name for name in names if name not in known]:
        note(f"error: there is no guarantee `{unknown[0]}`\nhint: name one of {', '.join(known)}")
        sys.exit(2)
    return [each for each in declared if not names or each.name in names]


def main(names: Sequence[str], declared: Sequence[Guarantee] = EVERY, desk: Desk | None = None) -> int:
    """Measure, print, write; 1 when a promise does not hold: then it has no figure any more."""
    desk = desk or Desk()
    run = Run.begin(chosen(names, declared), desk, revision())
    measured, before = run.measure(), page.figures(desk.figures)
    for name, row in measured.items():
        sys.stdout.write(f"{name:17} {row['figure']}  (n = {row['n']:,}, {row['seconds']:.0f} s, seed {row['seed']})\n")
    wanted = {each.name for each in run.wanted}
    kept = {name: row for name, row in before.items() if name not in wanted} | measured
    desk.figures.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    desk.page.write_text(page.page(declared, kept), encoding="utf-8")
    if len(measured) < len(wanted):
        note(f"hint: `{run.folder}` has what was left; `make faults` begins anew without it")
        return 1
    run.end()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
