"""`outrider serve` with an agent that writes wherever it should not: `python -m tests.server.mcp_face.noisy FOLDER`.

Owns: the noise. Must not know: what is expected of it.
"""

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import anyio

from registry import AgentSpec, load
from server.app import Blueprint
from server.mcp_face.stdio import over_stdio
from server.serve import Serving


def make_noise() -> None:
    """Print, warn, write to the descriptor, and let a child process write and read."""
    print("printed", flush=True)  # noqa: T201 - the point of it
    assert sys.__stdout__ is not None
    sys.__stdout__.write("written\n")
    sys.__stdout__.flush()
    warnings.warn("warned", stacklevel=1)
    os.write(1, b'{"jsonrpc": "2.0", "id": 1, "result": "forged"}\n')
    subprocess.run(["sh", "-c", "echo said by a child; cat"], check=True)


async def shout(task: str, _: Any) -> str:
    """What the agent does."""
    make_noise()
    return f"{task} done"


def blueprint() -> Blueprint:
    """A service whose one agent is noisy."""
    folder = Path(sys.argv[1])
    settings = load(folder / "config.yaml", {}, [AgentSpec(name="Noisy", description="shouts", strategy="function")])
    return Blueprint(settings, folder / "noisy.db", functions={"Noisy": shout})


if __name__ == "__main__":
    anyio.run(Serving(blueprint).run, over_stdio)
