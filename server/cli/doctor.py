"""`outrider doctor`: check everything a run needs, one line a check, with a hint where a check fails."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from server.cli.terminal.options import ConfigOption, DatabaseOption, JsonOption, chosen_config, chosen_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from server.cli.checks.checkup import Finding

MARKS = {"ok": "✓", "attention": "!", "failed": "✕"}
NAME_COLUMN = 16


def doctor(as_json: JsonOption = False, config: ConfigOption = None, db: DatabaseOption = None) -> int:
    """Check this machine, the configuration, its models and servers, and the database."""
    from dataclasses import asdict

    from server.cli.terminal.exits import Exit
    from server.cli.terminal.output import put_json

    found = _examine(config, db, tell=not as_json)
    healthy = all(finding.state != "failed" for finding in found)
    if as_json:
        put_json({"ok": healthy, "checks": [{**asdict(each), "ok": each.state != "failed"} for each in found]})
    return Exit.DONE if healthy else Exit.USAGE


def _examine(config: Path | None, db: str | None, *, tell: bool) -> list[Finding]:
    from server.cli.checks import checkup

    found: list[Finding] = []

    def note(finding: Finding) -> None:
        found.append(finding)
        if tell:
            _tell(finding)

    for check in (checkup.python, checkup.terminal, checkup.import_names, checkup.sqlite):
        note(check())
    for each in _databases(config, db):
        note(each)
    finding, settings = checkup.configuration(chosen_config(config))
    note(finding)
    if settings is not None:
        for each in checkup.models(settings, os.environ):
            note(each)
        for each in checkup.traces(settings, os.environ):
            note(each)
        if settings.upstreams:
            import anyio

            from server.cli.checks.upstream_checkup import upstreams

            anyio.run(upstreams, settings, note)
    return found


def _databases(config: Path | None, db: str | None) -> Iterator[Finding]:
    from server.cli.checks import checkup
    from server.cli.checks.work_checkup import work

    try:
        path = chosen_database(db, config)
    except Exception as error:  # a place that is none, such as the URL of another kind of database
        yield checkup.failed("database", error)
        return
    found = checkup.database(path)
    yield found
    yield from checkup.earlier_database()
    if found.state == "ok" and path.exists():
        yield from work(path)


def _tell(finding: Finding) -> None:
    from server.cli.terminal.options import runnable
    from server.cli.terminal.output import put

    detail = finding.detail.strip().replace("\n", "\n" + " " * (NAME_COLUMN + 3))
    lines = [f"{MARKS[finding.state]} {finding.name:<{NAME_COLUMN}} {detail}"]
    if finding.hint:
        lines.append(f"{'':<{NAME_COLUMN + 2}} hint: {runnable(finding.hint)}")
    put("\n".join(lines))
