"""The part of the README that shows clients how to use Outrider: one-click links, and an entry for each client's file.

Owns: the look of that part. Must not know: how an entry is made (`server/cli/install/clients.py` does).
Invariant: a pure function of the code, so a test can tell when it is old. `make docs` writes it.
"""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

from server.cli.install.clients import CLIENTS, ClientProgram, Entry
from tests.support.sources import ROOT

README = ROOT / "README.md"
PAGE = ROOT / "docs" / "howto" / "connect-a-client.md"
BEGIN, END = "<!-- clients: made by `make docs` -->\n", "<!-- /clients -->\n"

PROGRAM, CONFIG, DATABASE = "/path/to/outrider", "/path/to/config.yaml", "/path/to/outrider.db"
URL, TOKEN = "http://127.0.0.1:8000/mcp", "OUTRIDER_TOKEN"
KEY = "ANTHROPIC_API_KEY"

FILES = {
    "claude-desktop": """\
`claude_desktop_config.json`, in `~/Library/Application Support/Claude` (macOS), `%APPDATA%\\Claude` (Windows) or
`~/.config/Claude` (Linux); as a package on Windows, in `%LOCALAPPDATA%\\Packages\\Claude_…\\LocalCache\\Roaming\\Claude`.
Claude Desktop passes no variables on: put a key into an `env` of the entry by hand.
""",
    "claude-code": """\
`.mcp.json` in the project; for every project, `claude mcp add-json --scope user outrider '…'` with the inner object.
""",
    "cursor": """\
`~/.cursor/mcp.json`, or `.cursor/mcp.json` in a project (`--file`).
""",
    "vscode": """\
`mcp.json` of the user profile (`MCP: Open User Configuration`), or `.vscode/mcp.json` in a project (`--file`).
""",
}


def section() -> str:
    """The part of the README, between its marks."""
    return BEGIN + "\n".join([_badges(), *(_of_client(client) for client in CLIENTS.values()), _of_others()]) + END


def remote_section() -> str:
    """The part of the page about clients, between the same marks: the entries for a server that already runs."""
    remote = [client for client in CLIENTS.values() if client.remote_type is not None]
    return BEGIN + "\n".join(f"{client.title}:\n\n{_block(client, client.remote(URL, TOKEN))}" for client in remote) + END


def cursor_link(name: str, entry: Entry) -> str:
    """The link that adds a server to Cursor, by way of a page: hosts of READMEs allow no links to programs."""
    packed = base64.b64encode(json.dumps(entry).encode()).decode()
    return f"https://cursor.com/en/install-mcp?name={quote(name)}&config={quote(packed, safe='')}"


def vscode_link(name: str, entry: Entry, *, insiders: bool = False) -> str:
    """The link that adds a server to VS Code."""
    quality = "&quality=insiders" if insiders else ""
    config = quote(json.dumps(entry), safe="")
    return f"https://insiders.vscode.dev/redirect/mcp/install?name={quote(name)}&config={config}{quality}"


def on_path(client: str) -> Entry:
    """The entry of the links: they cannot know a path, so they name the program."""
    return CLIENTS[client].local(["outrider", "serve"], [KEY])


def _badges() -> str:
    links = {
        "Cursor-add-black": cursor_link("outrider", on_path("cursor")),
        "VS_Code-add-0098FF": vscode_link("outrider", on_path("vscode")),
        "VS_Code_Insiders-add-24bfa5": vscode_link("outrider", on_path("vscode"), insiders=True),
    }
    badges = [
        f"[![{look.partition('-')[0].replace('_', ' ')}](https://img.shields.io/badge/{look})]({link})"
        for look, link in links.items()
    ]
    return "\n".join(["With `outrider` on the `PATH` of your editor, one click adds it:\n", *badges, ""])


def _of_client(client: ClientProgram) -> str:
    local = client.local([PROGRAM, "serve", "--config", CONFIG, "--db", DATABASE], [KEY])
    shown = [FILES[client.name], _block(client, local)]
    return "\n".join([f"<details><summary>{client.title}: the entry by hand</summary>\n", *shown, "</details>"])


def _of_others() -> str:
    return "\n".join(
        [
            "<details><summary>Any other client</summary>\n",
            f"stdio: the command `{PROGRAM} serve --config {CONFIG} --db {DATABASE}`.",
            f"Streamable HTTP: the URL `{URL}` of `outrider serve --http 127.0.0.1:8000`.\n",
            "</details>\n",
        ]
    )


def _block(client: ClientProgram, entry: Entry) -> str:
    """An entry with one line for each of its keys."""
    keys = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in entry.items())
    return f'```json\n{{{json.dumps(client.section)}: {{"outrider": {{\n{keys}\n}}}}}}\n```\n'


def rewritten(readme: str) -> str:
    """The README with its part as the code makes it now."""
    return _replaced(readme, section())


def rewritten_page(page: str) -> str:
    """The page about clients with its part as the code makes it now."""
    return _replaced(page, remote_section())


def _replaced(text: str, part: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + part + after


if __name__ == "__main__":
    README.write_text(rewritten(README.read_text(encoding="utf-8")), encoding="utf-8")
    PAGE.write_text(rewritten_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
