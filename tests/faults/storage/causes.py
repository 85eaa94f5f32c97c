"""Causes: the ways in which storage fails under a running process, each until its end.

Owns: bringing a cause about, and ending it. Must not know: Outrider, but for the names of its files.
Invariant: what a cause did to the machine is undone when it is left.
"""

from __future__ import annotations

import fcntl
import os
import re
import resource
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from tests.support.tracing import strace

ATTACH_SECONDS = 20


@dataclass(frozen=True)
class Victim:
    """The process whose storage fails."""

    pid: int
    database: Path

    def beside(self, ending: str) -> Path:
        """A file that belongs to the database."""
        return self.database.with_name(self.database.name + ending)


Bring = Callable[[Victim], AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class Cause:
    """One way to fail."""

    name: str
    bring: Bring
    words: str
    """Of the reason that whoever wants to start something is told; empty where nobody has to notice."""


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A disk of 16 MB, twice what the log may take, where this process may have one."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "outrider-test", str(folder)], check=False, capture_output=True
    )
    try:
        yield
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


@asynccontextmanager
async def full(victim: Victim) -> AsyncIterator[None]:
    """No room for another byte; where the disk is not ours to fill, no file of the process may grow."""
    if victim.database.parent.parent.is_mount():
        ballast = victim.database.parent.parent / "ballast"
        with ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 65536)
            except OSError:
                pass
        try:
            yield
        finally:
            ballast.unlink()
    else:
        before = resource.prlimit(victim.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(victim.pid, resource.RLIMIT_FSIZE, (victim.beside("-wal").stat().st_size, before[1]))
        try:
            yield
        finally:
            resource.prlimit(victim.pid, resource.RLIMIT_FSIZE, before)


def failing(calls: str, error: str) -> Bring:
    """System calls of the process fail."""

    @asynccontextmanager
    async def bring(victim: Victim) -> AsyncIterator[None]:
        command = [strace(), "-f", "-o", os.devnull, "-e", f"trace={calls}", "-e", f"inject={calls}:error={error}"]
        async with await anyio.open_process([*command, "-p", str(victim.pid)]) as tracer:
            assert tracer.stderr is not None
            told = b""
            try:
                with anyio.fail_after(ATTACH_SECONDS):
                    while not re.search(rb"\d+ attached", told):
                        told += await tracer.stderr.receive()
            except anyio.EndOfStream:
                pytest.fail(f"`strace` could not attach: {told.decode()}\nhint: run the tests as root")
            try:
                yield
            finally:
                tracer.terminate()  # it lets go of the process

    return bring


@asynccontextmanager
async def locked(victim: Victim) -> AsyncIterator[None]:
    """Another process of ours is stuck in a commit."""
    with victim.beside("-lock").open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@asynccontextmanager
async def held(victim: Victim) -> AsyncIterator[None]:
    """Another program is in the middle of a write."""
    stranger = sqlite3.connect(victim.database, isolation_level=None)
    stranger.execute("begin immediate")
    try:
        yield
    finally:
        stranger.close()


@asynccontextmanager
async def without_log(victim: Victim) -> AsyncIterator[None]:
    """Somebody tidies up."""
    victim.beside("-wal").unlink()
    yield


@asynccontextmanager
async def away(victim: Victim) -> AsyncIterator[None]:
    """The database is moved, and put back."""
    elsewhere = victim.beside("-elsewhere")
    victim.database.rename(elsewhere)
    try:
        yield
    finally:
        elsewhere.rename(victim.database)


CAUSES = [
    Cause("the disk is full", full, "disk"),
    Cause("nothing reaches the disk", failing("fsync,fdatasync", "EIO"), "disk I/O error"),
    Cause("the disk has become read-only", failing("pwrite64", "EROFS"), "disk I/O error"),
    Cause("a process is stuck in a commit", locked, "another process has held"),
    Cause("another program holds the file", held, "database is locked"),
    Cause("the log is deleted", without_log, ""),
    Cause("the file is taken away", away, "was deleted"),
]
