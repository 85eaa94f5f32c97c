"""The cluster's objects at the end of the story, shaped as the Kubernetes API shows them.

Owns manifests only; what happened to them over time is in `happenings`. Configuration is in config maps whose names
carry a hash, one per replica set, so that a rollback finds its own settings: their history is in the objects.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from outrider_sre.times import format_time
from tools.incident.fleet import CROWDED_NODE, NODES, Fleet, Generation, Pod
from tools.incident.samples import BATCH_KILLS, BATCH_POD, DISK_MINUTES
from tools.incident.story import NEIGHBOUR, Service, Story

Manifest = dict[str, Any]


def write_objects(story: Story, fleet: Fleet) -> list[Manifest]:
    """Every object of the cluster."""
    objects: list[Manifest] = [_node(story, number, node) for number, node in enumerate(NODES)]
    for service in story.services:
        generations = [one for one in fleet.generations if one.service.name == service.name]
        objects.append(_deployment(story, service, generations))
        objects += [_replica_set(story, one) for one in generations]
        objects += [_config_map(story, one) for one in generations]
        objects.append(_service(story, service))
    objects += [_pod(story, pod) for pod in fleet.pods if pod.alive(story.ended_at)]
    objects += _database(story)
    objects += _batch(story)
    return objects


def config_map_name(generation: Generation) -> str:
    """The config map that a generation reads."""
    return f"{generation.service.name}-config-{generation.template_hash[:5]}"


def when(moment: datetime) -> str:
    """Kubernetes writes whole seconds."""
    return format_time(int(moment.timestamp()))


def _manifest(kind: str, name: str, created: datetime, namespace: str | None, **more: Any) -> Manifest:
    version = "apps/v1" if kind in ("Deployment", "ReplicaSet", "StatefulSet") else "v1"
    metadata: Manifest = {"name": name, "creationTimestamp": when(created)}
    if namespace:
        metadata["namespace"] = namespace
    metadata.update(more.pop("metadata", {}))
    return {"apiVersion": "batch/v1" if kind == "Job" else version, "kind": kind, "metadata": metadata, **more}


def _labels(service: Service) -> dict[str, str]:
    return {"app": service.name, "part-of": "shop"}


def _node(story: Story, number: int, node: str) -> Manifest:
    crowded = node == CROWDED_NODE
    cleared = story.after(DISK_MINUTES[1]) if crowded else story.started_at - timedelta(days=40)
    conditions = [
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"},
        {
            "type": "DiskPressure",
            "status": "False",
            "reason": "KubeletHasNoDiskPressure",
            "lastTransitionTime": when(cleared),
        },
        {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"},
    ]
    return _manifest(
        "Node",
        node,
        story.started_at - timedelta(days=61 + number),
        None,
        metadata={"labels": {"kubernetes.io/hostname": node, "zone": f"zone-{'abc'[number % 3]}"}},
        status={"conditions": conditions, "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"}},
    )


def _template(story: Story, generation: Generation) -> Manifest:
    service = generation.service
    addresses = [
        {"name": f"{upstream.upper()}_URL", "value": f"http://{upstream}.{story.namespace}.svc:8080"}
        for upstream in service.calls
    ]
    container = {
        "name": service.name,
        "image": f"registry.shop.example/{service.name}:{generation.version}",
        "env": addresses,
        "envFrom": [{"configMapRef": {"name": config_map_name(generation)}}],
        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
    }
    return {
        "metadata": {"labels": {**_labels(service), "pod-template-hash": generation.template_hash}},
        "spec": {"containers": [container]},
    }


def _change_cause(story: Story, generation: Generation) -> str:
    if generation.current and generation.service.name == story.culprit:
        return f"release {generation.version}: tidy up service settings"
    if generation.current and generation.service.name == NEIGHBOUR:
        return f"release {generation.version}: correct spelling in category names"

    return f"release {generation.version}"


def _deployment(story: Story, service: Service, generations: list[Generation]) -> Manifest:
    current = generations[-1]
    annotations = {
        "deployment.kubernetes.io/revision": str(current.revision),
        "kubernetes.io/change-cause": _change_cause(story, current),
    }
    replicas = service.replicas
    return _manifest(
        "Deployment",
        service.name,
        generations[0].created_at - timedelta(days=100),
        story.namespace,
        metadata={"labels": _labels(service), "annotations": annotations},
        spec={
            "replicas": replicas,
            "selector": {"matchLabels": {"app": service.name}},
            "template": _template(story, current),
        },
        status={"replicas": replicas, "readyReplicas": replicas, "updatedReplicas": replicas},
    )


def _replica_set(story: Story, generation: Generation) -> Manifest:
    replicas = generation.service.replicas if generation.current else 0
    annotations = {
        "deployment.kubernetes.io/revision": str(generation.revision),
        "kubernetes.io/change-cause": _change_cause(story, generation),
    }
    owner = {"kind": "Deployment", "name": generation.service.name, "controller": True}
    labels = {**_labels(generation.service), "pod-template-hash": generation.template_hash}
    return _manifest(
        "ReplicaSet",
        generation.replica_set,
        generation.created_at,
        story.namespace,
        metadata={"labels": labels, "annotations": annotations, "ownerReferences": [owner]},
        spec={"replicas": replicas, "template": _template(story, generation)},
        status={"replicas": replicas, "readyReplicas": replicas},
    )


def _config_map(story: Story, generation: Generation) -> Manifest:
    data = {"LOG_LEVEL": "info", "HTTP_TIMEOUT_MS": "2000"}
    if generation.service.has_database:
        database = f"postgres://postgres.{story.namespace}.svc:5432/{generation.service.name}"
        data |= {"DB_URL": database, "DB_ACQUIRE_TIMEOUT_MS": "3000", story.setting: str(generation.pool_size)}
    if generation.current and generation.service.name == story.culprit:
        data["FEATURE_COMPACT_RESPONSES"] = "true"
    return _manifest(
        "ConfigMap",
        config_map_name(generation),
        generation.created_at - timedelta(seconds=3),
        story.namespace,
        metadata={"labels": _labels(generation.service)},
        data=data,
    )


def _service(story: Story, service: Service) -> Manifest:
    return _manifest(
        "Service",
        service.name,
        story.started_at - timedelta(days=140),
        story.namespace,
        metadata={"labels": _labels(service)},
        spec={"selector": {"app": service.name}, "ports": [{"port": 8080}], "type": "ClusterIP"},
    )


def _pod(story: Story, pod: Pod) -> Manifest:
    restarts = 1 if pod.restarted_at else 0
    status: Manifest = {
        "name": pod.service.name,
        "ready": True,
        "restartCount": restarts,
        "state": {"running": {"startedAt": when(pod.restarted_at or pod.started_at)}},
    }
    if pod.restarted_at:
        status["lastState"] = {"terminated": {"reason": "Error", "exitCode": 137, "finishedAt": when(pod.restarted_at)}}
    template = _template(story, pod.generation)
    owner = {"kind": "ReplicaSet", "name": pod.generation.replica_set, "controller": True}
    return _manifest(
        "Pod",
        pod.name,
        pod.started_at - timedelta(seconds=8),
        story.namespace,
        metadata={"labels": template["metadata"]["labels"], "ownerReferences": [owner]},
        spec={"nodeName": pod.node, **template["spec"]},
        status={"phase": "Running", "podIP": pod.ip, "containerStatuses": [status]},
    )


def _database(story: Story) -> list[Manifest]:
    created = story.started_at - timedelta(days=200)
    labels = {"app": "postgres", "part-of": "shop"}
    image = "registry.shop.example/postgres:16.4"
    container = {"name": "postgres", "image": image, "args": ["-c", "max_connections=400"]}
    status = {"name": "postgres", "ready": True, "restartCount": 0, "state": {"running": {"startedAt": when(created)}}}
    return [
        _manifest(
            "StatefulSet",
            "postgres",
            created,
            story.namespace,
            metadata={"labels": labels},
            spec={"replicas": 1, "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}},
            status={"replicas": 1, "readyReplicas": 1},
        ),
        _manifest(
            "Pod",
            "postgres-0",
            created,
            story.namespace,
            metadata={"labels": labels, "ownerReferences": [{"kind": "StatefulSet", "name": "postgres"}]},
            spec={"nodeName": NODES[0], "containers": [container]},
            status={"phase": "Running", "podIP": "10.42.40.5", "containerStatuses": [status]},
        ),
    ]


def _batch(story: Story) -> list[Manifest]:
    created, labels = story.after(BATCH_KILLS[0] - 5), {"app": "report-export", "job-name": BATCH_POD.rsplit("-", 1)[0]}
    killed = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": when(story.after(BATCH_KILLS[-1]))}
    container = {
        "name": "export",
        "image": "registry.shop.example/report-export:2.2.0",
        "resources": {"limits": {"memory": "512Mi"}},
    }
    status = {
        "name": "export",
        "ready": False,
        "restartCount": len(BATCH_KILLS),
        "state": {"terminated": {"reason": "Completed", "exitCode": 0}},
        "lastState": {"terminated": killed},
    }
    return [
        _manifest(
            "Job",
            labels["job-name"],
            created,
            "batch",
            metadata={"labels": labels},
            spec={"backoffLimit": 6, "template": {"spec": {"containers": [container]}}},
            status={"succeeded": 1},
        ),
        _manifest(
            "Pod",
            BATCH_POD,
            created,
            "batch",
            metadata={"labels": labels, "ownerReferences": [{"kind": "Job", "name": labels["job-name"]}]},
            spec={"nodeName": CROWDED_NODE, "containers": [container]},
            status={"phase": "Succeeded", "podIP": "10.42.77.9", "containerStatuses": [status]},
        ),
    ]
