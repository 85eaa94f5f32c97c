"""The cluster's events during the story, shaped as the Kubernetes API shows them.

Owns what the control plane noticed: rollouts, probes, kills, disk pressure. None of it names the cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tools.incident.fleet import CROWDED_NODE, NEIGHBOUR_RELEASE_MINUTE, Fleet, Generation, Pod
from tools.incident.objects import when
from tools.incident.samples import BATCH_KILLS, BATCH_POD, DISK_MINUTES
from tools.incident.story import NEIGHBOUR, Story


@dataclass(frozen=True, slots=True)
class _Object:
    kind: str
    name: str
    namespace: str


@dataclass(frozen=True, slots=True)
class _Happening:
    about: _Object
    reason: str
    message: str
    first: datetime
    last: datetime | None = None
    count: int = 1
    warning: bool = False


def write_events(story: Story, fleet: Fleet) -> list[dict[str, Any]]:
    """All events, oldest first."""
    happenings = [*_rollouts(story, fleet), *_probes(story, fleet), *_unrelated(story, fleet)]
    happenings.sort(key=lambda one: (one.first, one.about.name, one.reason))
    return [_event(number, one) for number, one in enumerate(happenings, 1) if one.first <= story.ended_at]


def _event(number: int, happening: _Happening) -> dict[str, Any]:
    about = happening.about
    return {
        "metadata": {"name": f"{about.name}.{number:04x}", "namespace": about.namespace},
        "involvedObject": {"kind": about.kind, "name": about.name, "namespace": about.namespace},
        "type": "Warning" if happening.warning else "Normal",
        "reason": happening.reason,
        "message": happening.message,
        "firstTimestamp": when(happening.first),
        "lastTimestamp": when(happening.last or happening.first),
        "count": happening.count,
    }


def _rollouts(story: Story, fleet: Fleet) -> Iterator[_Happening]:
    for name, moment in ((NEIGHBOUR, story.after(NEIGHBOUR_RELEASE_MINUTE)), (story.culprit, story.deployed_at)):
        old, new = [one for one in fleet.generations if one.service.name == name][-2:]
        replicas = new.service.replicas
        for index in range(replicas):
            step = moment + timedelta(seconds=2 + 41 * index)
            yield _scaled(story, new, f"Scaled up replica set {new.replica_set} to {index + 1}", step)
            message = f"Scaled down replica set {old.replica_set} to {replicas - index - 1}"
            yield _scaled(story, old, message, step + timedelta(seconds=30))
    for pod in fleet.pods:
        if pod.started_at > story.started_at:
            yield from _birth(story, pod)
        if pod.ended_at is not None:
            yield _Happening(_pod(story, pod), "Killing", f"Stopping container {pod.service.name}", pod.ended_at)


def _scaled(story: Story, generation: Generation, message: str, at: datetime) -> _Happening:
    about = _Object("Deployment", generation.service.name, story.namespace)
    return _Happening(about, "ScalingReplicaSet", message, at)


def _birth(story: Story, pod: Pod) -> Iterator[_Happening]:
    about, born = _pod(story, pod), pod.started_at - timedelta(seconds=8)
    image = f"registry.shop.example/{pod.service.name}:{pod.generation.version}"
    yield _Happening(about, "Scheduled", f"Assigned {story.namespace}/{pod.name} to {pod.node}", born)
    yield _Happening(about, "Pulled", f"Successfully pulled image {image}", born + timedelta(seconds=1))
    yield _Happening(about, "Started", f"Started container {pod.service.name}", born + timedelta(seconds=2))


def _probes(story: Story, fleet: Fleet) -> Iterator[_Happening]:
    """Symptoms: the suffering pods answer their readiness probe late, at times."""
    for pod in fleet.of(story.culprit):
        if pod.generation.current:
            first = story.saturated_at(pod.index) + timedelta(seconds=150)
            last = story.ended_at - timedelta(seconds=20 + 7 * pod.index)
            message = "Readiness probe failed: no answer within 1s"
            yield _Happening(_pod(story, pod), "Unhealthy", message, first, last, 11 - pod.index, warning=True)


def _unrelated(story: Story, fleet: Fleet) -> Iterator[_Happening]:
    batch = _Object("Pod", BATCH_POD, "batch")
    first, last = story.after(BATCH_KILLS[0]), story.after(BATCH_KILLS[-1])
    message = "Memory limit of 512Mi exceeded, container export was killed"
    yield _Happening(batch, "OOMKilled", message, first, last, len(BATCH_KILLS), warning=True)
    yield _Happening(batch, "BackOff", "Back-off restarting failed container export", first, last, 4, warning=True)
    node = _Object("Node", CROWDED_NODE, "default")
    full, cleared = (story.after(minute) for minute in DISK_MINUTES)
    message = "Free disk space is below the eviction threshold of 10%"
    yield _Happening(node, "EvictionThresholdMet", message, full, cleared - timedelta(minutes=4), 31, warning=True)
    yield _Happening(node, "NodeHasDiskPressure", "Node status is now: NodeHasDiskPressure", full)
    yield _Happening(node, "NodeHasNoDiskPressure", "Node status is now: NodeHasNoDiskPressure", cleared)
    certificate = _Object("Certificate", "shop-example-tls", story.namespace)
    message = "Certificate expires in 9 days, renewal is scheduled in 2 days"
    yield _Happening(certificate, "ExpiresSoon", message, story.after(6), story.after(96), 4, warning=True)
    for pod in fleet.pods:
        if pod.restarted_at is not None:
            failing = pod.restarted_at - timedelta(seconds=40)
            message = "Liveness probe failed: connection refused"
            yield _Happening(_pod(story, pod), "Unhealthy", message, failing, pod.restarted_at, 3, warning=True)
            yield _Happening(_pod(story, pod), "Killing", "Container failed its liveness probe, restarting it", failing)


def _pod(story: Story, pod: Pod) -> _Object:
    return _Object("Pod", pod.name, story.namespace)
