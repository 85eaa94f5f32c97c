"""The whole suite at once, and what it means for us.

Owns: which scenarios do not apply, and that every other one must pass, without a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import anyio

from tests.conformance.suite import NOTHING_TOLD, REVISIONS, Verdict, judged, required, scenarios, server_under_test

NO_SKILLS = "Outrider offers no skills"
NOT_APPLICABLE: Mapping[str, str] = {
    "server-sse-polling": "to resume a broken stream needs a store of its events, and nothing of ours is lost with one: "
    "results stay with their executions",
    "tasks-status-notifications": "the suite has no check for it yet",
    "sep-2640-skills-directory": NO_SKILLS,
    "sep-2640-skills-enumeration": NO_SKILLS,
    "sep-2640-skills-manifest": NO_SKILLS,
}
"""Why a scenario says nothing about us."""

Verdicts = Mapping[str, Mapping[str, Verdict]]


async def judge(folder: Path) -> Verdicts:
    """Run the suite for both revisions against one server; verdicts by revision and scenario."""
    verdicts: dict[str, Mapping[str, Verdict]] = {}

    async def run(url: str, revision: str) -> None:
        verdicts[revision] = await judged(url, revision)

    async with server_under_test(folder) as url, anyio.create_task_group() as group:
        for revision in REVISIONS:
            group.start_soon(run, url, revision)
    return verdicts


async def problems(verdicts: Verdicts) -> list[str]:
    """What stands against us: complaints, and scenarios nobody has thought about."""
    found, known = list[str](), set(NOT_APPLICABLE)
    for revision in REVISIONS:
        for name in required(revision).keys() - NOT_APPLICABLE:
            found += (f"{revision} {name}: {each}" for each in verdicts[revision].get(name, NOTHING_TOLD).problems)
            known.add(name)
    found += (f"{name}: neither run nor known not to apply" for name in await scenarios() if name not in known)
    return sorted(found)
