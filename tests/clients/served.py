"""`outrider serve` as a client starts it or finds it.

Owns: its configuration file, environment and process. Must not know: who calls.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.support.forked import KEPT
from tests.support.shell import SCRIPT

READY_SECONDS = 30


@dataclass(frozen=True)
class Served:
    """A folder with a configuration to serve."""

    folder: Path

    @property
    def command(self) -> list[str]:
        """What a client starts to speak over stdio."""
        return [str(SCRIPT), "serve", "--config", str(self.folder / "config.yaml"), "--db", self.database]

    @property
    def database(self) -> str:
        """Where executions are kept."""
        return f"sqlite:///{self.folder / 'outrider.db'}"

    @property
    def environ(self) -> dict[str, str]:
        """All it gets of the surroundings."""
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        return {**kept, "HOME": str(self.folder), "ANTHROPIC_API_KEY": "a-key-nobody-checks"}

    @asynccontextmanager
    async def over_http(self) -> AsyncIterator[str]:
        """The URL at which a process answers."""
        command = [*self.command, "--http", "127.0.0.1:0"]
        async with await anyio.open_process(command, env=self.environ, stdin=None, stdout=None) as process:
            assert process.stderr is not None
            log = BufferedByteReceiveStream(process.stderr)
            try:
                with anyio.fail_after(READY_SECONDS):
                    said = (await log.receive_until(b"/mcp", 10_000)).decode()
                async with anyio.create_task_group() as group:
                    group.start_soon(_read_on, log)
                    yield re.sub(r".*(?=http://)", "", said, flags=re.S) + "/mcp"
                    group.cancel_scope.cancel()
            finally:
                process.terminate()
                with anyio.CancelScope(shield=True), anyio.move_on_after(READY_SECONDS):
                    await process.wait()


async def _read_on(log: BufferedByteReceiveStream) -> None:
    """A log nobody reads would stop the process."""
    async for _ in log:
        pass


def serve(folder: Path, config: str) -> Served:
    """Something to serve."""
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    return Served(folder)
