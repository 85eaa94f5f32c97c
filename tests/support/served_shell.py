"""Servers in processes of their own: `outrider serve --http` and `outrider dashboard`, once they listen.

Owns: how such a process is started, and what it says when it is ready. Must not know: the subject of a test.
Invariant: the exit of a context leaves no process behind.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import Popen

from tests.support.shell import Shell


def free_port() -> int:
    """A port that no process uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def serving(shell: Shell, port: int, **environ: str) -> Iterator[Popen[str]]:
    """`outrider serve --http`, once it listens."""
    with shell.start("serve", "--http", f"127.0.0.1:{port}", **environ) as process:
        assert process.stderr is not None
        assert "serving MCP at" in process.stderr.readline()
        assert f"the dashboard is at http://127.0.0.1:{port}/" in process.stderr.readline()
        yield process


@contextmanager
def opened(shell: Shell, *words: str, **environ: str) -> Iterator[tuple[Popen[str], str, str]]:
    """`outrider dashboard`: its process, its address and its token."""
    with shell.start("dashboard", "--no-open", *words, **environ) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        found = re.search(r"(http://127\.0\.0\.1:\d+)/#token=(\S+)", told)
        assert found is not None, told + process.stderr.read()
        yield process, found[1], found[2]
