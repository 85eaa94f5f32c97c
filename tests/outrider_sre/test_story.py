"""The story and its recording: deterministic, large enough to need searching, and true to its causal chain."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from outrider_sre.errors import BadRequestError
from outrider_sre.incident import ALERT, PACKAGED
from tests.outrider_sre.conftest import OTHER_STORY
from tools.incident.record import write_incident
from tools.incident.story import Story


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of an incident; compressed ones unpacked, because compressors differ between machines."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {
        path.relative_to(folder).as_posix(): gzip.decompress(path.read_bytes())
        if path.suffix == ".gz"
        else path.read_bytes()
        for path in files
    }


def log_rows(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in sorted((folder / "logs").glob("*.gz")):
        namespace, service = path.name.removesuffix(".jsonl.gz").split(".")
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        rows += [{"namespace": namespace, "service": service, **json.loads(line)} for line in lines]
    return rows


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return log_rows(PACKAGED)


def test_the_packaged_incident_is_what_the_recorder_writes_for_the_default_story(tmp_path: Path) -> None:
    write_incident(tmp_path, Story())

    written, packaged = contents(tmp_path), contents(PACKAGED)

    assert sorted(written) == sorted(packaged)
    assert [name for name in written if written[name] != packaged[name]] == []
    assert packaged["alert.json"] == ALERT.read_bytes()


def test_writing_a_story_over_another_leaves_nothing_of_the_other(tmp_path: Path, other_incident: Path) -> None:
    shutil.copytree(PACKAGED, tmp_path, dirs_exist_ok=True)
    write_incident(tmp_path, OTHER_STORY)

    assert contents(tmp_path) == contents(other_incident)


def test_the_recording_is_too_large_to_read_and_small_enough_to_ship(rows: list[dict[str, Any]]) -> None:
    assert len(rows) >= 30_000
    assert len({row["service"] for row in rows}) >= 6
    assert sum(path.stat().st_size for path in PACKAGED.rglob("*") if path.is_file()) < 3_000_000


def test_the_cause_is_in_a_handful_of_lines_among_thousands_of_symptoms(rows: list[dict[str, Any]]) -> None:
    decisive = [row for row in rows if "pool exhausted" in row["message"]]
    errors = Counter(row["service"] for row in rows if row["level"] == "error")

    assert {row["service"] for row in decisive} == {"inventory"}
    assert 3 <= len(decisive) <= 20
    assert sum(errors.values()) > 3000
    assert errors["checkout"] > errors["inventory"] > 20 * len(decisive)


def test_effects_come_after_their_causes(rows: list[dict[str, Any]]) -> None:
    story, alert = Story(), json.loads(ALERT.read_text(encoding="utf-8"))
    first_decisive = min(row["ts"] for row in rows if "pool exhausted" in row["message"])
    first_timeout = min(row["ts"] for row in rows if row["message"].startswith("call to inventory failed"))
    first_edge = min(row["ts"] for row in rows if row["service"] == "gateway" and row.get("upstream") == "checkout")

    assert story.deployed_at.isoformat() < first_decisive < first_timeout < first_edge < alert["startsAt"]
    assert alert["startsAt"] < story.ended_at.isoformat()


def test_the_first_decisive_line_comes_from_the_pod_the_story_names(rows: list[dict[str, Any]]) -> None:
    decisive = [row for row in rows if "pool exhausted" in row["message"]]

    assert min(decisive, key=lambda row: row["ts"])["pod"] == "inventory-6b8f9d7c4-q4tzn"


def test_no_pod_writes_a_line_outside_its_life(rows: list[dict[str, Any]]) -> None:
    """The harmless release replaced its pods long before the incident: the old ones must be silent by then."""
    old = {row["pod"] for row in rows if row["service"] == "catalog" and row["ts"] < "2026-09-17T13:31"}
    late = {row["pod"] for row in rows if row["service"] == "catalog" and row["ts"] > "2026-09-17T13:35"}

    assert len(old) == len(late) == 2
    assert not old & late


def test_the_unrelated_things_are_there_to_be_ruled_out(rows: list[dict[str, Any]]) -> None:
    reasons = {event["reason"] for event in json.loads((PACKAGED / "cluster.json").read_text("utf-8"))["events"]}
    noisy = [row["ts"] for row in rows if row["service"] == "recommendations" and row["level"] == "error"]

    assert {"OOMKilled", "NodeHasDiskPressure", "ExpiresSoon", "ScalingReplicaSet"} <= reasons
    assert any("certificate" in row["message"] for row in rows)
    assert any("OutOfMemoryError" in row["message"] for row in rows)
    before = sum(1 for ts in noisy if ts < "2026-09-17T13:30")
    after = sum(1 for ts in noisy if ts >= "2026-09-17T13:30")
    assert 0.8 < before / after < 1.25


def test_nothing_beside_the_data_gives_the_cause_away() -> None:
    told = (PACKAGED / "meta.json").read_text("utf-8") + ALERT.read_text("utf-8")

    assert "inventory" not in told
    assert "2.14.0" not in told


def test_another_story_gives_another_recording(other_incident: Path) -> None:
    other = log_rows(other_incident)
    decisive = [row for row in other if "pool exhausted" in row["message"]]
    alert = json.loads((other_incident / "alert.json").read_text("utf-8"))

    assert {row["service"] for row in decisive} == {"pricing"}
    assert min(decisive, key=lambda row: row["ts"])["pod"] == "pricing-5d4c7b9f8-wm2xk"
    assert "8 of 8 in use" in decisive[0]["message"]
    assert alert["labels"]["service"] == "catalog"
    assert "2027-02-03T07:28" < alert["startsAt"] < "2027-02-03T08:00"


def test_the_same_story_from_another_seed_keeps_its_chain(tmp_path: Path) -> None:
    write_incident(tmp_path, replace(Story(), seed=1))

    assert contents(tmp_path)["logs/shop.gateway.jsonl.gz"] != contents(PACKAGED)["logs/shop.gateway.jsonl.gz"]
    assert json.loads((tmp_path / "alert.json").read_text("utf-8"))["labels"]["service"] == "checkout"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"culprit": "recommendations"}, "does not call"),
        ({"victim": "payments"}, "do not reach"),
        ({"culprit": "nothing"}, "does not call"),
        ({"victim": "nothing"}, "do not reach"),
        ({"victim": "recommendations", "culprit": "catalog"}, "has no connection pool"),
        ({"pool_after": 15}, "must shrink"),
        ({"deployed_at": Story().started_at + timedelta(minutes=5)}, "the release must come"),
        ({"deployed_at": Story().ended_at}, "the release must come"),
    ],
)
def test_a_story_that_cannot_happen_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadRequestError, match=reason):
        replace(Story(), **changes)
