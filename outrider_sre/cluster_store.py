"""Reading and searching the recorded cluster objects and events.

Owns the file `cluster.json` in memory and how objects relate (a deployment's revisions and what changed between them);
knows no MCP. Invariant: objects are shown as recorded, never altered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from outrider_sre.errors import BadRequestError, BrokenIncidentError, NotFoundError
from outrider_sre.incident import Incident

Manifest = dict[str, Any]

_REVISION = "deployment.kubernetes.io/revision"
_CHANGE_CAUSE = "kubernetes.io/change-cause"
_SHORT = {"po": "Pod", "deploy": "Deployment", "rs": "ReplicaSet", "no": "Node", "cm": "ConfigMap", "svc": "Service"}


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that differs from the revision before; an empty side means it was not set."""

    field: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Revision:
    """One revision of a deployment."""

    deployment: str
    namespace: str
    revision: int
    created_at: str
    replica_set: str
    images: tuple[str, ...]
    change_cause: str
    replicas: int
    changes: tuple[Change, ...]


class ClusterStore:
    """All objects and events of one incident."""

    def __init__(self, objects: list[Manifest], events: list[Manifest]) -> None:
        self._objects = objects
        self.events = events
        self.kinds = sorted({str(one["kind"]) for one in objects})

    def kind(self, text: str) -> str:
        """The kind meant by `Pod`, `pod`, `pods` or `po`."""
        wanted = text.strip().lower()
        for kind in self.kinds:
            if wanted in (kind.lower(), f"{kind.lower()}s") or _SHORT.get(wanted) == kind:
                return kind

        raise BadRequestError(f"there are no objects of kind `{text}`", f"kinds recorded: {', '.join(self.kinds)}")

    def objects(self, kind: str, namespace: str | None) -> list[Manifest]:
        """The objects of a kind, in one namespace or in all."""
        found = [one for one in self._objects if one["kind"] == kind]
        # Nodes have no namespace; asking for one must not make them vanish.
        return [one for one in found if namespace in (None, one["metadata"].get("namespace", namespace))]

    def named(self, kind: str, name: str, namespace: str | None) -> Manifest:
        """One object; without a namespace it must be the only one of its name."""
        candidates = self.objects(kind, namespace)
        found = [one for one in candidates if one["metadata"]["name"] == name]
        if len(found) == 1:
            return found[0]
        if found:
            raise BadRequestError(f"several namespaces have a {kind} `{name}`", "give the namespace")

        names = [one["metadata"]["name"] for one in candidates]
        close = get_close_matches(name, names, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(f'`{one}`' for one in close)}?" if close else "list them with `list_objects`"
        where = f" in namespace `{namespace}`" if namespace else ""
        raise NotFoundError(f"there is no {kind} `{name}`{where}", hint)

    def revisions(self, deployment: Manifest) -> list[Revision]:
        """The revisions of a deployment, oldest first, each with what changed in it."""
        name, namespace = deployment["metadata"]["name"], deployment["metadata"]["namespace"]
        owned = [one for one in self.objects("ReplicaSet", namespace) if _owned_by(one, name)]
        owned.sort(key=lambda one: int(one["metadata"]["annotations"][_REVISION]))
        return list(self._compared(name, owned))

    def _compared(self, deployment: str, replica_sets: list[Manifest]) -> Iterator[Revision]:
        before: dict[str, str] | None = None
        for one in replica_sets:
            metadata, settings = one["metadata"], self._settings(one)
            containers = one["spec"]["template"]["spec"]["containers"]
            yield Revision(
                deployment=deployment,
                namespace=metadata["namespace"],
                revision=int(metadata["annotations"][_REVISION]),
                created_at=metadata["creationTimestamp"],
                replica_set=metadata["name"],
                images=tuple(container["image"] for container in containers),
                change_cause=metadata["annotations"].get(_CHANGE_CAUSE, ""),
                replicas=one["spec"]["replicas"],
                changes=() if before is None else _changes(before, settings),
            )
            before = settings

    def _settings(self, replica_set: Manifest) -> dict[str, str]:
        """What a revision runs with: images, environment, and the content of its config maps."""
        namespace = replica_set["metadata"]["namespace"]
        settings: dict[str, str] = {}
        for container in replica_set["spec"]["template"]["spec"]["containers"]:
            settings[f"{container['name']}.image"] = container["image"]
            for variable in container.get("env", []):
                settings[f"{container['name']}.env.{variable['name']}"] = variable["value"]
            for source in container.get("envFrom", []):
                config_map = self.named("ConfigMap", source["configMapRef"]["name"], namespace)
                settings |= {f"{container['name']}.config.{key}": text for key, text in config_map["data"].items()}

        return settings


def _owned_by(manifest: Manifest, deployment: str) -> bool:
    owners = manifest["metadata"].get("ownerReferences", [])
    return any(owner["kind"] == "Deployment" and owner["name"] == deployment for owner in owners)


def _changes(before: dict[str, str], after: dict[str, str]) -> tuple[Change, ...]:
    names = sorted(before.keys() | after.keys())
    return tuple(
        Change(name, before.get(name, ""), after.get(name, "")) for name in names if before.get(name) != after.get(name)
    )


@cache
def open_cluster(incident: Incident) -> ClusterStore:
    """Read the objects and events of the incident; done once, on the first question."""
    path = incident.file("cluster.json")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return ClusterStore(content["objects"], content["events"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        hint = "write the incident again with `write_incident`"
        raise BrokenIncidentError(f"the cluster file `{path}` is damaged: {error}", hint) from None
