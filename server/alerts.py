"""Reads an alert, or a group of alerts, in the format of Alertmanager: whether it fires, its types, and its task.

Must not know: the source of the alert, or the execution it starts. Invariant: no alert of a group is dropped. Resolved
alerts stay in the data, but neither choose the chain nor name the task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

RESOLVED = "resolved"
MOST_SUMMARIES = 5
"""Alert summaries in a task; the data has all of them."""


def alert_types(alert: Mapping[str, Any]) -> list[str]:
    """The names of all firing alerts, in order, with repetitions; the name of the group if no alert has one."""
    shared = shared_type(alert)
    return _names(_firing(alert)) or ([shared] if shared is not None else [])


def shared_type(alert: Mapping[str, Any]) -> str | None:
    """The alert name in the labels of the group, if any."""
    names = (_name_in(alert.get(key)) for key in ("commonLabels", "groupLabels"))
    return next((name for name in names if name is not None), None)


def known_types(alert: Mapping[str, Any]) -> list[str]:
    """The names of all its alerts, including resolved ones, each once."""
    return list(dict.fromkeys(_names(_several(alert) or [alert]))) or alert_types(alert)


def is_resolved(alert: Mapping[str, Any]) -> bool:
    """Whether none of its alerts fires."""
    return not _firing(alert)


def task_of(alert: Mapping[str, Any]) -> str:
    """The task for an agent: the names of the firing alerts, then their summaries."""
    names = list(dict.fromkeys(alert_types(alert)))
    task = f"Investigate the alert{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else "Investigate the alert"
    common = _summary_in(alert.get("commonAnnotations"))
    each = (_summary_in(one.get("annotations")) for one in _firing(alert))
    summaries = [common] if common else list(dict.fromkeys(filter(None, each)))
    more = len(summaries) - MOST_SUMMARIES
    told = [*summaries[:MOST_SUMMARIES], *([f"and {more} more"] if more > 0 else [])]
    return f"{task}: {'; '.join(told)}" if told else task


def unwrapped(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The alert inside a webhook that carries exactly one; any other content is returned unchanged."""
    several = _several(content)
    return several[0] if len(several) == 1 and len(content["alerts"]) == 1 else content


def _several(content: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The alerts of a group; empty for a single alert."""
    alerts = content.get("alerts")
    return [each for each in alerts if isinstance(each, dict)] if isinstance(alerts, list) else []


def _firing(alert: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The firing alerts. An alert without a status has that of its group; without either it fires."""
    status = alert.get("status")
    return [each for each in _several(alert) or [alert] if each.get("status", status) != RESOLVED]


def _names(alerts: Sequence[Mapping[str, Any]]) -> list[str]:
    return [name for each in alerts if (name := _name_in(each.get("labels"))) is not None]


def _name_in(labels: Any) -> str | None:
    name = labels.get("alertname") if isinstance(labels, dict) else None
    return name if isinstance(name, str) and name else None


def _summary_in(annotations: Any) -> str | None:
    summary = annotations.get("summary") if isinstance(annotations, dict) else None
    return summary if isinstance(summary, str) and summary.strip() else None
