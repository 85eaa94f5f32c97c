"""Guarantees about processes that are killed: many trials of one kind, their findings summed up.

Owns: how many of each kind, and the figures. Must not know: what happens in a trial.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from tests.faults.crash.expedition import COURIER
from tests.faults.crash.shards import Shards
from tests.faults.crash.trial import Finding, Kind, Plan
from tests.faults.guarantees.guarantee import Broken, Course, Measured

FRESH = 100
"""Of each kind so many start every process as the console script does; the others fork from one that has imported."""
SWEEP = 10_000
"""More writes to the disk than any tree makes."""
FEWEST = 20
"""Writes to the disk that every sweep finds: with less, the tracer has not counted."""
EVERY = 25
"""Trials between two words about how far it is."""

Findings = Sequence[Finding]
Summary = Callable[[Findings], str]


def killed(kind: Kind, count: int, summary: Summary) -> Callable[[Course], Measured]:
    """So many trials of a kind."""
    return lambda course: _carry_out(course, kind, count, summary)


def swept(kind: Kind, summary: Summary) -> Callable[[Course], Measured]:
    """A kill at the first write to the disk, at the second …, until there is no such write any more."""
    return lambda course: _carry_out(course, kind, None, summary)


def _carry_out(course: Course, kind: Kind, count: int | None, summary: Summary) -> Measured:
    """Trials by seed; those of a sweep are numbered by the write they kill at."""
    if count is None:
        plans = [Plan.of(kind, number, fresh=True) for number in range(1, SWEEP)]
    else:
        plans = [Plan.of(kind, course.seed + number, fresh=number < FRESH) for number in range(count)]
    shards, wanted = Shards(course.folder, kind), f"of {count:,}" if count is not None else "so far"

    def listen(done: int) -> None:
        if done % EVERY == 0:
            course.tell(f"{done:,} {wanted}")

    findings = anyio.run(shards.carry_out, plans, listen)
    if broken := [finding for finding in findings if finding.broken]:
        told = ", ".join(f"{finding.seed} ({', '.join(finding.broken)})" for finding in broken[:10])
        raise Broken(f"{len(broken)} of {len(findings)} trials: seed {told}; what they left is in {course.folder}")
    tried = [finding for finding in findings if not finding.survived]
    return Measured(summary(tried), len(tried))


def nothing_lost(findings: Findings) -> str:
    """Of trees."""
    turns, dispatches, open_, resumed = (
        sum(getattr(finding, name) for finding in findings) for name in ("turns", "dispatches", "interrupted", "resumed")
    )
    return (
        f"0 of {turns:,} acknowledged turns and 0 of {dispatches:,} dispatches lost; {resumed:,} of {open_:,} interrupted "
        f"executions resumed, 0 left running; file sound {len(findings):,} of {len(findings):,}{_fresh(findings)}"
    )


def carried_out(findings: Findings) -> str:
    """Of plans."""
    chats = sum(finding.agent == COURIER for finding in findings)
    return f"{nothing_lost(findings)}; every version and step once; {chats} of {chats} users answered once"


def decided_once(findings: Findings) -> str:
    """Of five levels that nest."""
    return f"{nothing_lost(findings)}; every decision, step and task once"


def none_twice(findings: Findings) -> str:
    """Of tools that must not run twice."""
    unknown = sum(finding.unknown for finding in findings)
    return f"0 second runs; {unknown:,} of {len(findings):,} recorded as unknown{_fresh(findings)}"


def none_goes_on(findings: Findings) -> str:
    """Of trees that were being cancelled."""
    cancelled = sum(finding.status == "cancelled" for finding in findings)
    return (
        f"0 acknowledged cancels undone, 0 later requests or tools; {cancelled:,} cancelled, {len(findings) - cancelled:,} "
        f"killed before the wish was there and completed{_fresh(findings)}"
    )


def same_result(findings: Findings) -> str:
    """Of the one tree or plan whose every write is cut; a strike that was cut itself may be told as unknown."""
    texts = {(finding.text or "").replace("unknown", "strike") for finding in findings}
    if len(texts) != 1 or len(findings) < FEWEST:
        raise Broken(f"different results, or too few of them: {len(findings)} times {texts}")
    cut = sum(bool(finding.unknown) for finding in findings)
    told = f"; in {cut} of them a tool that must not run twice was cut, and is told as unknown" if cut else ""
    return f"the same result {len(findings):,} of {len(findings):,} times{told}"


def _fresh(findings: Findings) -> str:
    return f"; {sum(finding.fresh for finding in findings):,} with fresh processes"
