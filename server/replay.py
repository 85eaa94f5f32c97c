"""A replay: opens a service on a temporary database, runs the recorded tree in it, and compares.

Owns the stand-ins for what the recording does not hold: variables, secrets and files of the configuration. Invariant:
nothing outside the temporary folder is written; with recorded tools nothing is asked or started either.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from db.clock import loop_time
from registry import Settings, missing_variables, restore
from registry.specs.secrets import MASK
from runner.replay.comparison import ReplayDifference, differences
from runner.replay.extract import record_tree
from runner.replay.models import RecordedModels
from runner.replay.playback import Playback
from runner.replay.recording import BadRecording, Recording
from runner.replay.tools import create_file, written_by
from runner.service.dispatcher import Dispatcher
from runner.service.order import Order
from server.app import Blueprint, open_service

STILL_SECONDS, STILL_LIVE_SECONDS = 5.0, 60.0
"""A replay in which nothing is stored for so long stands still; servers take longer to start."""

ACCIDENTS = ("internal", "store", "interrupted", "stubborn")
"""Errors of the machinery itself: what caused them is not recorded."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """How a replay ended."""

    differences: Sequence[ReplayDifference]
    executions: int
    replies: int
    calls: int
    unfolded: Sequence[str]
    """Executions whose own work was taken from the recording."""
    stood_still: bool


def refusal_of(recording: Recording) -> BadRecording | None:
    """Why a recording cannot be replayed."""
    for each in recording.executions:
        if each.continues_execution_id is not None:
            message = f"execution `{each.id}` continues `{each.continues_execution_id}`, which is not in the recording"
            return BadRecording(message, "replay the execution that it continues")
        if each.error_type in ACCIDENTS:
            message = f"execution `{each.id}` ended with an error of kind `{each.error_type}`, which is in no recording"
            return BadRecording(message, "replay a tree that ended without one")
    return None


async def replay(recording: Recording, servers: Settings | None = None) -> Replayed:
    """Run a recorded tree again; with `servers`, read-only tools of the servers configured there. Raises BadRecording."""
    if (refused := refusal_of(recording)) is not None:
        raise refused
    with tempfile.TemporaryDirectory(prefix="outrider-replay-") as name:
        folder = Path(name)
        settings = settings_of(recording, folder, servers)
        lay_out(recording, folder)
        playback = Playback(recording, folder / "workspaces", live=servers is not None)
        environ = os.environ if servers is not None else {}
        blueprint = Blueprint(settings, folder / "replay.db", environ=environ, models=RecordedModels(), playback=playback)
        async with open_service(blueprint) as service:
            seconds = STILL_SECONDS if servers is None else STILL_LIVE_SECONDS
            still = await _run(service, recording, playback, seconds)
            happened = await record_tree(service.services.database.reads, recording.root, lambda value: value)
    found = list(differences(recording, happened))
    return Replayed(
        differences=found,
        executions=len(recording.executions),
        replies=sum(len(each.replies) for each in recording.executions),
        calls=sum(len(list(each.all_calls)) for each in recording.executions),
        unfolded=playback.unfolded,
        stood_still=still,
    )


async def _run(service: Dispatcher, recording: Recording, playback: Playback, still_seconds: float) -> bool:
    """Run the tree to its end; True if it stood still and was stopped."""
    top = recording.top
    user = top.user_id if top.user_id in service.services.settings.users else None
    order = Order(
        name=top.name,
        task=top.task or "",
        input=top.input,
        timeout=top.timeout_seconds,
        budget_usd=top.budget_usd,
        principal=top.principal,
        session=top.session_id,
        user=user,
    )
    still = False
    async with anyio.create_task_group() as group:
        started = await service.start(order)
        group.start_soon(playback.stop_as_recorded, service.cancel, name="stop as recorded")
        live = service.tree.get(started.id)
        last: int | None = None
        at = loop_time()
        while live is not None and not live.done.is_set:
            with anyio.move_on_after(0.05):
                await live.done.wait()
            seen = await service.services.database.writer.version()
            if seen != last:
                last, at = seen, loop_time()
            elif loop_time() - at > still_seconds and not still:
                still = True
                await service.cancel(started.id, "outrider", "the replay stood still")
        group.cancel_scope.cancel()
    return still


def settings_of(recording: Recording, folder: Path, servers: Settings | None = None) -> Settings:
    """The recorded configuration without what only the machine of the record has: secrets, scripts, files and servers.

    A recording may come from anywhere, so no program that it names is ever started: with live tools the servers are those
    configured here. Raises BadRecording.
    """
    body = recording.configurations[recording.top.config_hash or ""]
    try:
        text = json.dumps(_self_contained(body, folder), ensure_ascii=False, separators=(",", ":"))
        settings = restore(text, dict.fromkeys(missing_variables(text, {}), "replayed"))
    except Exception as error:
        hint = "replay it with the Outrider that recorded it"
        raise BadRecording(f"its configuration cannot be restored: {error}", hint) from error
    if servers is None:
        return settings
    if absent := [name for name in settings.upstreams if name not in servers.upstreams]:
        raise BadRecording(f"no server `{absent[0]}` is configured here", "name a configuration that has it: `--config`")
    return replace(settings, upstreams=servers.upstreams)


def _self_contained(body: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A stored configuration without secrets, scripts, files and traces; its workspaces are in a folder of the replay."""
    config = _unmasked(body["config"])
    for elsewhere in ("context_files", "telemetry"):
        config.pop(elsewhere, None)
    for model in config.get("models", {}).values():
        model.pop("rehearsal", None)
    for name, workspace in config.get("workspaces", {}).items():
        workspace["path"] = str(folder / "workspaces" / name)
    for agent in config.get("agents", {}).values():
        context = agent.get("context")
        if isinstance(context, dict):
            agent["context"] = {key: value for key, value in context.items() if key not in ("level", "language")}
        for use in agent.get("workspaces", ()):
            if isinstance(use, dict) and "path" in use:
                use["path"] = str(folder / "workspaces" / use["name"])
    return {**body, "config": config, "source": str(folder / "config.yaml")}


def _unmasked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unmasked(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_unmasked(each) for each in value]
    return "masked-in-the-recording" if value == MASK else value


def lay_out(recording: Recording, folder: Path) -> None:
    """Create the files that results name and no call wrote: an answer may only name files that exist."""
    written = {path for each in recording.executions for call in each.all_calls if (path := written_by(call)) is not None}
    for each in recording.executions:
        for artifact in (each.result or {}).get("artifacts") or ():
            path = artifact.get("path") if isinstance(artifact, dict) else None
            if isinstance(path, str) and path not in written:
                create_file(folder / "workspaces", path)
