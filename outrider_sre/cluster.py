"""The cluster server: recorded objects, events and rollouts over MCP, in the manner of Kubernetes.

Owns the tools; the shape of their answers is in `cluster_answers`, the objects are in `cluster_store`. Invariant: every
answer is bounded and says whether something was left out. Start it with `python -P -m outrider_sre.cluster`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from mcp.server import MCPServer
from pydantic import Field

from outrider_sre.cluster_answers import (
    ChangeItem,
    EventItem,
    EventsAnswer,
    HistoryAnswer,
    ObjectAnswer,
    ObjectsAnswer,
    ObjectSummary,
    RevisionItem,
    RolloutsAnswer,
)
from outrider_sre.cluster_store import ClusterStore, Manifest, Revision, open_cluster
from outrider_sre.errors import BadRequestError
from outrider_sre.incident import incident_folder, open_incident
from outrider_sre.label_selector import parse_label_selector
from outrider_sre.object_summary import summarise
from outrider_sre.serving import LOG_LEVEL, READ_ONLY, explained, limited, serve
from outrider_sre.times import format_time, parse_time

HIGHEST_LIMIT = 200

Namespace = Annotated[str | None, Field(description="default: all namespaces")]
Limit = Annotated[int, Field(description="items at most, up to 200")]
Since = Annotated[str | None, Field(description="ISO-8601 UTC or `now`, with a shift if need be: `now-1h`")]


server = MCPServer(
    "sre-cluster",
    log_level=LOG_LEVEL,
    instructions="A recorded Kubernetes cluster. `rollouts` tells what changed lately, `events` what was noticed.",
)


def _opened() -> tuple[ClusterStore, float]:
    incident = open_incident(incident_folder())
    return open_cluster(incident), incident.now


@server.tool(annotations=READ_ONLY)
async def list_objects(
    kind: Annotated[str, Field(description="such as Pod, Deployment, ReplicaSet, Node, ConfigMap or Service")],
    namespace: Namespace = None,
    label_selector: Annotated[str | None, Field(description="such as `app=checkout` or `app in (a,b)`")] = None,
    limit: Limit = 50,
) -> ObjectsAnswer:
    """List the objects of a kind with a short status each, as `kubectl get` does."""
    with explained():
        store, _ = _opened()
        found_kind = store.kind(kind)
        lets_through = parse_label_selector(label_selector or "")
        found = [one for one in store.objects(found_kind, namespace) if lets_through(_labels(one))]
    shown = found[: limited(limit, HIGHEST_LIMIT)]
    items = [_summary(one) for one in shown]
    return ObjectsAnswer(kind=found_kind, total=len(found), truncated=len(shown) < len(found), items=items)


@server.tool(annotations=READ_ONLY)
async def get_object(kind: str, name: str, namespace: Namespace = None) -> ObjectAnswer:
    """Show one object in full: metadata, spec, status or data."""
    with explained():
        store, _ = _opened()
        found = store.named(store.kind(kind), name, namespace)
    where = found["metadata"].get("namespace")
    return ObjectAnswer(kind=found["kind"], name=name, namespace=where, object=found)


@server.tool(annotations=READ_ONLY)
async def events(
    namespace: Namespace = None,
    involved_object: Annotated[str | None, Field(description="name of the object, or `Kind/name`")] = None,
    since: Since = None,
    type: Annotated[Literal["Normal", "Warning"] | None, Field(description="default: both")] = None,  # noqa: A002
    limit: Limit = 50,
) -> EventsAnswer:
    """List events last seen since a moment (default: the whole recording), newest first; filter by object and type."""
    with explained():
        store, now = _opened()
        earliest = None if since is None else parse_time(since, now)
        found = [
            one
            for one in store.events
            if namespace in (None, one["involvedObject"]["namespace"])
            and type in (None, one["type"])
            and _is_about(one, involved_object)
            and (earliest is None or parse_time(one["lastTimestamp"], now) >= earliest)
        ]
    found.sort(key=lambda one: (one["lastTimestamp"], one["metadata"]["name"]), reverse=True)
    shown = found[: limited(limit, HIGHEST_LIMIT)]
    return EventsAnswer(total=len(found), truncated=len(shown) < len(found), events=[_event(one) for one in shown])


@server.tool(annotations=READ_ONLY)
async def rollout_history(deployment: str, namespace: Namespace = None) -> HistoryAnswer:
    """Show the revisions of a deployment, newest first: when, why, which image, and which settings each one changed."""
    with explained():
        store, _ = _opened()
        found = store.named("Deployment", deployment, namespace)
        revisions = store.revisions(found)
        if not revisions:
            raise BadRequestError(f"the deployment `{deployment}` has no recorded revision", "look at its object")
    return HistoryAnswer(
        deployment=deployment,
        namespace=found["metadata"]["namespace"],
        current_revision=revisions[-1].revision,
        revisions=[_revision(one) for one in reversed(revisions)],
    )


@server.tool(annotations=READ_ONLY)
async def rollouts(
    namespace: Namespace = None,
    since: Annotated[str, Field(description="ISO-8601 UTC or `now`, with a shift if need be")] = "now-2h",
    limit: Limit = 50,
) -> RolloutsAnswer:
    """List what was rolled out since a moment in any deployment, newest first, with the settings each one changed."""
    with explained():
        store, now = _opened()
        earliest = parse_time(since, now)
        deployments = store.objects("Deployment", namespace)
        found = [one for deployment in deployments for one in store.revisions(deployment)]
    recent = [one for one in found if parse_time(one.created_at, now) >= earliest]
    recent.sort(key=lambda one: one.created_at, reverse=True)
    shown = recent[: limited(limit, HIGHEST_LIMIT)]
    return RolloutsAnswer(
        since=format_time(earliest),
        total=len(recent),
        truncated=len(shown) < len(recent),
        rollouts=[_revision(one) for one in shown],
    )


def _labels(manifest: Manifest) -> dict[str, str]:
    labels: dict[str, str] = manifest["metadata"].get("labels", {})
    return labels


def _summary(manifest: Manifest) -> ObjectSummary:
    metadata = manifest["metadata"]
    return ObjectSummary(
        kind=manifest["kind"],
        name=metadata["name"],
        namespace=metadata.get("namespace"),
        created_at=metadata["creationTimestamp"],
        labels=_labels(manifest),
        status=summarise(manifest),
    )


def _is_about(event: Manifest, wanted: str | None) -> bool:
    if wanted is None:
        return True

    about = event["involvedObject"]
    kind, slash, name = wanted.partition("/")
    return about["name"] == (name if slash else wanted) and (not slash or about["kind"].lower() == kind.lower())


def _event(event: Manifest) -> EventItem:
    about = event["involvedObject"]
    return EventItem(
        type=event["type"],
        reason=event["reason"],
        message=event["message"],
        kind=about["kind"],
        name=about["name"],
        namespace=about["namespace"],
        count=event["count"],
        first_ts=event["firstTimestamp"],
        last_ts=event["lastTimestamp"],
    )


def _revision(revision: Revision) -> RevisionItem:
    return RevisionItem(
        deployment=revision.deployment,
        namespace=revision.namespace,
        revision=revision.revision,
        created_at=revision.created_at,
        replica_set=revision.replica_set,
        images=list(revision.images),
        change_cause=revision.change_cause,
        replicas=revision.replicas,
        changes=[ChangeItem(field=one.field, before=one.before, after=one.after) for one in revision.changes],
    )


def main() -> None:
    """Serve over stdio."""
    serve(server)


if __name__ == "__main__":
    main()
