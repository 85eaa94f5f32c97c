"""Which pods there are, on which node, from when to when.

Owns the names and lives of pods, replica sets and nodes; metrics, logs and objects all ask here, so that they agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tools.incident.dice import Dice
from tools.incident.story import NEIGHBOUR, NOISY, Service, Story

NODES = ("worker-1", "worker-2", "worker-3", "worker-4")
CROWDED_NODE = "worker-4"
"""Short of disk for a while; none of the pods of the causal chain run on it."""
NEIGHBOUR_VERSION = "5.3.1"
NEIGHBOUR_RELEASE_MINUTE = 61.0
RESTART_MINUTE = 70.0
"""When a pod of the noisy service is restarted, which resets its counters."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One replica set: a version of a service and when it was rolled out."""

    service: Service
    version: str
    template_hash: str
    revision: int
    created_at: datetime
    pool_size: int
    current: bool

    @property
    def replica_set(self) -> str:
        """The name of the replica set."""
        return f"{self.service.name}-{self.template_hash}"


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod with its life; `index` is its place among the replicas."""

    name: str
    generation: Generation
    index: int
    node: str
    ip: str
    started_at: datetime
    ended_at: datetime | None
    restarted_at: datetime | None = None

    @property
    def service(self) -> Service:
        """The service it belongs to."""
        return self.generation.service

    def alive(self, moment: datetime) -> bool:
        """Whether it serves at that moment."""
        return self.started_at <= moment and (self.ended_at is None or moment < self.ended_at)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Every generation and every pod of the story."""

    generations: tuple[Generation, ...]
    pods: tuple[Pod, ...]

    def of(self, service: str) -> tuple[Pod, ...]:
        """The pods of one service, old and new."""
        return tuple(pod for pod in self.pods if pod.service.name == service)


def build_fleet(story: Story) -> Fleet:
    """The fleet of the story."""
    generations: list[Generation] = []
    pods: list[Pod] = []
    for number, service in enumerate(story.services):
        dice = Dice(story.seed, f"fleet/{service.name}")
        own = _generations(story, service, dice)
        generations += own
        for generation in own[-2:] if len(own) > 1 and _released(story, service) else own[-1:]:
            pods += [_pod(story, generation, index, number, dice) for index in range(service.replicas)]

    return Fleet(tuple(generations), tuple(pods))


def _released(story: Story, service: Service) -> bool:
    return service.name in (story.culprit, NEIGHBOUR)


def _generations(story: Story, service: Service, dice: Dice) -> list[Generation]:
    revision = int(dice.between(6, 30))
    before = _previous(service.version)
    days = timedelta(days=int(dice.between(3, 12)), minutes=int(dice.between(0, 600)))
    started = story.started_at - days
    older = Generation(
        service, before, dice.suffix(9), revision, started - timedelta(days=9), story.pool_before, current=False
    )
    released = _released(story, service)
    running = Generation(
        service, service.version, dice.suffix(9), revision + 1, started, story.pool_before, current=not released
    )
    if not released:
        return [older, running]

    if service.name == story.culprit:
        fields = (story.new_version, story.template_hash, revision + 2, story.deployed_at, story.pool_after)
    else:
        moment = story.after(NEIGHBOUR_RELEASE_MINUTE)
        fields = (NEIGHBOUR_VERSION, dice.suffix(9), revision + 2, moment, story.pool_before)
    return [older, running, Generation(service, *fields, current=True)]


def _previous(version: str) -> str:
    major, minor, patch = (int(part) for part in version.split("."))
    return f"{major}.{minor}.{patch - 1}" if patch else f"{major}.{minor - 1}.3"


def _pod(story: Story, generation: Generation, index: int, number: int, dice: Dice) -> Pod:
    service = generation.service
    suffix = dice.suffix()
    started, ended = generation.created_at + timedelta(seconds=20 + 15 * index), None
    if _released(story, service):
        takes_over = _takes_over(story, service, index)
        started, ended = (takes_over, None) if generation.current else (started, takes_over)
    if service.name == story.culprit and generation.current and index == 0:
        suffix = story.first_pod

    noisy = service.name == NOISY
    nodes = NODES if noisy else NODES[:3]
    return Pod(
        name=f"{generation.replica_set}-{suffix}",
        generation=generation,
        index=index,
        node=CROWDED_NODE if noisy and index == 1 else nodes[(number + index) % len(nodes)],
        ip=f"10.42.{number + 1}.{int(dice.between(10, 250))}",
        started_at=started,
        ended_at=ended,
        restarted_at=story.after(RESTART_MINUTE) if noisy and index == 1 else None,
    )


def _takes_over(story: Story, service: Service, index: int) -> datetime:
    if service.name == story.culprit:
        return story.ready_at(index)

    return story.after(NEIGHBOUR_RELEASE_MINUTE) + timedelta(seconds=30 + 45 * index)
