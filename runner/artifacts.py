"""Artifacts: what an execution made, as its result tells it: what was reported, and every file that was written, by it or
for it by somebody below, however it ended.

Owns their form and their order. Invariant: no path is told twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_core import from_json

from runner.past import Past
from runner.result import Result
from runner.tools.own import SERVER

Artifact = Mapping[str, Any]

WRITING = ("write_file", "edit_file")
"""The tools that change files; the answer of each says which, as `written`."""


def file_artifact(path: str) -> Artifact:
    """A file of a workspace: `workspace/path/in/it`."""
    return {"type": "file", "path": path}


def written_before(past: Past) -> list[Artifact]:
    """The files that rows say were written by an execution that goes on, or by whoever it continues."""
    return [
        file_artifact(from_json(row["result"])["written"])
        for chapter in past.chapters
        for row in chapter.tool_calls
        if row["tool"] in WRITING and row["server"] == SERVER and row["status"] == "completed"
    ]


def with_artifacts(result: Result, written: Sequence[Artifact], below: Iterable[Result]) -> Result:
    """The result with everything that was made; whoever ran out of time with no words to show says so."""
    made: dict[object, Artifact] = {}
    for artifact in (*result.artifacts, *written, *(each for answer in below for each in answer.artifacts)):
        made.setdefault(artifact.get("path") or repr(artifact), artifact)
    if len(made) == len(result.artifacts):
        return result
    whole = replace(result, artifacts=tuple(made.values()))
    if result.reason != "timeout" or result.output is not None:
        return whole
    files = "a file" if len(made) == 1 else f"{len(made)} files"
    return replace(whole, summary=f"its time ran out; {files} had been written by then")
