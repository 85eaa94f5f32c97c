"""The doors of the packages: what other programs and configurations may name. A change here is a change for them."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import outrider
import runner
from tests.support.service import bench

DOORS = {
    "db": [
        "Database",
        "DatabaseUnavailable",
        "NoDatabase",
        "QueryRefused",
        "SchemaTooNew",
        "StillOpen",
        "StoreError",
        "UnknownExecution",
        "WriteRefused",
        "WriterClosed",
        "open_database",
    ],
    "outrider": ["add_item", "open_errors"],
    "registry": [
        "ARGUMENTS",
        "COMPOSITE",
        "NOT_STARTED",
        "NO_ENDPOINT_HINT",
        "RESERVE_SHARE",
        "ROUTING_OR_PLAN",
        "SYNTHESIZER",
        "TOLD",
        "AgentOverrides",
        "AgentReference",
        "AgentSpec",
        "ArgumentSpec",
        "CatalogueEntry",
        "ChainSpec",
        "ChatMemorySpec",
        "ChatSpec",
        "CommandSpec",
        "Complexity",
        "ComponentSpec",
        "ConfigError",
        "ConfigProblem",
        "ContextFiles",
        "ContextSpec",
        "Cost",
        "Defaults",
        "Effect",
        "Folder",
        "HttpSpec",
        "IterateSpec",
        "LimitOverrides",
        "Limits",
        "MemoryShown",
        "ModelSpec",
        "OAuthSpec",
        "OnDisconnect",
        "OnEmptyPlan",
        "Part",
        "PhaseSpec",
        "PlaceLimits",
        "PlanSpec",
        "Price",
        "Rates",
        "RegistryError",
        "Requires",
        "Retry",
        "RouteSpec",
        "RuleSpec",
        "ServeSpec",
        "Settings",
        "StageAgent",
        "StagePlace",
        "StageSpec",
        "StreamTimeouts",
        "Template",
        "TokenSpec",
        "Tokens",
        "TooMuch",
        "ToolFilter",
        "UnknownName",
        "UnreadableFile",
        "UpstreamSpec",
        "UserSpec",
        "Value",
        "When",
        "WorkItemSpec",
        "WorkItemsSpec",
        "WorkspaceSpec",
        "chain_limits",
        "check_endpoints",
        "component_of",
        "cost_of",
        "describe",
        "filled_in",
        "fold",
        "held_secrets",
        "is_component",
        "is_rehearsed",
        "json_schema",
        "lacks_endpoint",
        "load",
        "meant",
        "misfits",
        "missing_variables",
        "nearest",
        "no_endpoint",
        "resolve_catalogue",
        "resolve_limits",
        "restore",
        "sub_agent_registry",
        "to_yaml",
        "values",
    ],
    "runner": ["Context", "Dispatcher", "Order", "Outcome", "Problem", "Refusal", "Result", "Snapshot", "open_dispatcher"],
}


@pytest.mark.parametrize("package", DOORS)
def test_a_package_offers_just_these_names(package: str) -> None:
    module = importlib.import_module(package)

    assert module.__all__ == DOORS[package]
    assert all(hasattr(module, name) for name in module.__all__)
    assert not hasattr(module, "nothing_of_ours")


def test_a_door_imports_nothing_before_a_name_is_used() -> None:
    code = "import sys, db, runner, outrider; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)

    assert not {"typing", "anyio", "pydantic", "db.errors", "runner.result"} & set(done.stdout.split())


async def test_a_configuration_with_older_names_works_and_is_told_the_new_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "older.py").write_text(
        "from runner.function_context import Context\n\n\ndef where(context: Context) -> int:\n    return context.depth\n",
        encoding="utf-8",
    )
    config = """
    models: {m: {model: any}}
    agents:
      Numberer: {function: 'runner.board:add_item'}
      Older: {function: 'older:where'}
    work_items: {board: crew}
    """
    monkeypatch.syspath_prepend(tmp_path)

    async with bench(tmp_path, config, {}) as service:
        added = await service.run("Numberer", "write it down")
        depth = await service.run("Older", "look")

    assert (added.status, depth.result and depth.result.output) == ("completed", 0)
    assert "`function: runner.board:add_item` has moved: write `outrider:add_item`" in caplog.text
    assert "`from runner.function_context import Context` has moved: write `from runner import Context`" in caplog.text


def test_both_doors_lead_to_the_same_objects() -> None:
    assert outrider.add_item.__module__ == "runner.work_items.board"
    assert runner.Result is importlib.import_module("runner.result").Result
