"""What happened: the incident as one value from which every log line, sample and object follows.

Owns the services, the moments of the causal chain and how badly each pod suffers when. Writes nothing; `record` does.
Invariant: equal stories give equal recordings, on every platform.

The chain: a release of the *culprit* halves its database connection pool → once traffic reaches the new pods their
pools are exhausted → requests wait and fail → the *victim*, which calls the culprit, times out and retries → the
retries make it worse → the victim answers with 5xx → the alert fires. Around it happen things that have nothing to do
with it: an earlier harmless release, a batch job killed for memory, a node short of disk, a certificate soon to expire,
and a service that always logs errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from outrider_sre.errors import BadRequestError


@dataclass(frozen=True, slots=True)
class Service:
    """One service of the shop: its size, its load, the services it calls and its routes."""

    name: str
    replicas: int
    requests_per_second: float
    routes: tuple[str, ...]
    version: str
    calls: tuple[str, ...] = ()
    has_database: bool = False


SERVICES = (
    Service(
        "gateway",
        2,
        90.0,
        ("POST /api/checkout", "GET /api/products", "GET /api/suggestions", "GET /api/basket"),
        "4.8.2",
        calls=("checkout", "catalog", "recommendations"),
    ),
    Service(
        "checkout",
        3,
        24.0,
        ("POST /checkout", "PUT /basket", "GET /basket"),
        "3.19.0",
        calls=("inventory", "payments", "pricing"),
        has_database=True,
    ),
    Service("inventory", 3, 48.0, ("GET /stock", "POST /reservations"), "2.13.4", has_database=True),
    Service("payments", 2, 11.0, ("POST /charges", "POST /refunds"), "7.2.0", has_database=True),
    Service("pricing", 2, 30.0, ("GET /prices", "POST /quotes"), "1.30.5", has_database=True),
    Service(
        "catalog",
        2,
        42.0,
        ("GET /products", "GET /categories"),
        "5.3.0",
        calls=("inventory", "pricing"),
        has_database=True,
    ),
    Service("recommendations", 2, 18.0, ("GET /suggestions",), "0.44.1", calls=("catalog",)),
)
ENTRY = "gateway"
"""Where customers come in; everything they see goes through it."""
NEIGHBOUR = "catalog"
"""Has the earlier, harmless release."""
NOISY = "recommendations"
"""Always logs errors, before the incident as much as during it."""


@dataclass(frozen=True, slots=True)
class Story:
    """One incident. Change a field and the whole recording changes with it."""

    seed: int = 20260917
    namespace: str = "shop"
    started_at: datetime = datetime(2026, 9, 17, 12, 30, tzinfo=UTC)
    minutes: int = 120
    culprit: str = "inventory"
    victim: str = "checkout"
    deployed_at: datetime = datetime(2026, 9, 17, 14, 5, 12, tzinfo=UTC)
    new_version: str = "2.14.0"
    template_hash: str = "6b8f9d7c4"
    first_pod: str = "q4tzn"
    setting: str = "DB_POOL_SIZE"
    pool_before: int = 20
    pool_after: int = 10
    services: tuple[Service, ...] = SERVICES

    def __post_init__(self) -> None:
        hint = "see `Story` for what the parts of the causal chain need"
        if self.victim not in self.service(ENTRY).calls:
            raise BadRequestError(f"customers do not reach `{self.victim}` through `{ENTRY}`", hint)
        if self.culprit not in self.service(self.victim).calls:
            raise BadRequestError(f"`{self.victim}` does not call `{self.culprit}`, so it cannot suffer from it", hint)
        if not self.service(self.culprit).has_database or self.culprit == NEIGHBOUR:
            raise BadRequestError(f"`{self.culprit}` has no connection pool to run out of", hint)
        if self.pool_after * 2 > self.pool_before:
            raise BadRequestError("the pool must shrink to half or less, or it does not run out", hint)
        if not timedelta(minutes=80) <= self.deployed_at - self.started_at <= timedelta(minutes=self.minutes - 20):
            raise BadRequestError("the release must come at least 80 minutes in and 20 before the end", hint)

    def service(self, name: str) -> Service:
        """The service of that name."""
        for service in self.services:
            if service.name == name:
                return service

        raise BadRequestError(f"there is no service `{name}`", f"there are: {', '.join(s.name for s in self.services)}")

    @property
    def ended_at(self) -> datetime:
        """The end of the recording, which is `now` for the investigation."""
        return self.started_at + timedelta(minutes=self.minutes)

    def ready_at(self, index: int) -> datetime:
        """When the culprit's new pod of that index takes over from an old one."""
        return self.deployed_at + timedelta(seconds=28 + 41 * index)

    def saturated_at(self, index: int) -> datetime:
        """When that pod's connection pool first runs out."""
        return self.ready_at(index) + timedelta(seconds=83 + 17 * index)

    def pod_stress(self, index: int, moment: datetime) -> float:
        """How far that pod has gone under: 0 healthy, 1 as bad as it gets, four minutes after its pool ran out."""
        seconds = (moment - self.saturated_at(index)).total_seconds()
        return min(max(seconds / 240.0, 0.0), 1.0)

    def stress(self, moment: datetime) -> float:
        """The same for the culprit as a whole."""
        replicas = self.service(self.culprit).replicas
        return math.fsum(self.pod_stress(index, moment) for index in range(replicas)) / replicas

    def after(self, minutes: float) -> datetime:
        """A moment so many minutes into the recording, for what is unrelated to the chain."""
        return self.started_at + timedelta(minutes=minutes)
