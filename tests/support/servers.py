"""Test servers as values of `mcp_servers` in a configuration.

Owns: one line of YAML for each. Must not know: the subject of a test.
"""

import json
import sys
from typing import Any

from tests.support.upstream_specs import ROOT

DEAD = json.dumps({"command": [sys.executable, "-c", "raise SystemExit('no licence')"]})
"""Exits at once."""
DISPENSABLE = json.dumps({**json.loads(DEAD), "required": False})
"""Exits at once; agents continue without it."""


def sdk_server(mode: str = "plain", **more: Any) -> str:
    """A well-behaved server, made with the SDK."""
    command = [sys.executable, "-m", "tests.support.upstream_server", mode]
    return json.dumps({"command": command, "cwd": str(ROOT), **more})


def raw_server(mode: str, **more: Any) -> str:
    """A server that may misbehave."""
    command = [sys.executable, "-E", "-S", "-m", "tests.support.raw_server", mode]
    return json.dumps({"command": command, "cwd": str(ROOT), **more})
