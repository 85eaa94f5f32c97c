"""The wire sends what the SDK sends; a request that it cannot send alike goes through the SDK."""

from __future__ import annotations

import gzip
import ssl
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from registry import ModelSpec
from runner.llm import wire
from runner.llm.endpoint import Endpoint
from tests.runner.llm.adapter import ONCE, at, complete, failing, model
from tests.runner.llm.asking import asked
from tests.support.messages_api import Answer, MessagesApi, Received, encode_event, events_of, messages_api, reply, text
from tests.support.sources import ROOT

ONE_REQUEST = """
import sys
import anyio
from runner.llm.endpoint import Endpoint

async def main():
    endpoint = Endpoint(sys.argv[1], "key")
    answer = await endpoint.post(b'{"stream": true}')
    print([name for name in ("anthropic", "httpx2", "httpcore2") if name in sys.modules])
    await answer.aclose()
    await endpoint.close()

anyio.run(main)
"""


async def sent(api: MessagesApi, base_url: str, *keys: str) -> list[Received]:
    """The requests that one endpoint sends with these keys."""
    before = len(api.requests)
    endpoint = await anyio.to_thread.run_sync(Endpoint, base_url, keys[0])
    for key in keys:
        endpoint.use_key(key)
        answer = await endpoint.post(b'{"model":"m","text":"\xc3\xa9"}')
        async for _ in answer.aiter_bytes():
            pass
        await answer.aclose()
    await endpoint.close()
    return api.requests[before:]


@pytest.mark.parametrize("path", ["", "/", "/proxy", "/proxy/"])
async def test_a_request_has_the_same_bytes_as_the_sdks(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with messages_api(reply(text("ok"))) as api:
        ours = await sent(api, api.url + path, "first", "second")
        monkeypatch.setattr(wire, "SDK_VERSION", "0")  # as if another version were installed
        theirs = await sent(api, api.url + path, "first", "second")
    assert [(each.head, each.raw) for each in ours] == [(each.head, each.raw) for each in theirs]
    assert all(each.head.startswith(b"POST %s/v1/messages HTTP/1.1" % path.rstrip("/").encode()) for each in ours)


def test_the_headers_are_those_of_the_installed_sdk() -> None:
    assert wire.is_ordinary(None), "record the headers of the installed SDK: see `recorded_headers`"


async def test_a_request_imports_neither_the_sdk_nor_its_http_client() -> None:
    async with messages_api(reply(text("ok"))) as api:
        done = await anyio.run_process([sys.executable, "-c", ONE_REQUEST, api.url], stderr=subprocess.PIPE, cwd=ROOT)
    assert done.stdout.decode().strip() == "[]"


async def test_headers_of_the_environment_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-team: platform")
    async with messages_api(reply(text("ok"))) as api:
        await complete(api)
        assert api.requests[0].headers["x-team"] == "platform"


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_a_proxy_of_the_environment_is_used(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with messages_api(reply(text("ok"))) as proxy, model() as adapter:
        monkeypatch.setenv(variable, proxy.url)
        spec = replace(at(proxy).spec, base_url="http://models.invalid")
        assert (await adapter.complete(asked(spec=spec), lambda _: None)).stop_reason == "end_turn"
        assert proxy.requests[0].head.startswith(b"POST http://models.invalid/v1/messages HTTP/1.1")


async def test_an_address_that_needs_no_proxy_is_asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with messages_api(reply(text("ok"))) as api:
        assert (await complete(api)).stop_reason == "end_turn"


async def test_a_redirect_is_followed() -> None:
    async with messages_api(reply(text("moved"))) as there:
        moved = Answer(status=307, headers={"location": f"{there.url}/v1/messages"})
        async with messages_api(moved) as api:
            assert list((await complete(api)).content) == [text("moved")]
        assert there.requests[0].body["model"] == "claude-sonnet-5-5"


def certified(folder: Path) -> ssl.SSLContext:
    """A server's TLS for 127.0.0.1; `ca.pem` in the folder is its authority."""
    key, names = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(names, names, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    folder.joinpath("key.pem").write_bytes(private)
    folder.joinpath("ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    return context


@pytest.mark.usefixtures("path")
async def test_a_certificate_is_verified_by_the_authorities_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with messages_api(reply(text("sealed")), tls=certified(tmp_path)) as api:
        assert (await failing(api, at(api, retry=ONCE))).kind == "connection"
        assert not api.requests
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert list((await complete(api)).content) == [text("sealed")]


@pytest.mark.usefixtures("path")
async def test_a_compressed_answer_is_read() -> None:
    stream = gzip.compress(b"".join(encode_event(each) for each in events_of([text("packed")])))
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(stream)
    async with messages_api(Answer(raw=head + stream)) as api:
        assert list((await complete(api)).content) == [text("packed")]


@pytest.mark.parametrize(
    "address",
    ["http://user:secret@h", "http://h/?a=1", "http://h/#a", "http://bücher.example", "ftp://h", "http://", "http://a%41"],
)
def test_an_unusual_address_is_left_to_the_sdk(address: str) -> None:
    assert not wire.is_ordinary(address)


async def test_models_of_one_endpoint_share_its_connections() -> None:
    async with messages_api(reply(text("ok"))) as api:
        haiku: ModelSpec = replace(at(api).spec, name="haiku", model="claude-haiku-5-5")
        async with model(haiku) as adapter:
            await adapter.complete(at(api), lambda _: None)
            await adapter.complete(replace(at(api), spec=haiku), lambda _: None)
        assert (len(api.requests), api.connections) == (2, 1)
