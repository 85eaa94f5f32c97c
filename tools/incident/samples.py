"""The metrics of the story: what each pod would have shown at every scrape.

Owns the model of load, failures, latency and connection pools, and the description of each metric. The figures are
simple, but they hang together: retries raise the culprit's load, its waiting requests are the victim's timeouts.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from tools.incident.dice import Dice
from tools.incident.fleet import CROWDED_NODE, NODES, Fleet, Pod
from tools.incident.ledger import Ledger
from tools.incident.story import ENTRY, NOISY, Service, Story

INTERVAL = 30.0
METRICS: dict[str, dict[str, str]] = {
    "http_requests_total": {"type": "counter", "help": "requests answered, by service, pod and status code"},
    "http_request_duration_seconds": {"type": "histogram", "help": "time to answer a request, in seconds"},
    "http_client_requests_total": {"type": "counter", "help": "calls made to another service, by upstream and outcome"},
    "http_client_retries_total": {"type": "counter", "help": "calls to another service repeated, by upstream"},
    "db_pool_size": {"type": "gauge", "help": "connections the database pool may open"},
    "db_pool_in_use": {"type": "gauge", "help": "connections of the database pool that are in use"},
    "db_pool_waiting": {"type": "gauge", "help": "requests waiting for a connection of the database pool"},
    "db_pool_timeouts_total": {"type": "counter", "help": "requests that waited for a connection in vain"},
    "pg_stat_activity_count": {"type": "gauge", "help": "connections open on the database server, by database"},
    "app_info": {"type": "gauge", "help": "always 1; the label `version` says what a pod runs"},
    "container_memory_working_set_bytes": {"type": "gauge", "help": "memory in use, by pod"},
    "container_cpu_usage_seconds_total": {"type": "counter", "help": "processor time used, by pod"},
    "kube_pod_container_status_restarts_total": {"type": "counter", "help": "restarts of a pod's container"},
    "node_filesystem_avail_bytes": {"type": "gauge", "help": "free disk space, by node"},
    "tls_certificate_days_left": {"type": "gauge", "help": "days until a certificate expires, by host"},
    "service:http_errors:ratio_rate5m": {"type": "gauge", "help": "recorded: share of 5xx answers over five minutes"},
}
BATCH_POD = "report-export-29318745-h7wnd"
BATCH_KILLS = (74.0, 77.5, 82.0)
"""Minutes at which the batch job is killed for memory."""
DISK_MINUTES = (50.0, 88.0)

_BOUNDS = ("0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "+Inf")
_HEALTHY = (0.55, 0.8, 0.95, 0.985, 0.996, 0.9995, 1.0, 1.0)
_SLOW = (0.05, 0.08, 0.15, 0.22, 0.35, 0.6, 0.98, 1.0)
_MEGABYTE = 1_000_000


def write_samples(story: Story, fleet: Fleet) -> Ledger:
    """All series of the story but those recorded by rules."""
    ledger = Ledger(story.started_at.timestamp(), INTERVAL)
    dice = {pod.name: Dice(story.seed, f"samples/{pod.name}") for pod in fleet.pods}
    for pod in fleet.pods:
        _open_counters(story, ledger, pod, dice[pod.name])

    for tick in range(ticks(story) + 1):
        moment = story.started_at + timedelta(seconds=tick * INTERVAL)
        for pod in fleet.pods:
            if pod.alive(moment):
                _PodTick(story, ledger, pod, tick, moment).write(dice[pod.name])
        _write_databases(story, fleet, ledger, tick, moment)
        _write_surroundings(story, ledger, tick, moment)

    return ledger


def ticks(story: Story) -> int:
    """How many intervals the recording lasts."""
    return int(story.minutes * 60 / INTERVAL)


def failure_share(story: Story, pod: Pod, moment: datetime) -> float:
    """The share of a pod's requests that fail at that moment."""
    service = pod.service
    if service.name == story.culprit:
        return 0.002 + 0.35 * _pod_stress(story, pod, moment)
    if service.name == story.victim:
        return 0.0015 + 0.24 * story.stress(moment)
    if service.name == ENTRY:
        share = story.service(story.victim).requests_per_second / service.requests_per_second
        return 0.001 + 0.24 * story.stress(moment) * share

    return 0.018 if service.name == NOISY else 0.001


def load(story: Story, moment: datetime) -> float:
    """The shop fills up over the afternoon."""
    return 0.92 + 0.14 * (moment - story.started_at).total_seconds() / (story.minutes * 60)


def _pod_stress(story: Story, pod: Pod, moment: datetime) -> float:
    return story.pod_stress(pod.index, moment) if pod.generation.current else 0.0


def _open_counters(story: Story, ledger: Ledger, pod: Pod, dice: Dice) -> None:
    """Pods that ran for days have counted for days."""
    if pod.started_at > story.started_at:
        return

    answered = int(dice.between(200_000, 900_000))
    for code, share in (("200", 0.98), ("404", 0.015), (_failure_code(pod.service, story), 0.002)):
        ledger.open("http_requests_total", {**_labels(story, pod), "code": code}, int(answered * share))
    for bound, share in zip(_BOUNDS, _HEALTHY, strict=True):
        ledger.open("http_request_duration_seconds_bucket", {**_labels(story, pod), "le": bound}, int(answered * share))
    ledger.open("http_request_duration_seconds_sum", _labels(story, pod), round(answered * 0.07, 1))
    ledger.open("http_request_duration_seconds_count", _labels(story, pod), answered)


def _labels(story: Story, pod: Pod) -> dict[str, str]:
    return {"namespace": story.namespace, "service": pod.service.name, "pod": pod.name}


def _failure_code(service: Service, story: Story) -> str:
    if service.name in (story.victim, ENTRY):
        return "502"

    return "503" if service.name == story.culprit else "500"


class _PodTick:
    """What one pod shows at one scrape."""

    def __init__(self, story: Story, ledger: Ledger, pod: Pod, tick: int, moment: datetime) -> None:
        self._story, self._ledger, self._pod = story, ledger, pod
        self._tick, self._moment = tick, moment
        self._labels = _labels(story, pod)
        self._stress = story.stress(moment)

    def write(self, dice: Dice) -> None:
        """All series of the pod."""
        restarted = self._pod.restarted_at
        if restarted and restarted <= self._moment < restarted + timedelta(seconds=INTERVAL):
            self._ledger.reset(self._pod.name)
        answered = dice.whole(self._rate() * INTERVAL * dice.between(0.94, 1.06) / self._pod.service.replicas)
        self._write_requests(answered, dice)
        self._write_durations(answered)
        self._write_calls(answered, dice)
        if self._pod.service.has_database:
            self._write_pool(dice)
        self._write_container(answered, dice)

    def _rate(self) -> float:
        # The victim's retries come on top of the culprit's ordinary load.
        retries = 1 + 1.2 * self._stress if self._pod.service.name == self._story.culprit else 1.0
        return self._pod.service.requests_per_second * load(self._story, self._moment) * retries

    def _count(self, name: str, growth: float, **labels: str) -> None:
        self._ledger.count(self._tick, name, {**self._labels, **labels}, growth)

    def _gauge(self, name: str, value: float, **labels: str) -> None:
        self._ledger.gauge(self._tick, name, {**self._labels, **labels}, value)

    def _write_requests(self, answered: int, dice: Dice) -> None:
        failed = min(answered, dice.whole(answered * failure_share(self._story, self._pod, self._moment)))
        missing = dice.whole((answered - failed) * 0.012)
        self._count("http_requests_total", answered - failed - missing, code="200")
        self._count("http_requests_total", missing, code="404")
        self._count("http_requests_total", failed, code=_failure_code(self._pod.service, self._story))

    def _write_durations(self, answered: int) -> None:
        slow = self._slowness()
        for bound, healthy, late in zip(_BOUNDS, _HEALTHY, _SLOW, strict=True):
            share = healthy * (1 - slow) + late * slow
            self._count("http_request_duration_seconds_bucket", round(answered * share), le=bound)
        self._count("http_request_duration_seconds_sum", round(answered * (0.07 * (1 - slow) + 1.9 * slow), 1))
        self._count("http_request_duration_seconds_count", answered)

    def _slowness(self) -> float:
        service = self._pod.service
        if service.name == self._story.culprit:
            return _pod_stress(self._story, self._pod, self._moment)
        if service.name == self._story.victim:
            return 0.8 * self._stress
        if service.name == ENTRY:
            return 0.2 * self._stress

        return 0.12 * self._stress if self._story.culprit in service.calls else 0.0

    def _write_calls(self, answered: int, dice: Dice) -> None:
        for upstream in self._pod.service.calls:
            hurt = self._stress if upstream == self._story.culprit else 0.0
            weight = 0.45 if self._pod.service.name == self._story.victim else 0.1
            timeouts = dice.whole(answered * weight * hurt + answered * 0.0005)
            retries = dice.whole(timeouts * 1.6)
            self._count("http_client_requests_total", answered - timeouts, upstream=upstream, outcome="ok")
            self._count("http_client_requests_total", timeouts + retries, upstream=upstream, outcome="timeout")
            self._count("http_client_retries_total", retries, upstream=upstream)

    def _write_pool(self, dice: Dice) -> None:
        size = self._pod.generation.pool_size
        in_use, stress = pool_in_use(self._story, self._pod, self._moment, dice.between(0.9, 1.1)), 0.0
        if self._pod.service.name == self._story.culprit:
            stress = _pod_stress(self._story, self._pod, self._moment)
        self._gauge("db_pool_size", size)
        self._gauge("db_pool_in_use", in_use)
        self._gauge("db_pool_waiting", round(self._story.pool_before * 1.6 * stress * dice.between(0.9, 1.1)))
        self._count("db_pool_timeouts_total", dice.whole(95 * stress) if stress else 0)

    def _write_container(self, answered: int, dice: Dice) -> None:
        self._gauge("app_info", 1, version=self._pod.generation.version)
        memory = 260 + 18 * self._pod.index + dice.between(0, 24) + 60 * self._slowness()
        self._gauge("container_memory_working_set_bytes", round(memory) * _MEGABYTE)
        self._count("container_cpu_usage_seconds_total", round(2 + answered * 0.004, 1))
        restarted = self._pod.restarted_at is not None and self._moment >= self._pod.restarted_at
        self._gauge("kube_pod_container_status_restarts_total", 1 if restarted else 0)


def pool_in_use(story: Story, pod: Pod, moment: datetime, jitter: float) -> int:
    """Connections in use: about three fifths of an ordinary pool, and all of one that is too small."""
    size = pod.generation.pool_size
    if pod.service.name == story.culprit and pod.generation.current:
        warming = story.saturated_at(pod.index) - pod.started_at
        return min(size, round(size * ((moment - pod.started_at) / warming)))

    return min(size, round(story.pool_before * 0.6 * load(story, moment) * jitter))


def _write_databases(story: Story, fleet: Fleet, ledger: Ledger, tick: int, moment: datetime) -> None:
    for service in story.services:
        if service.has_database:
            alive = [pod for pod in fleet.of(service.name) if pod.alive(moment)]
            connections = sum(pool_in_use(story, pod, moment, 1.0) for pod in alive)
            labels = {"namespace": story.namespace, "datname": service.name, "server": "postgres-0"}
            ledger.gauge(tick, "pg_stat_activity_count", labels, connections)


def _write_surroundings(story: Story, ledger: Ledger, tick: int, moment: datetime) -> None:
    """What happens beside the causal chain."""
    minute = (moment - story.started_at).total_seconds() / 60
    for number, node in enumerate(NODES):
        free = 61_000 + 3_000 * number - 15 * minute
        if node == CROWDED_NODE:
            free = 5_200 if DISK_MINUTES[0] <= minute < DISK_MINUTES[1] else 19_000 - 40 * minute
        ledger.gauge(tick, "node_filesystem_avail_bytes", {"node": node, "mountpoint": "/"}, round(free) * _MEGABYTE)
    certificate: Mapping[str, str] = {"host": "shop.example"}
    ledger.gauge(tick, "tls_certificate_days_left", dict(certificate), round(9.4 - minute / 1440, 3))
    if minute >= BATCH_KILLS[0] - 5:
        batch = {"namespace": "batch", "service": "report-export", "pod": BATCH_POD}
        kills = sum(1 for kill in BATCH_KILLS if minute >= kill)
        last = max((kill for kill in BATCH_KILLS if minute >= kill), default=BATCH_KILLS[0] - 5)
        memory = min(505, 120 + 90 * (minute - last)) if kills < len(BATCH_KILLS) else 150
        ledger.gauge(tick, "container_memory_working_set_bytes", batch, round(memory) * _MEGABYTE)
        ledger.gauge(tick, "kube_pod_container_status_restarts_total", batch, kills)
