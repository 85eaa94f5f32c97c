"""The first answers over stdio: the same bytes as the SDK's, earlier; and nothing is lost while it is imported."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
import pytest
from mcp.shared.message import SessionMessage

from server.mcp_face.early import EarlyAnswers
from server.mcp_face.introduction import HANDSHAKE_VERSIONS, MODERN_VERSION
from server.mcp_face.server import mcp_server
from server.mcp_face.updates import Updates
from server.messages import NotAMessage, message_of
from server.service import Service
from tests.support.service import settings_of
from tests.support.shell import SCRIPT, Shell
from tests.support.sources import ROOT
from tests.support.wire import LEGACY, MODERN, about, introduction, request

CONFIG = """
agents:
  Left: {description: 'looks left, "quoted" — and beyond\u2028'}
  Picky: {description: takes more, input_schema: {type: object, properties: {depth: {type: integer}}}}
agent_chains: {look: {description: looks, stages: [{name: one, agents: [Left]}]}}
chat: {agent: Left}
"""
CAPABILITIES: tuple[dict[str, Any], ...] = (
    {},
    {"roots": {}},
    {"roots": {"listChanged": True}, "sampling": {}},
    {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}, "context": {}}},
    {"experimental": {"x": {"deep": [1, None]}}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
    {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}},
    {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/plain"]}}},
    {"tasks": {"list": {}, "cancel": {}, "requests": {"elicitation": {"create": {}}}}},
)
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
VERSIONS = (*HANDSHAKE_VERSIONS, "1999-01-01", MODERN_VERSION)


def settled(folder: Path) -> Service:
    service = Service()
    service.load(settings_of(folder, CONFIG))
    return service


def line(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode()


def early(service: Service, lines: Sequence[bytes]) -> list[bytes | None]:
    answers = EarlyAnswers(service)
    return [answers.answer(each)[0] for each in lines]


async def of_sdk(service: Service, lines: Sequence[bytes]) -> dict[Any, bytes]:
    """The answers of the SDK to the same lines, by id."""
    server = mcp_server(service, Updates())
    inward, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, outward = anyio.create_memory_object_stream[SessionMessage](100)
    found: dict[Any, bytes] = {}
    with anyio.fail_after(20), outward:
        async with anyio.create_task_group() as group:
            group.start_soon(server.run, incoming, outgoing, server.create_initialization_options(), name="the SDK")
            with inward:
                for each in lines:
                    try:
                        message = message_of(each)
                    except NotAMessage:
                        continue
                    await inward.send(SessionMessage(message))
                    if isinstance(message, t.JSONRPCRequest):
                        answer = (await outward.receive()).message
                        found[message.id] = answer.model_dump_json(by_alias=True, exclude_unset=True).encode()
    return found


async def compared(service: Service, messages: Sequence[Any], *, at_least: int) -> None:
    """Every early answer is the SDK's; so many there are."""
    lines = [line(message) for message in messages]
    given = early(service, lines)
    expected = await of_sdk(service, lines)
    for message, answer in zip(messages, given, strict=True):
        if answer is not None:
            assert answer == expected[message["id"]], message
    assert sum(answer is not None for answer in given) >= at_least, messages


def legacy(version: str, capabilities: dict[str, Any], identifier: Any = 1) -> list[Any]:
    return [
        request(identifier, "initialize", introduction(capabilities, version), LEGACY),
        INITIALIZED,
        {"jsonrpc": "2.0", "id": "p", "method": "ping"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        request(3, "tools/list", {"_meta": {"progressToken": 7}}, LEGACY),
    ]


def modern(capabilities: dict[str, Any], **more: Any) -> list[Any]:
    meta = {**about(MODERN, capabilities), **more}
    names = ("server/discover", "tools/list", "server/discover", "tools/list")
    return [
        {"jsonrpc": "2.0", "id": number, "method": name, "params": {"_meta": meta}} for number, name in enumerate(names)
    ]


@pytest.mark.parametrize("capabilities", CAPABILITIES, ids=str)
async def test_first_answers_are_the_bytes_of_the_sdk_in_every_version(
    tmp_path: Path, capabilities: dict[str, Any]
) -> None:
    service = settled(tmp_path)
    for version in VERSIONS:
        await compared(service, legacy(version, capabilities), at_least=4)
    for identifier in ('ü\t"', 0, -5, 2**52):
        await compared(service, legacy(LEGACY, capabilities, identifier), at_least=4)
    await compared(service, modern(capabilities), at_least=4)
    known = {"name": "host", "version": "1", "title": "Host", "websiteUrl": "https://host.example"}
    await compared(service, modern(capabilities, **{"io.modelcontextprotocol/clientInfo": known}), at_least=4)


ODD: tuple[Any, ...] = (None, True, 0, -1, 1.5, "", "x", [], [{}], {}, {"x": 1}, {"x": {}}, {"listChanged": "yes"}, 2**70)


def disturbed(value: Any, source: random.Random) -> Any:
    """The same with one part changed, added or left out."""
    if isinstance(value, dict) and value and source.random() < 0.9:
        copy, name = deepcopy(value), source.choice(list(value))
        choice = source.random()
        if choice < 0.15:
            del copy[name]
        elif choice < 0.3:
            copy[source.choice(["cursor", "x", "_meta", "tasks", "icons", "roots"])] = source.choice(ODD)
        else:
            copy[name] = disturbed(copy[name], source)
        return copy
    return source.choice(ODD)


@pytest.mark.parametrize("seed", range(4))
async def test_an_odd_request_is_answered_early_only_as_the_sdk_answers_it(tmp_path: Path, seed: int) -> None:
    service, source = settled(tmp_path), random.Random(seed)
    for _ in range(60):
        capabilities = source.choice(CAPABILITIES)
        messages = source.choice([legacy(source.choice(VERSIONS), capabilities), modern(capabilities)])
        place = source.randrange(len(messages))
        messages[place] = disturbed(messages[place], source)
        if isinstance(messages[place], dict) and isinstance(messages[place].get("id"), int | str):
            await compared(service, messages, at_least=0)


@pytest.mark.parametrize(
    "opening",
    [
        b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": NaN, "method": "initialize"}',
        b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}',
        b"\xff",
        b"[" * 100_000,
        line(request(1, "initialize", introduction(), LEGACY) | {"extra": 1}),
        line(request(1, "tools/list", {}, MODERN)),
    ],
    ids=lambda data: data[:60].decode(errors="replace"),
)
def test_what_is_not_certain_leaves_the_whole_conversation_to_the_sdk(tmp_path: Path, opening: bytes) -> None:
    answers = EarlyAnswers(settled(tmp_path))

    for each in (opening, *map(line, legacy(LEGACY, {})), *map(line, modern({}))):
        assert answers.answer(each) == (None, each)


def test_a_list_waits_for_the_configuration_and_is_not_given_to_a_client_that_cancelled(tmp_path: Path) -> None:
    service = Service()
    answers = EarlyAnswers(service)
    _, *kept = [answers.answer(line(each))[1] for each in legacy(LEGACY, {})]
    lists = [each for each in kept if each is not None and b"tools/list" in each]
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}

    assert len(lists) == 2
    assert answers.answer_kept(lists) is None
    service.load(settings_of(tmp_path, CONFIG))
    first, second = answers.answer_kept(lists), answers.answer_kept([*lists, line(cancelled)])
    assert first is not None
    assert second is not None
    assert (first[0], second[0]) == (0, 1)
    assert json.loads(second[1])["id"] == 3
    assert answers.answer_kept([lists[0], line(cancelled)]) is None


def talk(shell: Shell, data: bytes) -> list[Any]:
    """What a process answers to a client that says everything at once, reads, and leaves when all is answered."""
    with subprocess.Popen([SCRIPT, "serve"], cwd=shell.folder, env=shell.surroundings(), stdin=-1, stdout=-1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(data)
        process.stdin.flush()
        wanted = sum(b'"id"' in each for each in data.splitlines())
        answers = [json.loads(process.stdout.readline()) for _ in range(wanted)]
        process.stdin.close()
        assert process.wait(20) == 0
        assert process.stdout.read() == b""
    return answers


def test_nothing_that_a_client_says_while_the_sdk_is_imported_is_lost_or_answered_twice(shell: Shell) -> None:
    lists = [request(f"l{number}", "prompts/list", {}, LEGACY) for number in range(20)]
    lines = [
        *map(line, legacy(LEGACY, {})),
        b'{"id": 40, not JSON',
        line(request(41, "no/such", {}, LEGACY)),
        line(request(42, "tools/list", {}, MODERN)),
        line(request(43, "tools/call", {"name": "list_agents", "arguments": {}}, LEGACY)),
        *map(line, lists),
    ]
    answers = talk(shell, b"\n".join([*lines, b""]))

    assert [answer.get("id") for answer in answers[:4]] == [1, "p", 2, 3]
    codes = {answer.get("id"): answer["error"]["code"] for answer in answers if "error" in answer}
    assert codes == {40: -32700, 41: -32601, 42: -32600}
    done = {answer.get("id") for answer in answers}
    assert {43, *(each["id"] for each in lists)} <= done


def test_the_era_that_the_opening_request_chose_holds_for_the_sdk_too(shell: Shell) -> None:
    refused = request(9, "initialize", introduction(), LEGACY)
    answers = talk(shell, b"\n".join([*map(line, [*modern({}), refused]), b""]))

    assert {answer["id"] for answer in answers} == {0, 1, 2, 3, 9}
    [last] = [answer for answer in answers if answer["id"] == 9]
    assert last["error"]["code"] == -32022


def test_a_client_that_leaves_at_once_ends_the_process(shell: Shell) -> None:
    opening = line(request(1, "initialize", introduction(), LEGACY)) + b"\n"
    words, environ = [str(SCRIPT), "serve"], shell.surroundings()
    ended = subprocess.run(words, check=True, cwd=shell.folder, env=environ, input=opening, capture_output=True, timeout=20)

    assert [json.loads(each)["id"] for each in ended.stdout.splitlines()] == [1]


@pytest.mark.parametrize(
    ("imported", "forbidden"),
    [
        (
            "server.cli.main, server.serve, server.mcp_face.stdio",
            "mcp mcp_types pydantic registry sqlalchemy yaml",
        ),
        ("registry, server.mcp_face.tools", "mcp mcp_types sqlalchemy sqlmodel anthropic aiohttp httpx2 starlette"),
    ],
    ids=["initialize", "tools/list"],
)
def test_the_first_answers_import_only_what_they_need(imported: str, forbidden: str) -> None:
    asked = f"import sys, {imported}; print(set({forbidden.split()}) & set(sys.modules) or 'nothing')"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, cwd=ROOT)

    assert told.stdout.strip() == "nothing"
