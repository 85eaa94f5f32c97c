"""Test servers as a configuration names them.

Owns: one line of YAML for each. Must not know: what a test asks of them.
"""

import json
import sys
from typing import Any

from tests.support.upstream_specs import ROOT

DEAD = json.dumps({"command": [sys.executable, "-c", "raise SystemExit('no licence')"]})
"""Ends as soon as it is started."""
DISPENSABLE = json.dumps({**json.loads(DEAD), "required": False})
"""The same, for agents that go on without it."""


def sdk_server(mode: str = "plain", **more: Any) -> str:
    """A server made with the SDK."""
    command = [sys.executable, "-m", "tests.support.upstream_server", mode]
    return json.dumps({"command": command, "cwd": str(ROOT), **more})


def raw_server(mode: str, **more: Any) -> str:
    """A server that may misbehave."""
    command = [sys.executable, "-E", "-S", "-m", "tests.support.raw_server", mode]
    return json.dumps({"command": command, "cwd": str(ROOT), **more})
