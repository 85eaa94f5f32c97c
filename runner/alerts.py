"""An alert as Alertmanager sends it: which type it is, and the task it means.

Owns reading it. Must not know: where it came from, or what it starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def alert_type(alert: Mapping[str, Any]) -> str | None:
    """The name of the alert, which chooses its chain; None when it has none."""
    name = _labels(alert).get("alertname")
    return name if isinstance(name, str) and name else None


def task_of(alert: Mapping[str, Any]) -> str:
    """What to do about it, in words."""
    annotations = alert.get("annotations") or alert.get("commonAnnotations")
    summary = annotations.get("summary") if isinstance(annotations, dict) else None
    name = alert_type(alert)
    task = f"Investigate the alert {name}" if name else "Investigate the alert"
    return f"{task}: {summary}" if summary else task


def unwrapped(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The alert itself: a webhook around a single alert is taken off."""
    several = content.get("alerts")
    if isinstance(several, list) and len(several) == 1 and isinstance(several[0], dict):
        return several[0]
    return content


def _labels(alert: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in ("labels", "commonLabels", "groupLabels"):
        if isinstance(alert.get(key), dict):
            labels: Mapping[str, Any] = alert[key]
            return labels
    return {}
