"""`outrider serve --http` in a real process: what it refuses, and that it comes and goes in order."""

import signal
from pathlib import Path

import httpx2
import pytest

from tests.support.http_serving import CALL_HEADERS, META
from tests.support.shell import CONFIG, make_shell

TOKENS = f"{CONFIG}\nserve: {{http: {{tokens: {{alice: {{token: '${{ALICE_TOKEN}}'}}}}}}}}\n"


@pytest.mark.parametrize(
    ("address", "config", "error", "hint"),
    [
        ("0.0.0.0:0", CONFIG, "refusing to listen on `0.0.0.0` without authentication", "listen on"),
        ("nonsense", CONFIG, "`nonsense` is not an address to listen on", "write `HOST:PORT`"),
        ("0.0.0.0:0", TOKENS, "environment variable `ALICE_TOKEN`, the token of `alice`, is not set", "make one with"),
    ],
)
def test_what_cannot_be_served_safely_is_refused_before_anything_is_opened(
    tmp_path: Path, address: str, config: str, error: str, hint: str
) -> None:
    shell = make_shell(tmp_path, config)

    done = shell.type("serve", "--http", address)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {error}\n\nhint: {hint}")
    assert not shell.database.exists()


def test_a_served_command_answers_and_ends_by_a_signal(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, TOKENS, {"ALICE_TOKEN": "a" * 40})
    with shell.start("serve", "--http", "127.0.0.1:0") as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        url = told.partition("serving MCP at ")[2].partition(";")[0]
        discover = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": META}}
        headers = {**CALL_HEADERS, "Mcp-Method": "server/discover"}
        del headers["Mcp-Name"]
        assert httpx2.post(url, json=discover, headers=headers).status_code == 401
        answer = httpx2.post(url, json=discover, headers={**headers, "Authorization": f"Bearer {'a' * 40}"})
        assert "tools" in answer.json()["result"]["capabilities"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
