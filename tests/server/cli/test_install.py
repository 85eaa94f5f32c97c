"""Clients learn of Outrider through their own files: one entry is put there, and nothing else is touched or told."""

import json
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from server.cli.install.client_file import edit_of, write
from server.cli.install.clients import CLIENTS, Surroundings, client_named
from server.cli.terminal.exits import CommandError
from tests.support.shell import SCRIPT, Shell
from tests.support.terminal import typed

KEY = "sk-a-key-of-somebody"
EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)


@pytest.fixture
def desk(shell: Shell) -> Shell:
    """A shell on a machine where every client has run once."""
    for client in CLIENTS.values():
        place(shell, client.name).parent.mkdir(parents=True, exist_ok=True)
    return shell


def place(shell: Shell, client: str) -> Path:
    """Where a client's file is on this machine."""
    return client_named(client).place(Surroundings("linux", {}, shell.folder, shell.folder))


def started(shell: Shell) -> list[str]:
    """The command a client must be told."""
    return [str(SCRIPT), "serve", "--config", str(shell.folder / "config.yaml"), "--db", str(shell.database)]


def printed(shell: Shell, *words: str) -> Any:
    """What `--print` prints."""
    done = shell.type("install", *words, "--print", ANTHROPIC_API_KEY=KEY)
    assert (done.returncode, done.stderr) == (0, "")
    assert KEY not in done.stdout
    return json.loads(done.stdout)


@EVERY_CLIENT
def test_a_client_gets_absolute_paths_and_never_a_key(desk: Shell, client: str) -> None:
    entry = printed(desk, client)[CLIENTS[client].section]["outrider"]

    assert [entry["command"], *entry["args"]] == started(desk)
    if client == "claude-desktop":
        assert "env" not in entry
    else:
        assert entry["env"]["ANTHROPIC_API_KEY"].startswith("${")
    assert not place(desk, client).exists()


@EVERY_CLIENT
def test_what_is_written_is_what_is_printed_and_once_is_enough(desk: Shell, client: str) -> None:
    file = place(desk, client)

    first = desk.type("install", client, "--yes", ANTHROPIC_API_KEY=KEY)
    written = file.read_bytes()
    second = desk.type("install", client, "--yes", ANTHROPIC_API_KEY=KEY)

    assert json.loads(written) == printed(desk, client)
    assert (first.returncode, first.stdout) == (0, "")
    assert f"+++ {file}" in first.stderr
    assert "`ANTHROPIC_API_KEY`" in first.stderr
    assert KEY not in first.stderr + written.decode()
    assert (second.returncode, second.stdout) == (0, "")
    assert "already" in second.stderr
    assert file.read_bytes() == written
    assert list(file.parent.glob("*.bak")) == []


def test_options_name_the_entry_its_configuration_its_database_and_its_file(desk: Shell) -> None:
    agent = "{custom_instructions: '${TEAM} ${CITY:-Bern}'}"
    desk.folder.joinpath("other.yaml").write_text(
        f"models: {{mine: {{model: m, api_key: '${{MY_KEY}}'}}}}\nagents: {{Other: {agent}}}\n"
    )
    words = ("--name", "mine", "--config", "other.yaml", "--db", "sqlite:///other.db", "--file", "project/.vscode/mcp.json")

    done = desk.type("install", "vscode", "--yes", *words, TEAM="blue")

    assert done.returncode == 0, done.stderr
    entry = json.loads((desk.folder / "project/.vscode/mcp.json").read_text())["servers"]["mine"]
    assert entry["args"] == ["serve", "--config", str(desk.folder / "other.yaml"), "--db", str(desk.folder / "other.db")]
    assert entry["env"] == {"MY_KEY": "${env:MY_KEY}", "TEAM": "${env:TEAM}"}
    assert not place(desk, "vscode").exists()


def test_a_configuration_that_would_not_start_is_told_before_anything_is_written(desk: Shell) -> None:
    desk.folder.joinpath("config.yaml").write_text("agnts: {}\n")

    done = desk.type("install", "cursor", "--yes")

    assert done.returncode == 2
    assert "config.yaml:1:1" in done.stderr
    assert not place(desk, "cursor").exists()


# -- what is there stays -----------------------------------------------------------------------------------------------

COMMENTED = """\
{
\t// the team's servers
\t"inputs": [],
\t"servers": {
\t\t"files": {"command": "files", "args": ["--key=b-secret"], "env": {"TOKEN": "a-secret"}}, // keep
\t\t/* off for now: "old": {} */
\t},
}
"""


def test_comments_order_and_indentation_stay(desk: Shell) -> None:
    file = place(desk, "vscode")
    file.write_text(COMMENTED)

    done = desk.type("install", "vscode", "--yes")

    assert done.returncode == 0, done.stderr
    lines = file.read_text().splitlines()
    mine = [line for line in lines if line not in COMMENTED.splitlines()]
    assert [line for line in lines if line not in mine] == COMMENTED.splitlines()
    assert mine[0] == '\t\t"outrider": {'
    assert mine[1] == '\t\t\t"type": "stdio",'
    assert lines.index(mine[0]) == lines.index('\t\t/* off for now: "old": {} */') + 1


def test_the_difference_tells_nothing_of_other_entries(desk: Shell) -> None:
    place(desk, "vscode").write_text(COMMENTED)

    done = desk.type("install", "vscode")

    assert '+\t\t"outrider": {' in done.stderr
    assert "-secret" not in done.stderr
    assert "off for now" not in done.stderr


def test_an_entry_is_brought_up_to_date_and_keeps_what_a_person_added(desk: Shell) -> None:
    file = place(desk, "claude-desktop")
    mine = {"command": "old", "args": [], "env": {"ANTHROPIC_API_KEY": KEY}, "disabled": False}
    file.write_text(json.dumps({"theme": "dark", "mcpServers": {"a": {"url": "u"}, "outrider": mine, "z": {}}}))
    file.chmod(0o640)

    done = desk.type("install", "claude-desktop", "--yes")

    content = json.loads(file.read_text())
    entry = content["mcpServers"]["outrider"]
    assert list(content) == ["theme", "mcpServers"]
    assert list(content["mcpServers"]) == ["a", "outrider", "z"]
    assert [entry["command"], *entry["args"]] == started(desk)
    assert (entry["env"], entry["disabled"]) == ({"ANTHROPIC_API_KEY": KEY}, False)
    assert KEY not in done.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    [backup] = file.parent.glob("claude_desktop_config.json.*.bak")
    assert json.loads(backup.read_text())["mcpServers"]["outrider"] == mine
    assert backup.name in done.stderr


def test_windows_line_ends_the_byte_order_mark_and_a_link_stay(desk: Shell) -> None:
    file, real = place(desk, "cursor"), desk.folder / "dotfiles.json"
    real.write_bytes(b'\xef\xbb\xbf{\r\n    "mcpServers": {}\r\n}\r\n')
    file.symlink_to(real)

    done = desk.type("install", "cursor", "--yes")

    assert done.returncode == 0, done.stderr
    assert file.is_symlink()
    text = real.read_bytes()
    assert text.startswith(
        b'\xef\xbb\xbf{\r\n    "mcpServers": {\r\n        "outrider": {\r\n            "type": "stdio",\r\n'
    )
    assert text.count(b"\n") == text.count(b"\r\n")


@pytest.mark.parametrize(
    ("client", "content", "reason"),
    [
        ("claude-desktop", b'{"mcpServers": {', "line 1, column 17"),
        ("claude-desktop", b'{"mcpServers": {} // mine\n}', "line 1"),
        ("cursor", b"[]", "it is not an object"),
        ("cursor", b'{"mcpServers": []}', "`mcpServers` is not an object"),
        ("cursor", b'{"a": 1, "a": 2}', "`a` is given twice"),
        ("cursor", b'{"a": "\xff"}', "it is not UTF-8"),
        ("vscode", b'{"servers": {"outrider": {"command": "x" /* mine */}}}', "comments inside `outrider` would be lost"),
    ],
)
def test_a_file_that_cannot_be_kept_is_left_alone(desk: Shell, client: str, content: bytes, reason: str) -> None:
    file = place(desk, client)
    file.write_bytes(content)

    done = desk.type("install", client, "--yes")

    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr
    assert "`--print`" in done.stderr
    assert file.read_bytes() == content
    assert [each for each in file.parent.iterdir() if file.name in each.name] == [file]


def test_a_file_that_changes_while_the_user_thinks_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    edit = edit_of(file, CLIENTS["cursor"], "outrider", {"command": "x"})
    assert edit is not None
    file.write_text("{}")

    with pytest.raises(CommandError, match="has changed in the meantime"):
        write(edit)

    assert file.read_text() == "{}"


# -- whom it asks ------------------------------------------------------------------------------------------------------


def test_without_a_terminal_nothing_is_written_until_the_user_says_yes(desk: Shell) -> None:
    done = desk.type("install", "claude-code", stdin="y\n")

    assert (done.returncode, done.stdout) == (2, "")
    assert '+    "outrider": {' in done.stderr
    assert done.stderr.endswith("\n\nhint: `--yes` writes without asking, `--print` only prints\n")
    assert not (desk.folder / ".mcp.json").exists()


@pytest.mark.parametrize(("keys", "code"), [("y\n", 0), ("n\n", 5), ("\n", 5)])
def test_a_person_is_shown_the_difference_and_decides(desk: Shell, keys: str, code: int) -> None:
    done, answer, seen = typed(desk, "install", "claude-code", keys=keys, NO_COLOR="1")

    assert (done, answer) == (code, "")
    assert seen.index('+    "outrider": {') < seen.index(f"write this to {desk.folder / '.mcp.json'}? [y/N]")
    assert (desk.folder / ".mcp.json").exists() == (code == 0)


# -- servers that run already ------------------------------------------------------------------------------------------


def test_a_running_server_is_named_by_its_url_and_the_variable_of_its_token(desk: Shell) -> None:
    url = "https://agents.example.org/mcp"

    code = printed(desk, "claude-code", "--http", url, "--token-env", "TOKEN")["mcpServers"]["outrider"]
    cursor = printed(desk, "cursor", "--http", "http://127.0.0.1:8000")["mcpServers"]["outrider"]
    vscode = printed(desk, "vscode", "--http", url)["servers"]["outrider"]

    assert code == {"type": "http", "url": url, "headers": {"Authorization": "Bearer ${TOKEN:-}"}}
    assert cursor == {"url": "http://127.0.0.1:8000/mcp"}
    assert vscode == {"type": "http", "url": url}


def test_an_entry_that_started_a_server_may_become_one_that_reaches_it(desk: Shell) -> None:
    for words in ((), ("--http", "http://127.0.0.1:8000/mcp")):
        assert desk.type("install", "vscode", "--yes", *words).returncode == 0

    written = json.loads(place(desk, "vscode").read_text())
    assert written == {"servers": {"outrider": {"type": "http", "url": "http://127.0.0.1:8000/mcp"}}}


@pytest.mark.parametrize(
    ("words", "reason", "code"),
    [
        (("zed",), "no client `zed`", 4),
        (("claude-desktop", "--http", "http://127.0.0.1:1"), "cannot name a server at a URL", 2),
        (("cursor", "--http", "127.0.0.1:8000"), "does not begin the URL", 2),
        (("cursor", "--http", "http://me:pass@127.0.0.1:8000"), "does not begin the URL", 2),
        (("cursor", "--http", "http://127.0.0.1:1", "--db", "x.db"), "has its configuration and database", 2),
        (("cursor", "--http", "http://127.0.0.1:1", "--token-env", "a-token!"), "not a token", 2),
        (("cursor", "--token-env", "TOKEN"), "`--token-env` is for a server", 2),
        (("cursor", "--name", "../x"), "cannot name a server", 2),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_hint(desk: Shell, words: tuple[str, ...], reason: str, code: int) -> None:
    done = desk.type("install", *words, "--yes")

    assert (done.returncode, done.stdout) == (code, "")
    assert reason in done.stderr
    assert "\n\nhint: " in done.stderr
    assert "pass@" not in done.stderr


def test_where_a_client_never_ran_nothing_is_written(shell: Shell) -> None:
    done = shell.type("install", "cursor", "--yes")

    assert done.returncode == 4
    assert "start Cursor once, or name its file with `--file`" in done.stderr
    assert not (shell.folder / ".cursor").exists()


# -- other platforms ---------------------------------------------------------------------------------------------------


def places(platform: str, home: Path, **environ: str) -> list[str]:
    """The files of the four clients, below the home folder, in the project `p`."""
    here = Surroundings(platform, environ, home, home / "p")
    return [client.place(here).relative_to(home).as_posix() for client in CLIENTS.values()]


def test_each_platform_has_its_places(tmp_path: Path) -> None:
    mac = "Library/Application Support"

    assert places("darwin", tmp_path) == [
        f"{mac}/Claude/claude_desktop_config.json",
        "p/.mcp.json",
        ".cursor/mcp.json",
        f"{mac}/Code/User/mcp.json",
    ]
    assert places("linux", tmp_path, XDG_CONFIG_HOME=str(tmp_path / "c"))[::3] == [
        "c/Claude/claude_desktop_config.json",
        "c/Code/User/mcp.json",
    ]
    assert places("win32", tmp_path, APPDATA=str(tmp_path / "Roaming"))[::3] == [
        "Roaming/Claude/claude_desktop_config.json",
        "Roaming/Code/User/mcp.json",
    ]


def test_as_a_windows_package_claude_desktop_reads_its_own_folder(tmp_path: Path) -> None:
    own = "AppData/Local/Packages/Claude_{}/LocalCache/Roaming/Claude"
    (tmp_path / own.format("pz")).mkdir(parents=True)

    assert places("win32", tmp_path)[0] == f"{own.format('pz')}/claude_desktop_config.json"

    (tmp_path / own.format("qz")).mkdir(parents=True)
    with pytest.raises(CommandError, match="2 times"):
        places("win32", tmp_path)


# -- what a client then does -------------------------------------------------------------------------------------------


async def test_the_entry_starts_a_server_from_any_folder_with_next_to_no_environment(desk: Shell) -> None:
    entry = printed(desk, "claude-desktop")["mcpServers"]["outrider"]
    start = StdioServerParameters(command=entry["command"], args=entry["args"], env={"PATH": "/usr/bin:/bin"}, cwd="/")

    with anyio.fail_after(30):
        async with Client(start) as client:
            offered = {tool.name for tool in (await client.list_tools()).tools}
            known = await client.call_tool("list_agents")  # needs the database, which the list of tools does not

    assert {"dispatch_agent", "get_result", "cancel_agent"} <= offered
    assert not known.is_error
    assert desk.database.is_file()
