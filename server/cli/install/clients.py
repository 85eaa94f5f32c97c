"""The programs that can use Outrider: where each keeps its list of servers, and how an entry looks there.

Owns: these places and shapes, as the clients' own documentation gives them. Must not know: how a file is read or written.
Invariant: an entry never holds a secret, only the name of the variable that does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from server.cli.terminal.exits import CommandError, Exit

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What decides where a client's file is."""

    platform: str = sys.platform
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    home: Path = field(default_factory=Path.home)
    folder: Path = field(default_factory=Path.cwd)

    def variable(self, name: str, otherwise: str) -> Path:
        """The folder a variable names, else one below the home folder."""
        return Path(self.environ.get(name) or self.home / otherwise)

    def settings(self) -> Path:
        """Where desktop programs keep their settings."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return self.variable("APPDATA", "AppData/Roaming")
        return self.variable("XDG_CONFIG_HOME", ".config")


def _claude_desktop(here: Surroundings) -> Path:
    """Claude Desktop's file; as a Windows package it reads its own copy of the settings folder and never the real one."""
    folders = [here.settings() / "Claude"]
    if here.platform == "win32":
        packages = here.variable("LOCALAPPDATA", "AppData/Local") / "Packages"
        folders = sorted(packages.glob("Claude_*/LocalCache/Roaming/Claude")) or folders
    if len(folders) > 1:
        raise CommandError(
            f"Claude Desktop is installed {len(folders)} times: {', '.join(f'`{folder}`' for folder in folders)}",
            "name the file it reads with `--file`",
        )
    return folders[0] / "claude_desktop_config.json"


@dataclass(frozen=True, slots=True)
class ClientProgram:
    """A program that starts MCP servers, or connects to them, as a file tells it."""

    name: str
    title: str
    place: Callable[[Surroundings], Path]
    restart: str
    """What makes it read the file again."""
    section: str = "mcpServers"
    reference: str = ""
    """How it writes the value of an environment variable, `NAME` standing for it; empty if it cannot."""
    local_type: str = ""
    remote_type: str | None = None
    """What its entries call each transport; None if the file cannot name a remote server."""
    comments: bool = False
    """Whether it reads a file with comments."""

    def local(self, command: Sequence[str], variables: Sequence[str]) -> Entry:
        """The entry of a server it starts, which gets these environment variables."""
        entry: Entry = {"type": self.local_type} if self.local_type else {}
        entry |= {"command": command[0], "args": list(command[1:])}
        if self.reference and variables:
            entry["env"] = {name: self._value_of(name) for name in variables}
        return entry

    def remote(self, url: str, token: str | None) -> Entry:
        """The entry of a server it reaches; `token` is the variable that holds the bearer token."""
        if self.remote_type is None:
            raise CommandError(
                f"{self.title}'s file cannot name a server at a URL",
                "omit `--http` to let it start a server itself, or add the URL as a custom connector in its settings",
            )
        entry: Entry = {"type": self.remote_type} if self.remote_type else {}
        entry["url"] = url
        if token:
            entry["headers"] = {"Authorization": f"Bearer {self._value_of(token)}"}
        return entry

    def _value_of(self, variable: str) -> str:
        return self.reference.replace("NAME", variable)


CLIENTS = {
    client.name: client
    for client in (
        ClientProgram("claude-desktop", "Claude Desktop", _claude_desktop, "quit Claude Desktop and start it again"),
        ClientProgram(
            "claude-code",
            "Claude Code",
            lambda here: here.folder / ".mcp.json",
            "start `claude` in this folder and approve the server; `/mcp` shows it",
            # Without its default a variable that is not set would arrive as this very text, and be taken for a key.
            reference="${NAME:-}",
            local_type="stdio",
            remote_type="http",
        ),
        ClientProgram(
            "cursor",
            "Cursor",
            lambda here: here.home / ".cursor" / "mcp.json",
            "reload Cursor's window; its settings list the server",
            reference="${env:NAME}",
            local_type="stdio",
            remote_type="",
            comments=True,
        ),
        ClientProgram(
            "vscode",
            "VS Code",
            lambda here: here.settings() / "Code" / "User" / "mcp.json",
            "run `MCP: List Servers` in VS Code and start it",
            section="servers",
            reference="${env:NAME}",
            local_type="stdio",
            remote_type="http",
            comments=True,
        ),
    )
}


def client_named(name: str) -> ClientProgram:
    """The client of that name."""
    if name not in CLIENTS:
        known = ", ".join(f"`{each}`" for each in CLIENTS)
        raise CommandError(
            f"no client `{name}`",
            f"known clients: {known}; for another one, `outrider install cursor --print` shows the usual form",
            Exit.NOT_FOUND,
            names_places=False,
        )
    return CLIENTS[name]
