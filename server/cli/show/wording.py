"""Words that name a command of this program, as it can be typed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from server.cli.terminal.options import command


def waits(tool: str, identifier: str) -> str:
    """That a call waits for a person, and what the person types to allow it."""
    return f"waiting for approval of {tool}: {command(f'approve {identifier}')}"


def unknown_outcome(call: Mapping[str, Any]) -> str:
    """A tool call with an unknown outcome, from its row or its event."""
    return f"{call['tool']}: outcome unknown ({call['error_type']}); `{command('show ' + call['id'])}` has the call"
