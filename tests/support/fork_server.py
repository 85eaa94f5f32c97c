"""A process with the command line imported, which forks commands: `python -P fork_server.py NUMBER [MODULE…]`.

Owns: the imports, done once for all commands, and the changes that make a forked process look like a fresh one.
Must not know: anything of `tests`; it is started as a file, as the console script is.
Invariant: it has one thread and no child but the command it waits for, and it exits when the peer closes its socket.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import socket
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGES = ("db", "outrider_sre", "registry", "runner", "server")
LATE = {"runner.llm.anthropic"}
"""Imported only on request: a rehearsed command never needs it, and it takes as long as all others together."""

STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
HEADER = 4
"""Bytes of the length before a request; the descriptors are sent with them."""


@dataclass(frozen=True)
class Request:
    """A command to fork: its arguments, folder and environment. The descriptors are its three streams and a status pipe."""

    words: list[str]
    folder: str
    environ: dict[str, str]
    descriptors: list[int]


def preload(*more: str) -> None:
    """Import every module of Outrider, and the modules named in `more`."""
    for package in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if module.name not in LATE and not module.name.startswith("server.sre."):
                importlib.import_module(module.name)
    for name in more:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # so that the collector of a command neither scans these objects nor copies their pages
    assert threading.active_count() == 1, "a thread would not be there after a fork, and its locks would be"


def receive(connection: socket.socket) -> Request | None:
    """The next request, or None when the peer has closed the socket."""
    header, descriptors, _, _ = socket.recv_fds(connection, HEADER, len(STREAMS) + 1)
    if not header:
        return None
    with connection.makefile("rb") as reader:
        fields: dict[str, Any] = json.loads(reader.read(int.from_bytes(header)))
    return Request(descriptors=descriptors, **fields)


def serve(connection: socket.socket) -> Request | None:
    """Fork for each request. Returns the request in the forked process, and None in the server at the end of the socket."""
    while request := receive(connection):
        process = os.fork()
        if not process:
            connection.close()
            return request
        *streams, told = request.descriptors
        for stream in streams:
            os.close(stream)
        os.setpgid(process, process)  # before its id is sent, so that the receiver can kill the whole group
        os.write(told, f"{process}\n".encode())
        _, status = os.waitpid(process, 0)
        os.write(told, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os.close(told)
    return None


def become(request: Request) -> None:
    """Give the forked process the state of a fresh process of the console script."""
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environ)
    time.tzset()
    sys.argv[:] = request.words
    sys.path.insert(0, str(Path(request.words[0]).parent))
    *streams, told = request.descriptors
    os.close(told)
    for number, ((name, mode), descriptor) in enumerate(zip(STREAMS, streams, strict=True)):
        os.dup2(descriptor, number)
        os.close(descriptor)
        before = getattr(sys, name)
        stream = open(number, mode, encoding=before.encoding, errors=before.errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    preload(*sys.argv[2:])
    if order := serve(socket.socket(fileno=int(sys.argv[1]))):
        become(order)
        from outrider.__main__ import main

        sys.exit(main())
