"""What the README tells clients is what the command gives them, and its links carry it whole."""

import base64
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from server.cli.install.clients import CLIENTS
from tests.docs import clients
from tests.support.shell import SCRIPT, Shell, make_shell
from tests.support.sources import ROOT

STALE = "run `make docs` and commit what it writes"


def readme() -> str:
    """The page."""
    return clients.README.read_text(encoding="utf-8")


def page() -> str:
    """The page about clients."""
    return clients.PAGE.read_text(encoding="utf-8")


def shown(text: str) -> list[Any]:
    """Every JSON block of the part about clients, in order."""
    part = text.partition(clients.BEGIN)[2].partition(clients.END)[0]
    return [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", part, re.MULTILINE | re.DOTALL)]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell with a configuration that reads no variable but the usual key."""
    return make_shell(tmp_path)


def test_the_part_about_clients_is_what_the_code_says() -> None:
    assert clients.rewritten(readme()) == readme(), STALE
    assert clients.rewritten_page(page()) == page(), STALE


def test_each_entry_is_what_the_command_prints(shell: Shell) -> None:
    paths = {
        str(SCRIPT): clients.PROGRAM,
        str(shell.folder / "config.yaml"): clients.CONFIG,
        str(shell.database): clients.DATABASE,
    }
    local, remote = [], []
    for client in CLIENTS.values():
        text = shell.type("install", client.name, "--print").stdout
        for real, general in paths.items():
            text = text.replace(f'"{real}"', f'"{general}"')
        local.append(json.loads(text))
        if client.remote_type is not None:
            words = ("--http", clients.URL, "--token-env", clients.TOKEN)
            remote.append(json.loads(shell.type("install", client.name, "--print", *words).stdout))

    assert shown(readme()) == local
    assert shown(page()) == remote


def links(host: str) -> list[dict[str, list[str]]]:
    """The parameters of every link to a host."""
    found = re.findall(r"\]\((https://[^)\s]+)\)", readme())
    return [parse_qs(urlsplit(link).query, strict_parsing=True) for link in found if urlsplit(link).hostname == host]


def test_one_click_gives_an_editor_the_entry_with_the_program_by_its_name() -> None:
    [cursor] = links("cursor.com")
    stable, insiders = links("insiders.vscode.dev")

    assert json.loads(base64.b64decode(cursor["config"][0], validate=True)) == clients.on_path("cursor")
    assert json.loads(stable["config"][0]) == json.loads(insiders["config"][0]) == clients.on_path("vscode")
    assert [each["name"] for each in (cursor, stable, insiders)] == [["outrider"]] * 3
    assert (stable.get("quality"), insiders["quality"]) == (None, ["insiders"])
    assert clients.on_path("vscode")["command"] == "outrider"


def test_the_sample_for_this_repository_has_the_form_of_an_entry_for_claude_code() -> None:
    sample = json.loads((ROOT / ".mcp.json").read_text(encoding="utf-8"))
    command = [".venv/bin/outrider", "serve", "--config", "config.yaml"]

    assert sample == {"mcpServers": {"outrider": CLIENTS["claude-code"].local(command, [clients.KEY])}}
