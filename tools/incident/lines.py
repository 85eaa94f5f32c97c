"""The log lines of the story: ordinary traffic, everyday noise, the symptoms, and the few lines that tell the cause.

Owns the wording of every line. The cause is in about a dozen lines of the culprit, written by its connection pool and
held down to one every few minutes a pod, as such loggers do; thousands of lines elsewhere only say that it is slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tools.incident.dice import Dice
from tools.incident.fleet import Fleet, Pod
from tools.incident.samples import BATCH_KILLS, BATCH_POD, INTERVAL, failure_share, ticks
from tools.incident.story import ENTRY, NEIGHBOUR, NOISY, Story

_TRAFFIC_LINES = 7.2
"""Ordinary lines a pod writes in one interval: access logs are sampled."""
_FAILING_REQUESTS = 19.0
"""Traced failing requests in one interval at the height of the incident."""
_CAUSE_INTERVAL = timedelta(minutes=5)
_ENTRY_ROUTES = {"checkout": "POST /api/checkout", "catalog": "GET /api/products"}


@dataclass(frozen=True, slots=True)
class Line:
    """One log line; `fields` are what the logger attached beside the message."""

    at: datetime
    level: str
    namespace: str
    service: str
    pod: str
    container: str
    message: str
    fields: dict[str, str] = field(default_factory=dict)


def write_lines(story: Story, fleet: Fleet) -> list[Line]:
    """All lines of the story, oldest first."""
    writers = (_traffic, _noise, _start_ups, _symptoms, _cause, _surroundings)
    lines = [line for writer in writers for line in writer(story, fleet) if line.at <= story.ended_at]
    return sorted(lines, key=lambda line: (line.at, line.service, line.pod))


def _line(story: Story, pod: Pod, at: datetime, level: str, message: str, **fields: str) -> Line:
    return Line(at, level, story.namespace, pod.service.name, pod.name, pod.service.name, message, fields)


def _moments(story: Story) -> Iterator[datetime]:
    for tick in range(ticks(story)):
        yield story.started_at + timedelta(seconds=tick * INTERVAL)


def _within(moment: datetime, dice: Dice) -> datetime:
    return moment + timedelta(milliseconds=int(dice.between(0, INTERVAL * 1000)))


def _serving(fleet: Fleet, service: str, at: datetime, dice: Dice) -> Pod:
    return dice.pick([pod for pod in fleet.of(service) if pod.alive(at)])


def _traffic(story: Story, fleet: Fleet) -> Iterator[Line]:
    for pod in fleet.pods:
        dice = Dice(story.seed, f"lines/traffic/{pod.name}")
        for moment in _moments(story):
            for _ in range(dice.whole(_TRAFFIC_LINES)):
                at = _within(moment, dice)
                if pod.alive(at):
                    yield _request(story, pod, at, dice)


def _request(story: Story, pod: Pod, at: datetime, dice: Dice) -> Line:
    if dice.chance(0.06):
        return _line(story, pod, at, "debug", _housekeeping(dice))

    route = dice.pick(pod.service.routes)
    status = "404" if dice.chance(0.015) else "200"
    slow = failure_share(story, pod, at) > 0.05 and dice.chance(0.4)
    took = int(dice.between(900, 2900) if slow else dice.between(12, 190))
    fields = {"route": route, "status": status, "duration_ms": str(took), "trace_id": dice.hexadecimal(16)}
    return _line(story, pod, at, "info", f"{route} {status} {took}ms", **fields)


def _housekeeping(dice: Dice) -> str:
    return dice.pick(
        (
            f"refreshed {int(dice.between(40, 900))} cache entries in {int(dice.between(3, 40))} ms",
            f"flushed {int(dice.between(10, 300))} spans to the collector",
            f"garbage collection took {int(dice.between(2, 25))} ms",
            "liveness probe answered",
        )
    )


def _noise(story: Story, fleet: Fleet) -> Iterator[Line]:
    """Errors and warnings that are there every day, before the incident as much as during it."""
    for pod in fleet.pods:
        dice = Dice(story.seed, f"lines/noise/{pod.name}")
        for moment in _moments(story):
            at = _within(moment, dice)
            if pod.alive(at):
                yield from _daily_complaints(story, pod, at, dice)


def _daily_complaints(story: Story, pod: Pod, at: datetime, dice: Dice) -> Iterator[Line]:
    trace = dice.hexadecimal(16)
    if pod.service.name == NOISY:
        for _ in range(dice.whole(1.6)):
            took = int(dice.between(201, 420))
            message = f"feature lookup failed: store answered after {took} ms, limit 200 ms, using defaults"
            yield _line(story, pod, at, "error", message, trace_id=trace, upstream="feature-store")
    elif dice.chance(0.05):
        route = dice.pick(pod.service.routes)
        message = f"{route} 500 {int(dice.between(20, 300))}ms"
        yield _line(story, pod, at, "error", message, status="500", trace_id=trace)
    if pod.service.name == "payments" and dice.chance(0.35):
        yield _line(story, pod, at, "warn", "card declined by the issuer: insufficient funds", trace_id=trace)
    if pod.service.name == NEIGHBOUR and pod.generation.current and dice.chance(0.3):
        message = f"unknown category {int(dice.between(300, 400))}, showing its products under `other`"
        yield _line(story, pod, at, "warn", message, trace_id=trace)
    if dice.chance(0.03):
        took = int(dice.between(501, 900))
        yield _line(story, pod, at, "warn", f"slow statement took {took} ms, threshold 500 ms", trace_id=trace)


def _start_ups(story: Story, fleet: Fleet) -> Iterator[Line]:
    for pod in fleet.pods:
        if story.started_at <= pod.started_at:
            yield from _start_up(story, pod, pod.started_at)
        if pod.restarted_at is not None:
            yield from _start_up(story, pod, pod.restarted_at)
        if pod.ended_at is not None:
            yield _line(story, pod, pod.ended_at, "info", "received SIGTERM, finishing open requests")


def _start_up(story: Story, pod: Pod, ready: datetime) -> Iterator[Line]:
    booted = ready - timedelta(seconds=6)
    yield _line(story, pod, booted, "info", f"starting {pod.service.name} {pod.generation.version}")
    if pod.service.has_database:
        connected = booted + timedelta(milliseconds=2140)
        message = f"database pool ready: at most {pod.generation.pool_size} connections"
        yield _line(story, pod, connected, "info", message, logger="db.pool")
    yield _line(story, pod, ready, "info", "listening on port 8080")


def _symptoms(story: Story, fleet: Fleet) -> Iterator[Line]:
    """Failing requests, followed from the edge to the culprit: loud, and silent about the cause."""
    dice = Dice(story.seed, "lines/symptoms")
    callers = [service.name for service in story.services if story.culprit in service.calls]
    for moment in _moments(story):
        stress = story.stress(moment)
        for _ in range(dice.whole(_FAILING_REQUESTS * stress) if stress else 0):
            yield from _failing_request(story, fleet, _within(moment, dice), dice)
        for caller in callers:
            for _ in range(dice.whole(3 * stress) if stress and caller != story.victim else 0):
                yield _fallback(story, _serving(fleet, caller, moment, dice), _within(moment, dice), dice)


def _fallback(story: Story, pod: Pod, at: datetime, dice: Dice) -> Line:
    age = int(dice.between(5, 600))
    message = f"{story.culprit} is slow, serving a remembered answer that is {age} s old"
    return _line(story, pod, at, "warn", message, upstream=story.culprit, trace_id=dice.hexadecimal(16))


def _failing_request(story: Story, fleet: Fleet, at: datetime, dice: Dice) -> Iterator[Line]:
    trace = dice.hexadecimal(16)
    victim = _serving(fleet, story.victim, at, dice)
    hurt = [pod for pod in fleet.of(story.culprit) if pod.generation.current and at >= story.saturated_at(pod.index)]
    for attempt in (1, 2, 3):
        at += timedelta(milliseconds=2000 + int(dice.between(1, 60)))
        message = f"call to {story.culprit} failed: no answer within 2000 ms (attempt {attempt} of 3)"
        yield _line(story, victim, at, "error", message, upstream=story.culprit, trace_id=trace)
        if hurt and dice.chance(0.6):
            yield _refused(story, dice.pick(hurt), at, trace, dice)

    took = 6000 + int(dice.between(40, 240))
    route = victim.service.routes[0]
    fields = {"status": "502", "trace_id": trace, "duration_ms": str(took)}
    yield _line(story, victim, at, "error", f"{route} 502 {took}ms", route=route, **fields)
    entry = _serving(fleet, ENTRY, at, dice)
    route = _ENTRY_ROUTES.get(story.victim, entry.service.routes[0])
    message = f"{route} 502 {took + 4}ms"
    yield _line(story, entry, at, "error", message, route=route, upstream=story.victim, **fields)


def _refused(story: Story, pod: Pod, at: datetime, trace: str, dice: Dice) -> Line:
    route = dice.pick(pod.service.routes)
    if dice.chance(0.3):
        return _line(story, pod, at, "warn", f"{route}: caller went away before the answer", trace_id=trace)

    took = 3000 + int(dice.between(1, 40))
    at += timedelta(milliseconds=int(dice.between(900, 1100)))
    fields = {"route": route, "status": "503", "duration_ms": str(took), "trace_id": trace}
    return _line(story, pod, at, "error", f"{route} 503 {took}ms", **fields)


def _cause(story: Story, fleet: Fleet) -> Iterator[Line]:
    """The decisive lines."""
    dice = Dice(story.seed, "lines/cause")
    for pod in fleet.of(story.culprit):
        if not pod.generation.current:
            continue
        size = pod.generation.pool_size
        at = story.saturated_at(pod.index) + timedelta(milliseconds=int(dice.between(0, 900)))
        while at < story.ended_at:
            waiting = 1 + round(story.pool_before * 1.6 * story.pod_stress(pod.index, at))
            message = (
                f"could not get a database connection: pool exhausted "
                f"({size} of {size} in use, {waiting} waiting, gave up after 3000 ms)"
            )
            yield _line(story, pod, at, "error", message, logger="db.pool")
            at += _CAUSE_INTERVAL + timedelta(milliseconds=int(dice.between(0, 9000)))


def _surroundings(story: Story, fleet: Fleet) -> Iterator[Line]:
    entry = fleet.of(ENTRY)[0]
    for minute in range(4, story.minutes, 10):
        message = "certificate for shop.example expires in 9 days"
        yield _line(story, entry, story.after(minute), "warn", message, logger="tls")
    yield from _batch_job(story)
    yield from _database(story)


def _batch_job(story: Story) -> Iterator[Line]:
    for kill in BATCH_KILLS:
        for step in range(1, 9):
            at = story.after(kill - 3 + step * 0.35)
            yield _batch_line(at, "info", f"exported {step * 25000} rows of 400000")
        message = "OutOfMemoryError: cannot allocate 67108864 bytes, heap limit 512 MB reached"
        yield _batch_line(story.after(kill - 0.05), "error", message)
    done = story.after(BATCH_KILLS[-1] + 9)
    yield _batch_line(done, "info", "exported 400000 rows of 400000 in pages of 5000, done")


def _batch_line(at: datetime, level: str, message: str) -> Line:
    return Line(at, level, "batch", "report-export", BATCH_POD, "export", message)


def _database(story: Story) -> Iterator[Line]:
    """The database server itself is well all the time, which an investigator should be able to see."""
    dice = Dice(story.seed, "lines/database")
    for moment in _moments(story):
        at = _within(moment, dice)
        buffers = int(dice.between(200, 3000))
        yield _database_line(story, at, f"checkpoint complete: wrote {buffers} buffers in {int(dice.between(2, 25))} s")
        if dice.chance(0.2):
            name = dice.pick([service.name for service in story.services if service.has_database])
            yield _database_line(story, at, f'automatic vacuum of table "{name}.public.items": {buffers} pages')


def _database_line(story: Story, at: datetime, message: str) -> Line:
    return Line(at, "info", story.namespace, "postgres", "postgres-0", "postgres", message)
