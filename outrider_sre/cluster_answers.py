"""What the tools of the cluster server answer: the typed models that become structured content.

Owns names and types of the fields, which rehearsals and reports address; knows neither files nor tools.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


class ObjectSummary(BaseModel):
    """One object in a list; `status` holds what `kubectl get` would show for its kind."""

    kind: str
    name: str
    namespace: str | None
    created_at: str
    labels: dict[str, str]
    status: dict[str, Any]


class ObjectsAnswer(BaseModel):
    """Objects of one kind."""

    kind: str
    total: int
    truncated: bool
    items: list[ObjectSummary]


class ObjectAnswer(BaseModel):
    """One object in full."""

    kind: str
    name: str
    namespace: str | None
    object: dict[str, Any]


class EventItem(BaseModel):
    """One event: what happened to which object, how often, first and last seen."""

    type: str
    reason: str
    message: str
    kind: str
    name: str
    namespace: str
    count: int
    first_ts: str
    last_ts: str


class EventsAnswer(BaseModel):
    """Events, the newest first."""

    total: int
    truncated: bool
    events: list[EventItem]


class ChangeItem(BaseModel):
    """One setting that the revision changed."""

    field: str
    before: str
    after: str


class RevisionItem(BaseModel):
    """One revision of a deployment and what it changed."""

    deployment: str
    namespace: str
    revision: int
    created_at: str
    replica_set: str
    images: list[str]
    change_cause: str
    replicas: int
    changes: list[ChangeItem]


class HistoryAnswer(BaseModel):
    """The revisions of one deployment, the newest first."""

    deployment: str
    namespace: str
    current_revision: int
    revisions: list[RevisionItem]


class RolloutsAnswer(BaseModel):
    """Revisions of all deployments since a moment, the newest first."""

    since: str
    total: int
    truncated: bool
    rollouts: list[RevisionItem]
