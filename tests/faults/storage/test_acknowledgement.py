"""The order of system calls: what a client is told reached the disk before. A kill cannot show that: it spares the cache.

`OUTRIDER_ACKNOWLEDGEMENTS` is how many are looked at.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from tests.support.shell import SCRIPT, make_shell
from tests.support.tracing import strace
from tests.support.wire import MODERN, wired

COUNT = int(os.environ.get("OUTRIDER_ACKNOWLEDGEMENTS", "20"))
CALL = re.compile(r"\d+ +(?:<\.\.\. )?(\w+)")


def calls(trace: Path) -> Iterator[tuple[str, str]]:
    """The system calls of a trace in the order they ended, each with its line; of one that was interrupted, both parts."""
    begun: dict[str, str] = {}
    with trace.open(encoding="utf-8") as lines:
        for line in lines:
            thread, found = line.split()[0], CALL.match(line)
            if found is None:
                continue
            if line.rstrip().endswith("<unfinished ...>"):
                begun[thread] = line
            else:
                yield found[1], begun.pop(thread, "") + line


@pytest.mark.timeout(60 if COUNT <= 20 else 0)
async def test_an_execution_is_on_the_disk_before_its_id_is_told(tmp_path: Path) -> None:
    shell, trace = make_shell(tmp_path), tmp_path / "trace"
    traced = ["-e", "trace=pwrite64,fsync,fdatasync,write", "-s", "100000", "-o", str(trace)]
    command = [strace(), "-f", "--seccomp-bpf", *traced, str(SCRIPT), "serve"]
    told: list[str] = []
    async with wired(command, tmp_path, shell.surroundings(), MODERN) as wire:
        for number in range(COUNT):
            answer = await wire.call("dispatch_agent", {"name": "Quick", "task": f"look {number}"})
            told.append(answer["result"]["structuredContent"]["execution_id"])
        with anyio.fail_after(20):
            await wire.close()

    written, durable, acknowledged = set[str](), set[str](), list[str]()
    ids = re.compile("|".join(told))
    for name, line in calls(trace):
        mentioned = set(ids.findall(line))
        if name == "pwrite64":
            written |= mentioned
        elif name in ("fsync", "fdatasync"):
            durable |= written
        elif mentioned and "isError" in line:
            acknowledged += mentioned
            assert mentioned <= durable, "it was told before it was on the disk"
    assert sorted(acknowledged) == sorted(told)
