"""The rules of the story's Prometheus: one that records a ratio, and those that alert.

Owns their expressions and the alert that starts the investigation. What fires is computed from the samples, never
asserted: `fired_alert` fails when the story would not have raised its alert.
"""

from __future__ import annotations

import hashlib
from typing import Any

from outrider_sre.alerting import Clock, active_alerts
from outrider_sre.errors import BadRequestError
from outrider_sre.incident import Rule
from outrider_sre.metric_store import MetricStore
from outrider_sre.promql import Vector, evaluate, parse
from outrider_sre.times import format_time
from tools.incident.ledger import Ledger
from tools.incident.samples import INTERVAL, ticks
from tools.incident.story import Story

RATIO = "service:http_errors:ratio_rate5m"
_ALL = parse("sum by (namespace, service) (rate(http_requests_total[5m]))")
_FAILED = parse('sum by (namespace, service) (rate(http_requests_total{code=~"5.."}[5m]))')


def story_rule(story: Story) -> Rule:
    """The rule behind the alert of the story."""
    return Rule(
        alert=f"{story.victim.title()}ErrorRateHigh",
        expression=f'{RATIO}{{service="{story.victim}"}} > 0.05',
        hold_seconds=120.0,
        labels={"severity": "critical"},
        annotations={
            "summary": f"more than 5 % of the requests to {story.victim} fail",
            "description": f"{story.victim} answers with 5xx; customers cannot complete their purchase",
        },
    )


def all_rules(story: Story) -> list[Rule]:
    """Every alerting rule; the others fire for reasons of their own."""
    return [
        story_rule(story),
        Rule(
            "NodeDiskSpaceLow",
            "node_filesystem_avail_bytes < 8e9",
            300.0,
            {"severity": "warning"},
            {"summary": "a node has less than 8 GB of free disk space"},
        ),
        Rule(
            "CertificateExpiresSoon",
            "tls_certificate_days_left < 14",
            3600.0,
            {"severity": "warning"},
            {"summary": "a certificate expires in less than two weeks"},
        ),
        Rule(
            "PodRestarts",
            "increase(kube_pod_container_status_restarts_total[30m]) > 2",
            0.0,
            {"severity": "warning"},
            {"summary": "a pod was restarted several times within half an hour"},
        ),
    ]


def record_ratio(story: Story, ledger: Ledger) -> None:
    """Write the recorded ratio into the ledger, from the samples already there."""
    find = MetricStore(list(ledger.series(ticks(story)))).find
    start = story.started_at.timestamp()
    for tick in range(ticks(story) + 1):
        moment = start + tick * INTERVAL
        failed = _by_service(evaluate(_FAILED, find, moment))
        for labels, total in _by_service(evaluate(_ALL, find, moment)).items():
            if total > 0:
                ledger.gauge(tick, RATIO, dict(labels), round(failed.get(labels, 0.0) / total, 5))


def fired_alert(story: Story, ledger: Ledger) -> dict[str, Any]:
    """The story's alert, as Alertmanager would pass it on."""
    rule = story_rule(story)
    clock = Clock(story.started_at.timestamp(), INTERVAL)
    end = story.ended_at.timestamp()
    found = active_alerts(rule, MetricStore(list(ledger.series(ticks(story)))).find, clock, end)
    if not found or found[0].fires_at > end:
        raise BadRequestError("the story does not raise its alert", "release earlier, or shrink the pool further")

    labels = dict(sorted(found[0].labels.items()))
    return {
        "status": "firing",
        "labels": labels,
        "annotations": rule.annotations,
        "startsAt": format_time(found[0].fires_at),
        "endsAt": None,
        "fingerprint": hashlib.sha256(repr(labels).encode()).hexdigest()[:16],
    }


def _by_service(value: object) -> dict[tuple[tuple[str, str], ...], float]:
    samples = value.samples if isinstance(value, Vector) else ()
    return {tuple(sorted(sample.labels.items())): sample.value for sample in samples}
