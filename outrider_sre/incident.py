"""Where the recorded incident lies, and what it says about itself.

Owns the folder (environment variable `SRE_INCIDENT`, absent or empty: the one in this package) and `meta.json`. The
three stores read their own files through it. Invariant: `now` is the end of the recording, never the wall clock.

    meta.json       title, time span, metric types, alerting rules; nothing that tells the cause
    alert.json      the alert that starts the investigation, as Alertmanager would send it
    logs/           one file per service, `NAMESPACE.SERVICE.jsonl.gz`: JSON lines, compressed
    metrics.jsonl   one series a line: name, labels, time of the first sample, values at a fixed interval
    cluster.json    objects and events as the Kubernetes API would show them
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from outrider_sre.errors import BrokenIncidentError
from outrider_sre.times import parse_time

VARIABLE = "SRE_INCIDENT"
PACKAGED = Path(__file__).parent / "incident"
ALERT = Path(__file__).parent / "alert.json"
"""The alert of the packaged incident, beside it so that a command line can name it."""

_HINT = f"set `{VARIABLE}` to a folder written by `write_incident`, or unset it to use the packaged incident"


@dataclass(frozen=True, slots=True)
class Rule:
    """An alerting rule: fires once its expression has had a result for `hold_seconds`."""

    alert: str
    expression: str
    hold_seconds: float
    labels: dict[str, str]
    annotations: dict[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Incident:
    """A recording: its folder, its span, and what its metrics and rules are; the stores cache by its identity."""

    folder: Path
    title: str
    started_at: float
    ended_at: float
    interval_seconds: float
    metric_types: dict[str, dict[str, str]]
    rules: tuple[Rule, ...]

    @property
    def now(self) -> float:
        """The moment the investigation happens at."""
        return self.ended_at

    def file(self, name: str) -> Path:
        """A file of the recording, or a clear complaint that it is missing."""
        path = self.folder / name
        if not path.exists():
            raise BrokenIncidentError(f"the incident folder `{self.folder}` has no `{name}`", _HINT)

        return path


def incident_folder() -> Path:
    """The folder the environment names, else the packaged one."""
    named = os.environ.get(VARIABLE, "")
    return Path(named) if named else PACKAGED


@cache
def open_incident(folder: Path) -> Incident:
    """Read `meta.json`; everything larger is left to the stores, which read it on the first question."""
    path = folder / "meta.json"
    try:
        meta: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Incident(
            folder=folder,
            title=meta["title"],
            started_at=parse_time(meta["started_at"], 0.0),
            ended_at=parse_time(meta["ended_at"], 0.0),
            interval_seconds=float(meta["interval_seconds"]),
            metric_types=meta["metrics"],
            rules=tuple(Rule(**rule) for rule in meta["rules"]),
        )
    except OSError as error:
        raise BrokenIncidentError(f"cannot read `{path}`: {error.strerror}", _HINT) from None
    except (KeyError, TypeError, ValueError) as error:
        raise BrokenIncidentError(f"`{path}` is damaged: {error}", _HINT) from None
