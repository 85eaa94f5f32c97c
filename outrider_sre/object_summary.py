"""The few facts about an object that a list shows, by kind: what `kubectl get` puts into its columns.

Owns which facts those are; knows neither files nor tools.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Manifest = dict[str, Any]


def summarise(manifest: Manifest) -> Manifest:
    """The facts for the object's kind; kinds without any have an empty status."""
    summary = _SUMMARIES.get(manifest["kind"])
    return summary(manifest) if summary else {}


def _pod(pod: Manifest) -> Manifest:
    containers = pod["status"]["containerStatuses"]
    ended = [one["lastState"]["terminated"]["reason"] for one in containers if "lastState" in one]
    return {
        "phase": pod["status"]["phase"],
        "ready": f"{sum(1 for one in containers if one['ready'])}/{len(containers)}",
        "restarts": sum(one["restartCount"] for one in containers),
        "node": pod["spec"]["nodeName"],
        "image": pod["spec"]["containers"][0]["image"],
        "last_termination_reason": ended[0] if ended else None,
    }


def _replicated(manifest: Manifest) -> Manifest:
    wanted = manifest["spec"]["replicas"]
    containers = manifest["spec"]["template"]["spec"]["containers"]
    return {"ready": f"{manifest['status']['readyReplicas']}/{wanted}", "image": containers[0]["image"]}


def _node(node: Manifest) -> Manifest:
    return {condition["type"]: condition["status"] for condition in node["status"]["conditions"]}


def _config_map(config_map: Manifest) -> Manifest:
    return {"keys": sorted(config_map["data"])}


def _service(service: Manifest) -> Manifest:
    return {"selector": service["spec"]["selector"], "ports": [port["port"] for port in service["spec"]["ports"]]}


def _job(job: Manifest) -> Manifest:
    return dict(job["status"])


_SUMMARIES: dict[str, Callable[[Manifest], Manifest]] = {
    "Pod": _pod,
    "Deployment": _replicated,
    "ReplicaSet": _replicated,
    "StatefulSet": _replicated,
    "Node": _node,
    "ConfigMap": _config_map,
    "Service": _service,
    "Job": _job,
}
