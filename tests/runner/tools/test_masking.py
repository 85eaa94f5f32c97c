"""Secrets this process holds: never shown to a model and never stored, in no spelling, for no agent of the tree."""

import base64
import json
import time
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from registry import UpstreamSpec, held_secrets
from runner.tools.secrets import Mask
from tests.support.models import call, say
from tests.support.reading import dispatch
from tests.support.requirement import requirement
from tests.support.servers import raw_server
from tests.support.service import bench
from tests.support.upstream_specs import call as call_tool
from tests.support.upstream_specs import opened, raw

SECRET = 'p/a+ss"wörd\\&x=1'

SPELLINGS = {
    "as it is": SECRET,
    "in JSON": json.dumps(SECRET),
    "in JSON with its letters": json.dumps(SECRET, ensure_ascii=False),
    "in an address": quote(SECRET, safe=""),
    "in an address with slashes": quote_plus(SECRET, safe="/"),
    "in an address in lower case": "p%2fa%2bss%22w%c3%b6rd%5c%26x%3d1",
    "in hexadecimal": SECRET.encode().hex(),
    "in base64": base64.b64encode(SECRET.encode()).decode(),
    "in base64 for addresses": base64.urlsafe_b64encode(SECRET.encode()).decode(),
    "in base64 with its user": base64.b64encode(f"admin:{SECRET}".encode()).decode(),
    "in base64 within more": base64.b64encode(f"user=ops;{SECRET};tls=1".encode()).decode(),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_secret_is_hidden_in_every_spelling(spelling: str) -> None:
    hidden = Mask([SECRET]).text(f"before {SPELLINGS[spelling]} after")
    assert "***" in hidden
    assert hidden.startswith("before ")
    assert hidden.endswith(" after")
    for piece in (SECRET[2:10], base64.b64encode(SECRET.encode()).decode()[4:12], SECRET.encode().hex()[4:12]):
        assert piece not in hidden


def test_text_without_secrets_is_left_alone_and_a_megabyte_costs_little() -> None:
    mask = Mask([f"{number}-secret-{number}" for number in range(10)])
    text = "pod web-7d4b9c-x2x1 restarted; trace 4bf92f3577b34da6a3ce929d0e0e4736; sha256:9f86d081\n" * 12_000
    began = time.thread_time()
    assert mask.text(text) == text
    assert time.thread_time() - began < 0.2


def test_the_secrets_are_those_of_the_environment_and_of_the_configuration() -> None:
    spec = UpstreamSpec(
        name="box",
        command=("serve", "--token", "by-flag-1", "--password=by-flag-2", "--port", "8080"),
        env={"API_TOKEN": "by-variable", "LEVEL": "verbose"},
        url="https://user:by-address@example.org/?sig=by-query",
        headers={"Authorization": "Bearer by-header"},
    )
    environ = {"SOME_API_KEY": "by-environment", "SSH_AUTH_SOCK": "/tmp/agent", "EDITOR": "an editor"}
    assert held_secrets([], {"CALLER": "by-name"}, ["CALLER", "UNSET"]) == {"by-name"}
    held = held_secrets([spec], environ)
    assert held >= {f"by-{way}" for way in ("flag-1", "flag-2", "variable", "address", "query", "header", "environment")}
    assert not held & {"verbose", "8080", "/tmp/agent", "an editor"}


async def test_last_words_and_errors_of_a_server_are_masked_too() -> None:
    async with opened(raw("dies_at_start"), raw("dies"), secrets=["configuration", "no more disk"]) as here:
        tools = here.tools()
        await tools.list_tools()
        assert "it said: no *** found" in tools.unavailable["dies_at_start"]
        assert "panic: ***" in (await call_tool(tools, "dies__poke")).text
        assert not any("no more disk" in notice.message for notice in here.notices)


@requirement("S2-LE-15")
async def test_filter_and_masking_hold_for_children_as_for_the_parent(tmp_path: Path) -> None:
    canary = "canary-6f1e9a"
    config = f"""
    mcp_servers: {{box: {raw_server("environment", env={"BOX_TOKEN": canary})}}}
    agents:
      Lead: {{sub_agents: [Child], mcp_servers: [box], tools: {{deny: [box.well]}}}}
      Child: {{description: looks, mcp_servers: [box]}}
    """
    scripts = {
        "Lead": [call("box__poke") + call("box__well") + dispatch("Child"), say("waiting"), say("done")],
        "Child": [call("box__poke") + call("box__well"), say("looked")],
    }
    async with bench(tmp_path, config, scripts) as service:
        assert (await service.run("Lead")).status == "completed"

        for agent in ("Lead", "Child"):
            first, second, *_ = service.model.of(agent)
            assert "box__well" not in {tool.name for tool in first.tools}
            shown, refused, *_ = second.messages[-1].content
            assert '\\"BOX_TOKEN\\": \\"***\\"' in json.dumps(shown)
            assert refused["is_error"]
        assert service.sql("select count(*) as hidden from tool_calls where result like '%***%'") == [{"hidden": 2}]
    assert canary.encode() not in service.database.read_bytes()  # the service is gone
