"""Writes a story as an incident folder.

Owns the layout of the files that `outrider_sre.incident` describes and the three stores read. Invariant: nothing in the
folder names the cause but the data itself. `python -m tools.incident.record` renews the packaged incident and its alert.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from outrider_sre.incident import ALERT, PACKAGED
from outrider_sre.times import format_log_time, format_time
from tools.incident.fleet import build_fleet
from tools.incident.happenings import write_events
from tools.incident.lines import Line, write_lines
from tools.incident.objects import write_objects
from tools.incident.rules import all_rules, fired_alert, record_ratio
from tools.incident.samples import INTERVAL, METRICS, write_samples
from tools.incident.story import Story


def write_incident(folder: Path, story: Story) -> None:
    """Write the whole recording of the story into the folder, which is made when it does not exist."""
    fleet = build_fleet(story)
    ledger = write_samples(story, fleet)
    record_ratio(story, ledger)
    folder.mkdir(parents=True, exist_ok=True)
    _write_logs(folder / "logs", write_lines(story, fleet))
    _write_text(folder / "metrics.jsonl", (_compact(row) for row in ledger.rows()))
    objects = {"objects": write_objects(story, fleet), "events": write_events(story, fleet)}
    _write_text(folder / "cluster.json", [json.dumps(objects, indent=1)])
    _write_text(folder / "alert.json", [json.dumps(fired_alert(story, ledger), indent=2)])
    _write_text(folder / "meta.json", [json.dumps(_meta(story), indent=2)])


def _meta(story: Story) -> dict[str, Any]:
    return {
        "title": f"{story.namespace}: errors in {story.victim}",
        "started_at": format_time(story.started_at.timestamp()),
        "ended_at": format_time(story.ended_at.timestamp()),
        "interval_seconds": INTERVAL,
        "metrics": METRICS,
        "rules": [asdict(rule) for rule in all_rules(story)],
    }


def _write_logs(folder: Path, lines: list[Line]) -> None:
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.jsonl.gz"):
        old.unlink()

    files: dict[str, list[str]] = {}
    for line in lines:
        row = {"ts": format_log_time(line.at.timestamp()), "level": line.level, "pod": line.pod}
        row |= {"container": line.container, "message": line.message, **line.fields}
        files.setdefault(f"{line.namespace}.{line.service}.jsonl.gz", []).append(_compact(row))

    for name, rows in files.items():
        # No time stamp inside the file: writing it again must not change it.
        (folder / name).write_bytes(gzip.compress(("\n".join(rows) + "\n").encode(), mtime=0))


def _write_text(path: Path, lines: Iterable[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def _compact(row: dict[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"))


def main() -> None:
    """Write the default story into the package."""
    write_incident(PACKAGED, Story())
    ALERT.write_bytes((PACKAGED / "alert.json").read_bytes())


if __name__ == "__main__":
    main()
