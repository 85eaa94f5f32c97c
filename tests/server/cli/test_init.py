"""`outrider init`: a configuration for one's own servers, from flags or from answers, that loads as it is."""

import json
import sys
from pathlib import Path

import yaml

from tests.support.shell import Shell
from tests.support.terminal import typed

ECHO = Path(__file__).parents[2] / "support" / "gate_server.py"


def test_flags_become_a_commented_configuration_that_loads(tmp_path: Path) -> None:
    shell, words = Shell(tmp_path), f"{sys.executable} -I '{ECHO}' 'a b: #c'"

    done = shell.type(
        "init",
        "--server",
        f"notes={words}",
        "--server",
        "web=https://example.com/mcp",
        "--env",
        "web.TOKEN",
        "--agent",
        "Clerk",
    )

    assert (done.returncode, done.stdout) == (0, "")
    assert "set `ANTHROPIC_API_KEY`, `TOKEN` in your environment" in done.stderr
    written = yaml.safe_load((tmp_path / "config.yaml").read_text(encoding="utf-8"))
    assert written["mcp_servers"]["notes"]["command"] == [sys.executable, "-I", str(ECHO), "a b: #c"]
    assert written["mcp_servers"]["web"]["headers"] == {"Authorization": "Bearer ${TOKEN}"}
    assert written["agents"]["Clerk"]["mcp_servers"] == ["notes", "web"]
    checked = shell.type("config", "check", TOKEN="secret")
    assert "2 agents, 0 chains, 2 servers, 1 model" in checked.stdout


def test_a_person_at_a_terminal_is_asked(tmp_path: Path) -> None:
    keys = "notes\npython3 notes.py\nKEY_A, KEY_B\n\nClerk\n\n"

    code, _, seen = typed(Shell(tmp_path), "init", keys=keys)

    assert code == 0
    assert "command or URL of notes: " in seen
    written = yaml.safe_load((tmp_path / "config.yaml").read_text(encoding="utf-8"))
    assert written["mcp_servers"]["notes"]["env"] == {"KEY_A": "${KEY_A}", "KEY_B": "${KEY_B}"}
    assert written["models"]["main"]["model"] == "claude-sonnet-5-5"
    assert list(written["agents"]) == ["Clerk"]


def test_without_a_terminal_and_without_flags_a_file_to_fill_in_is_written(tmp_path: Path) -> None:
    done = Shell(tmp_path).type("init", "--json")

    assert json.loads(done.stdout) == {"config": str(tmp_path / "config.yaml"), "servers": [], "agent": "Assistant"}
    assert Shell(tmp_path).type("config", "check").returncode == 0


def test_a_file_that_exists_is_never_touched_and_bad_input_writes_nothing(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    refused = {
        ("--agent", "a: b"): "cannot be a name",
        ("--server", "notes"): "names no command",
        ("--server", "notes=python 'x"): "cannot be read",
        ("--env", "notes.KEY"): "belongs to no `--server`",
        ("--base-url", "nowhere"): "models.main.base_url",
    }
    for words, said in refused.items():
        done = shell.type("init", *words)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
        assert "hint: " in done.stderr
        assert not (tmp_path / "config.yaml").exists()
    (tmp_path / "config.yaml").write_text("mine", encoding="utf-8")
    assert shell.type("init", "--agent", "Clerk").returncode == 2
    assert (tmp_path / "config.yaml").read_text(encoding="utf-8") == "mine"
