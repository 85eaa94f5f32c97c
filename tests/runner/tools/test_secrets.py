"""Secrets by every way a server can say them, as the provider, the rows, the events and the logs see them: nowhere."""

from __future__ import annotations

import base64
import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from registry import UpstreamSpec, held_secrets
from runner.service.order import Order
from runner.tools.protocol import ToolResult
from runner.tools.secrets import Mask
from server.app import Blueprint, open_service
from tests.support.local_tools import LocalTools
from tests.support.messages_api import Answer, Received, messages_api, reply, text, tool_use
from tests.support.models import ScriptedModel, call, say
from tests.support.reading import shown
from tests.support.saying_server import WAYS
from tests.support.service import OneModel, settings_of
from tests.support.upstream_specs import ROOT

KEY_LINES = ["MIIEowIBAAKCAQEAx7Qm2vLk9sT4", "pR8wZy1nB6cVf0aJhGd3eKuXoM5i"]
ENVIRON = {
    "AUTH": "auth-canary-7f3a",
    "DB_PASS": "swordfish-and-chips",
    "MYSQL_PWD": "my5ql-canary",
    "PASSPHRASE": "correct horse battery staple",
    "DATABASE_URL": "postgres://ann:p%40ss-canary-9@db.example:5432/shop",
    "SENTRY_DSN": "https://0a1b2c3d4e5f60718293a4b5c6d7e8f9@sentry.example/42",
    "SESSION_COOKIE": "sid=c00kie-canary-1; theme=dark",
    "TOKEN_V2": "tkn2-canary-55aa",
    "SLASHED_KEY": "/k3y+that/begins=with",
    "SIGNING_KEY": "-----BEGIN PRIVATE KEY-----\n" + "\n".join(KEY_LINES) + "\n-----END PRIVATE KEY-----",
    "PLAINLY_NAMED": "referenced-canary-1x",
}
SERVER = {"ODD_NAME": "literal-canary-2y", "REFERENCED": "${PLAINLY_NAMED}", "LEVEL": "verbose", "SHARED": "kept-as-is-77"}
HEADERS = {"X-Odd": "header-canary-3z", "Authorization": "Basic " + base64.b64encode(b"bob:b4sic-canary").decode()}

SAID = [
    *(value for name, value in ENVIRON.items() if name != "SIGNING_KEY"),
    *("p%40ss-canary-9", "p@ss-canary-9", "0a1b2c3d4e5f60718293a4b5c6d7e8f9", "c00kie-canary-1", *KEY_LINES),
    *("literal-canary-2y", "referenced-canary-1x", "header-canary-3z", "b4sic-canary", HEADERS["Authorization"]),
]
"""All that must be nowhere."""
INNOCENT = "level verbose, region eu-west-1, kept-as-is-77, theme=dark, db.example:5432, postgres, /tmp, 8080, true, bob"
CONFIG = """
models: {{m: {{model: claude-x, base_url: "{url}"}}}}
defaults: {{model: m, limits: {{tool_timeout: 20s}}}}
secrets: {{plain: [SHARED]}}
mcp_servers:
  box: {{command: {command}, cwd: {root}, env: {env}}}
  far: {{url: "http://127.0.0.1:9/mcp", headers: {headers}}}
agents: {{Lead: {{mcp_servers: [box]}}}}
"""


class Listener:
    """Calls everything once, then answers."""

    def __init__(self) -> None:
        self.received: list[Received] = []

    def __call__(self, received: Received) -> Answer:
        self.received.append(received)
        if len(self.received) > 1:
            return reply(text("done"))
        return reply(*(tool_use(f"box__{way}", {}, f"toolu_{way}") for way in WAYS))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Received], str]:
    """A service whose server says every secret in every way; its folder, what the provider saw, and what was logged."""
    folder, listener, lines = tmp_path_factory.mktemp("secrets"), Listener(), Lines()
    (folder / "said").write_text(" | ".join([INNOCENT, *SAID]), encoding="utf-8")
    logging.getLogger().addHandler(lines)
    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.DEBUG)
    try:
        anyio.run(_play, folder, listener)
    finally:
        logging.getLogger().removeHandler(lines)
        logging.getLogger().setLevel(level)
    return folder, listener.received, "\n".join(lines.lines)


class Lines(logging.Handler):
    """What is logged, as text."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


async def _play(folder: Path, listener: Listener) -> None:
    command = [sys.executable, "-E", "-S", "-m", "tests.support.saying_server", str(folder / "said")]
    async with messages_api(listener) as api:
        config = CONFIG.format(
            url=api.url, command=json.dumps(command), root=json.dumps(str(ROOT)),
            env=json.dumps(SERVER), headers=json.dumps(HEADERS),
        )  # fmt: skip
        environ = {**ENVIRON, "ANTHROPIC_API_KEY": "canary-key"}
        blueprint = Blueprint(settings_of(folder, config, environ), folder / "x.db", environ=environ)
        async with open_service(blueprint) as dispatcher:
            with anyio.fail_after(60):
                started = await dispatcher.start(Order("Lead", "say it"))
                assert (await dispatcher.wait(started.id)).status == "completed"


def _leaks(heard: bytes) -> list[str]:
    forms = {each: {each.encode(), json.dumps(each)[1:-1].encode()} for each in SAID}
    return [each for each, spelled in forms.items() if any(form in heard for form in spelled)]


def test_the_provider_is_sent_none(scene: tuple[Path, list[Received], str]) -> None:
    _, received, _ = scene
    assert _leaks(b"".join(each.raw for each in received)) == []
    assert len(received) == 2


def test_rows_events_and_files_of_the_database_hold_none(scene: tuple[Path, list[Received], str]) -> None:
    folder, _, _ = scene
    assert _leaks(b"".join(each.read_bytes() for each in folder.glob("x.db*") if each.is_file())) == []


def test_logs_hold_none(scene: tuple[Path, list[Received], str]) -> None:
    _, _, logged = scene
    assert _leaks(logged.encode()) == []
    assert "upstream box connected" in logged


def test_innocent_words_beside_them_stay_as_they_are(scene: tuple[Path, list[Received], str]) -> None:
    _, received, _ = scene
    blocks = [block for message in received[1].body["messages"] for block in message["content"]
              if block["type"] == "tool_result"]  # fmt: skip
    said = {block["tool_use_id"]: block["content"][0]["text"] for block in blocks}
    assert said["toolu_text"].startswith(INNOCENT)
    [described] = [tool["description"] for tool in received[0].body["tools"] if tool["name"] == "box__text"]
    assert described.startswith(f"Says {INNOCENT}")


GIVEN = UpstreamSpec(name="far", headers=HEADERS, env=SERVER)
MASK = Mask(held_secrets([GIVEN], ENVIRON, referenced=["PLAINLY_NAMED"]))


@pytest.mark.parametrize("secret", [each for each in SAID if "://ann" not in each])
async def test_a_secret_that_goes_on_in_the_next_block_is_found_wherever_it_is_split(secret: str) -> None:
    for at in range(1, len(secret)):
        result = ToolResult(f"one {secret[:at]}\n{secret[at:]} two\nthree", seams=(4 + at, 9 + len(secret)))
        assert (await MASK.result(result)).text in ("one *** two\nthree", "one ***\n*** two\nthree"), at


def test_a_page_of_a_text_shows_no_piece_of_a_secret() -> None:
    whole = f"before {ENVIRON['DB_PASS']} after"
    pages = [MASK.page(whole, start, start + 10) for start in range(0, len(whole), 10)]
    assert not any(ENVIRON["DB_PASS"][at : at + 4] in "|".join(pages) for at in range(len(ENVIRON["DB_PASS"]) - 3))


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("LEVEL", "verbose", False),
        ("PORT", "8080", False),
        ("TIMEOUT", "30000ms", False),
        ("REGION", "eu-west-1", False),
        ("TZ", "Europe/Berlin", False),
        ("LANG", "en_US.UTF-8", False),
        ("ENDPOINT", "https://api.example.org/v1", False),
        ("HOSTS", "a.example:9092,b.example:9092", False),
        ("DATA", "/var/lib/outrider/data", False),
        ("HOME", "/tmp", False),
        ("ODD", "team-payments-42", True),
        ("ODD", "/Zk9+x7Qm2vLk", True),
        ("KEY_FILE", "/tmp", False),
        ("AUTH", "enabled", False),
        ("AUTH", "swordfish", True),
        ("MAX_TOKENS", "4096", False),
        ("API_KEY", "12345678", True),
        ("API_KEY", "short", False),
        ("DBPASS", "hunter-two", True),
        ("BYPASS", "loopback", False),
    ],
)
def test_what_a_server_is_given_is_a_secret_unless_it_looks_like_none(name: str, value: str, secret: bool) -> None:
    held = held_secrets([UpstreamSpec(name="box", env={name: value})], {})
    assert (value in held) is secret
    assert held_secrets([UpstreamSpec(name="box", env={name: value})], {}, plain=[name]) == frozenset()


def test_the_shell_has_variables_that_sound_secret_and_are_not() -> None:
    shell: dict[str, Any] = {
        "PWD": "/somewhere/that/Is-Not", "OLDPWD": "/somewhere/Else-77", "SSH_AUTH_SOCK": "/tmp/ssh-XXa7/agent.1",
        "XDG_SESSION_TYPE": "wayland-one", "DESKTOP_SESSION": "ubuntu-wayland", "EDITOR": "an editor of mine",
        "AUTHOR": "Ann Example", "MONKEY": "see-monkey-do-1", "COMPASS": "north-by-north-1",
    }  # fmt: skip
    assert held_secrets([], shell) == frozenset()


@pytest.mark.parametrize(
    ("address", "passwords"),
    [
        ("postgres://ann:s3cr%2Ft-1@db/shop?mail=a@b.example", {"s3cr%2Ft-1", "s3cr/t-1"}),
        ("amqp://ann:has@inside-1@mq", {"has@inside-1"}),
        ("redis://:first-pw-1@a,redis://:second-pw-2@b", {"first-pw-1", "second-pw-2"}),
        ("https://ghp_0123456789abcdef@git.example/x", {"ghp_0123456789abcdef"}),
        ("postgres://postgres:postgres@localhost/dev", set()),
        ("http://localhost:8080/a@b", set()),
    ],
)
def test_the_password_of_an_address_is_a_secret_whatever_its_variable_is_called(address: str, passwords: set[str]) -> None:
    held = held_secrets([], {"WHATEVER": address})
    assert held >= passwords
    assert bool(held) is bool(passwords)


async def test_a_secret_in_instructions_or_from_a_tool_of_the_program_is_masked_and_what_models_are_told_is_not(
    tmp_path: Path,
) -> None:
    environ = {"TEAM": "payments-core-77", "HOUSE_TOKEN": "hs-canary-0011"}
    config = "agents: {A: {custom_instructions: 'You work for ${TEAM} with ${HOUSE_TOKEN}.'}}"

    async def leak(_arguments: Mapping[str, Any]) -> str:
        return "the token is hs-canary-0011, the team payments-core-77"

    tools = LocalTools({"leak": leak}).for_agents("A")
    model = ScriptedModel({"A": [call("leak"), say("done")]})
    blueprint = Blueprint(
        settings_of(tmp_path, config, environ),
        tmp_path / "x.db",
        environ=environ,
        models=OneModel(model),
        extra_tools=tools,
    )
    async with open_service(blueprint) as dispatcher:
        started = await dispatcher.start(Order("A", "go"))
        assert (await dispatcher.wait(started.id)).status == "completed"
    first, second = model.of("A")
    assert "You work for payments-core-77 with ***." in first.system
    assert "the token is ***, the team payments-core-77" in shown(second)
