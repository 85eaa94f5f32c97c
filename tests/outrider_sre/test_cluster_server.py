"""The tools of the cluster server."""

from __future__ import annotations

import pytest

from outrider_sre.cluster import server
from tests.outrider_sre.asking import ask, refused


@pytest.mark.parametrize("kind", ["Pod", "pod", "pods", "po"])
async def test_objects_are_listed_by_kind_namespace_and_labels(kind: str) -> None:
    answer = await ask(server, "list_objects", kind=kind, namespace="shop", label_selector="app=inventory")

    assert answer["kind"] == "Pod"
    assert answer["total"] == 3
    assert {item["status"]["image"].rsplit(":", 1)[1] for item in answer["items"]} == {"2.14.0"}
    assert {item["status"]["phase"] for item in answer["items"]} == {"Running"}


async def test_a_long_list_is_cut_and_says_so() -> None:
    answer = await ask(server, "list_objects", kind="ReplicaSet", limit=2)

    assert len(answer["items"]) == 2
    assert answer["truncated"] is True


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "Node", "ConfigMap", "Service", "Job"])
async def test_every_kind_has_a_short_status(kind: str) -> None:
    answer = await ask(server, "list_objects", kind=kind)

    assert answer["items"]
    assert all(item["status"] for item in answer["items"])


async def test_nodes_are_listed_whatever_namespace_is_asked_for() -> None:
    answer = await ask(server, "list_objects", kind="Node", namespace="shop")

    assert answer["total"] == 4
    assert all(item["status"]["Ready"] == "True" for item in answer["items"])


async def test_an_object_is_shown_in_full_and_leads_to_its_settings() -> None:
    deployment = (await ask(server, "get_object", kind="Deployment", name="inventory"))["object"]
    source = deployment["spec"]["template"]["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"]
    settings = (await ask(server, "get_object", kind="ConfigMap", name=source, namespace="shop"))["object"]

    assert settings["data"]["DB_POOL_SIZE"] == "10"


async def test_the_history_of_a_deployment_tells_what_each_revision_changed() -> None:
    answer = await ask(server, "rollout_history", deployment="inventory")

    newest, before, oldest = answer["revisions"]
    assert answer["current_revision"] == newest["revision"] == before["revision"] + 1
    assert newest["created_at"] == "2026-09-17T14:05:12Z"
    assert newest["replicas"] == 3
    assert before["replicas"] == 0
    assert {"field": "inventory.config.DB_POOL_SIZE", "before": "20", "after": "10"} in newest["changes"]
    assert oldest["changes"] == []


async def test_recent_rollouts_of_all_deployments_come_newest_first() -> None:
    answer = await ask(server, "rollouts")
    later = await ask(server, "rollouts", since="2026-09-17T14:00:00Z", namespace="shop")

    assert [one["deployment"] for one in answer["rollouts"]] == ["inventory", "catalog"]
    assert [one["field"] for one in answer["rollouts"][1]["changes"]] == ["catalog.image"]
    assert [one["deployment"] for one in later["rollouts"]] == ["inventory"]


async def test_events_are_filtered_by_type_object_namespace_and_time() -> None:
    warnings = await ask(server, "events", type="Warning")
    batch = await ask(server, "events", namespace="batch")
    recent = await ask(server, "events", since="2026-09-17T14:10:00Z", type="Warning")
    node = await ask(server, "events", involved_object="Node/worker-4")
    deployment = await ask(server, "events", involved_object="inventory")

    times = [event["last_ts"] for event in warnings["events"]]
    assert times == sorted(times, reverse=True)
    assert {event["reason"] for event in batch["events"]} == {"OOMKilled", "BackOff"}
    assert {event["reason"] for event in recent["events"]} == {"Unhealthy"}
    assert "NodeHasDiskPressure" in {event["reason"] for event in node["events"]}
    assert {event["reason"] for event in deployment["events"]} == {"ScalingReplicaSet"}
    assert all(event["first_ts"] <= event["last_ts"] for event in warnings["events"])


async def test_what_does_not_exist_is_refused_with_the_nearest_names() -> None:
    kind = await refused(server, "list_objects", kind="Gadget")
    pod = await refused(server, "get_object", kind="Deployment", name="inventry")
    elsewhere = await refused(server, "get_object", kind="Deployment", name="inventory", namespace="batch")

    assert "hint: kinds recorded: ConfigMap, Deployment" in kind
    assert "did you mean `inventory`" in pod
    assert "in namespace `batch`" in elsewhere
    assert "cannot read the label selector" in await refused(server, "list_objects", kind="Pod", label_selector="a>1")
    assert "there is no Deployment `postgres`" in await refused(server, "rollout_history", deployment="postgres")
