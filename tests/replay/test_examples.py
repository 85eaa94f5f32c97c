"""Every example is recorded and replayed equal: commands, conversations, plans, iterations, five levels."""

import json
from pathlib import Path

import anyio
import pytest

from runner.replay.extract import record_tree
from runner.replay.recording import read_recording
from runner.service.dispatcher import Dispatcher
from server.replay import replay
from tests.examples.playing import conversation, play
from tests.support.shell import make_shell
from tests.support.sources import ROOT

RUNS = [
    ("nested", ["Desk", "How are the lighthouses?"]),
    ("reporter", ["first-look"]),
    ("reporter", ["documenter"]),
    ("reporter", ["researcher", "--input", "topic=write-ahead logging", "--input", "depth=comprehensive"]),
]


async def replay_all(service: Dispatcher) -> int:
    """Replay every tree; their number."""
    reads = service.services.database.reads
    roots = [row for row in await reads.roots(100) if row["finished_at"] is not None]
    for row in roots:
        recording = await record_tree(reads, row["id"], lambda value: value)
        with anyio.fail_after(30):
            ended = await replay(read_recording(json.loads(recording.model_dump_json())))
        assert ended.differences == [], (row["agent"], row["task"], ended.differences[:1])
        assert not ended.stood_still
    return len(roots)


@pytest.mark.parametrize(("example", "trees"), [("assistant", 8), ("coordinator", 8), ("crew", 10)])
async def test_a_conversation_is_replayed_equal_message_by_message(example: str, trees: int, tmp_path: Path) -> None:
    async with play(example, tmp_path) as played:
        for user, text in conversation(example):
            await played.say(user, text)
        assert await replay_all(played.service.dispatcher) >= trees


def test_the_reporter_and_the_nested_example_are_replayed_equal(tmp_path: Path) -> None:
    shell = make_shell(tmp_path)
    for example, ordered in RUNS:
        places = ("--config", str(ROOT / "examples" / example / "config.yaml"), "--db", str(tmp_path / f"{example}.db"))
        ran = shell.type("run", *ordered, "--json", *places, REPORTER_OUTPUT=str(tmp_path))
        assert ran.returncode == 0, ran.stderr
        done = shell.type("replay", json.loads(ran.stdout)["execution_id"], *places)
        assert done.stdout.startswith("equal: "), done.stdout


def test_the_examples_are_all_there() -> None:
    found = {each.parent.name for each in (ROOT / "examples").glob("*/config.yaml")}
    assert found == {"assistant", "coordinator", "crew", "nested", "reporter"}
