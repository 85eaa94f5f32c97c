"""Event streams over HTTP: nothing missed and nothing twice, whatever breaks in between."""

import re
import select
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from server.api.feed import Feed
from server.api.topic import AT_ONCE, HELD_BYTES, FramePage, Scope, StreamFrame, Topic
from server.http_face.listen import parse_address
from tests.support.api_serving import MARK, TIME, USUAL, ApiClient, ApiOptions, ServedApi, served_api
from tests.support.issuer import issuer_on_loopback
from tests.support.models import call, gate, say
from tests.support.requirement import requirement

CONFIG = """
models: {m: {model: none}}
agents:
  Lead: {description: sends others, sub_agents: [Worker], max_iterations: 20}
  Worker: {description: works}
"""
TOKENS = """
serve: {http: {tokens: {alice: {token: '${ALICE}'}, bob: {token: '${BOB}'}}}}
"""
ENVIRON = {"ALICE": "a" * 40, "BOB": "b" * 40}


def scripts(opened: anyio.Event) -> dict[str, Any]:
    """A lead with two workers, of whom the second waits."""
    return {
        "Lead": [
            call("dispatch_agent", name="Worker", task="first"),
            call("dispatch_agent", name="Worker", task="second"),
            gate(opened, say("both are done")),
            say("both are done"),
        ],
        "Worker": [say("done")],
    }


@asynccontextmanager
async def playing(folder: Path, options: ApiOptions = USUAL) -> AsyncIterator[tuple[ServedApi, ApiClient, anyio.Event]]:
    """A served service whose lead waits until an event is set."""
    opened = anyio.Event()
    async with served_api(folder, CONFIG, scripts(opened), options) as api, api.client() as client:
        yield api, client, opened


async def started(client: ApiClient, name: str = "Lead") -> str:
    """Start an agent; its id."""
    return str((await client.post("/api/executions", 201, name=name, task="go"))["execution_id"])


def stored(api: ServedApi, root: str) -> list[int]:
    """The numbers of all events of a tree."""
    rows = api.bench.sql("select seq from events where root_execution_id = ? order by seq", root)
    return [row["seq"] for row in rows]


@requirement("S2-DA-10")
async def test_a_listener_whose_connection_is_cut_again_and_again_misses_nothing_and_reads_nothing_twice(
    tmp_path: Path,
) -> None:
    async with playing(tmp_path) as (api, client, opened):
        root = await started(client)
        path, seen, last, cut = f"/api/executions/{root}/events", list[int](), "", 0
        with anyio.fail_after(TIME):
            for cut in range(1, 200):
                ended = False
                async with client.stream(path, last) as messages:
                    async for message in messages:
                        ended = message.kind == "ended"
                        if message.id:
                            seen.append(message.seq)
                            last = message.id
                        if ended or (message.id and message.seq % 3 == cut % 3):
                            break  # the connection is closed in the middle of the stream
                        if message.kind == "caught_up":
                            opened.set()
                if ended:
                    break

        assert seen == stored(api, root)
        assert cut > 5


async def test_a_stream_says_when_it_has_caught_up_and_when_the_tree_has_ended(tmp_path: Path) -> None:
    async with playing(tmp_path) as (api, client, opened):
        root = await started(client)
        kinds = list[str]()
        with anyio.fail_after(TIME):
            async with client.stream(f"/api/executions/{root}/events") as messages:
                async for message in messages:
                    kinds.append(message.kind)
                    if message.kind == "caught_up":
                        opened.set()
        again = await client.collected(f"/api/executions/{root}/events", until="caught_up")
        nothing = await client.collected(f"/api/executions/{root}/events", after=again[-1].seq, until="ended")

        assert kinds.count("caught_up") == 1
        assert kinds[-1] == "ended"
        assert [message.seq for message in again] == stored(api, root)
        assert nothing == []


async def test_a_listener_to_one_execution_hears_what_is_below_it_and_nothing_else(tmp_path: Path) -> None:
    async with playing(tmp_path) as (api, client, opened):
        opened.set()
        root = await started(client)
        await client.ended(root)
        nodes = (await client.get(f"/api/executions/{root}/tree"))["nodes"]
        heard = await client.collected(f"/api/executions/{nodes[1]['id']}/events")

        rows = api.bench.sql("select seq from events where execution_id = ? order by seq", nodes[1]["id"])
        assert [message.seq for message in heard] == [row["seq"] for row in rows]


async def test_a_part_of_a_tree_grows_while_it_is_followed(tmp_path: Path) -> None:
    config = CONFIG.replace("Worker: {", "Middle: {description: passes on, sub_agents: [Worker]}\n  Worker: {")
    config = config.replace("sub_agents: [Worker], max", "sub_agents: [Middle], max")
    opened = anyio.Event()
    played = {
        "Lead": [call("dispatch_agent", name="Middle", task="pass it on"), say("done")],
        "Middle": [gate(opened, call("dispatch_agent", name="Worker", task="work")), say("done")],
        "Worker": [say("done")],
    }
    async with served_api(tmp_path, config, played) as api, api.client() as client:
        root = await started(client)
        await api.bench.until(lambda: api.bench.statuses().get("Middle") == ["running"])
        [middle] = api.bench.sql("select id from executions where agent = 'Middle'")
        heard = list[int]()
        with anyio.fail_after(TIME):
            async with client.stream(f"/api/executions/{middle['id']}/events") as messages:
                async for message in messages:
                    heard += [message.seq] if message.id else []
                    if message.kind == "caught_up":
                        opened.set()
        await client.ended(root)

        rows = api.bench.sql(
            "select seq from events where root_execution_id = ? and execution_id in "
            "(select id from executions where agent in ('Middle', 'Worker')) and seq <= ? order by seq",
            root,
            heard[-1],
        )
        assert heard == [row["seq"] for row in rows]


async def test_the_stream_of_all_trees_has_those_of_the_caller_alone(tmp_path: Path) -> None:
    opened = anyio.Event()
    opened.set()
    options = ApiOptions(environ=ENVIRON)
    serving = served_api(tmp_path, CONFIG + TOKENS, scripts(opened), options)
    async with serving as api, api.client("a" * 40) as alice, api.client("b" * 40) as bob:
        heard, mine, theirs = dict[str, list[str]](), "", list[str]()
        ready = {name: anyio.Event() for name in ("alice", "bob")}

        async def listen(name: str, client: ApiClient, ends: int) -> None:
            found = heard[name] = []
            async with client.stream("/api/events") as messages:
                async for message in messages:
                    if message.kind == "caught_up":
                        ready[name].set()
                    elif message.id:
                        found.append(message.data["root_execution_id"])
                        data = message.data
                        ended = data["type"] == "execution.status" and data["payload"]["status"] == "completed"
                        ends -= ended and data["parent_execution_id"] is None
                        if not ends:
                            return

        with anyio.fail_after(TIME):
            async with anyio.create_task_group() as group:
                group.start_soon(listen, "alice", alice, 1)
                group.start_soon(listen, "bob", bob, 2)
                for each in ready.values():
                    await each.wait()
                mine = await started(alice)
                theirs = [await started(bob, "Worker"), await started(bob, "Worker")]

        assert set(heard["alice"]) == {mine}
        assert set(heard["bob"]) == set(theirs)


async def test_what_a_model_says_arrives_while_it_is_said_and_has_no_number(tmp_path: Path) -> None:
    async with playing(tmp_path) as (_api, client, opened):
        root = await started(client)
        without = list[str]()
        with anyio.fail_after(TIME):
            async with client.stream(f"/api/executions/{root}/events") as messages:
                async for message in messages:
                    if message.kind == "caught_up":
                        opened.set()
                    elif message.data is not None and not message.id:
                        assert message.data["seq"] is None
                        without.append(message.data["type"])

        assert "timeline_event.created" in without


async def test_a_quiet_stream_sends_heartbeats(tmp_path: Path) -> None:
    async with playing(tmp_path, ApiOptions(feed=Feed(heartbeat=0.05))) as (_api, client, _opened):
        root = await started(client)
        with anyio.fail_after(TIME):
            async with client.stream(f"/api/executions/{root}/events") as messages:
                async for message in messages:
                    if message.kind == "heartbeat":
                        break


async def test_streams_end_in_order_when_the_server_stops(tmp_path: Path) -> None:
    async with playing(tmp_path) as (api, client, _opened):
        root = await started(client)
        over = False
        with anyio.fail_after(TIME):
            async with client.stream(f"/api/executions/{root}/events") as messages:
                async for message in messages:
                    if message.kind == "caught_up":
                        api.stopping.stopping.set()
                over = True  # the answer was completed: an aborted one raises

        assert over


async def test_the_streams_of_a_session_end_with_it(tmp_path: Path) -> None:
    options = ApiOptions(environ=ENVIRON)
    serving = served_api(tmp_path, CONFIG + TOKENS, scripts(anyio.Event()), options)
    leaving = {**MARK, "Content-Type": "application/json"}
    async with serving as api, api.client() as browser, api.client(ENVIRON["ALICE"]) as program:
        await browser.post("/api/session", 204, token=ENVIRON["ALICE"])
        root = await started(browser)
        for path in (f"/api/executions/{root}/events", "/api/events"):
            await browser.post("/api/session", 204, token=ENVIRON["ALICE"])
            over = False
            with anyio.fail_after(TIME):
                async with program.stream(path) as others, browser.stream(path) as messages:
                    async for message in messages:
                        if message.kind == "caught_up":
                            left = await browser.http.request("DELETE", "/api/session", headers=leaving)
                            assert left.status_code == 204
                    over = True
                    async for message in others:  # the stream of a token goes on
                        if message.kind == "caught_up":
                            break
            assert over


async def test_a_stream_ends_with_the_token_of_its_listener(tmp_path: Path) -> None:
    audience = "https://agents.example.org/mcp"
    async with issuer_on_loopback(audience) as issuer:
        oauth = f"serve: {{http: {{oauth: {{issuer: '{issuer.url}', audience: '{audience}'}}}}}}"
        ends = int(time.time()) + 3
        token = issuer.token(exp=ends)
        async with (
            served_api(tmp_path, f"{CONFIG}\n{oauth}\n", scripts(anyio.Event())) as api,
            api.client(token) as program,
            api.client() as browser,
        ):
            await browser.post("/api/session", 204, token=token)
            root = await started(browser)
            with anyio.fail_after(TIME):
                async with program.stream("/api/events") as one, browser.stream(f"/api/executions/{root}/events") as other:
                    heard = [message.kind async for message in one] + [message.kind async for message in other]
            assert time.time() >= ends
            assert heard.count("caught_up") == 2
            assert "ended" not in heard


async def test_a_number_that_no_event_has_yet_hides_none(tmp_path: Path) -> None:
    async with playing(tmp_path) as (_api, client, opened):
        root = await started(client)
        with anyio.fail_after(TIME):
            async with client.stream(f"/api/executions/{root}/events", last="999999999") as messages:
                async for message in messages:
                    if message.kind == "caught_up":
                        opened.set()
                    if message.kind == "ended":
                        break


async def test_a_listener_that_returns_after_the_newest_tree_was_deleted_misses_nothing(tmp_path: Path) -> None:
    async with playing(tmp_path) as (api, client, opened):
        opened.set()
        [_kept, doomed] = [(await client.ended(await started(client)))["node"]["id"] for _ in range(2)]
        heard = await client.collected("/api/events", until="caught_up", after=0)
        await api.bench.dispatcher.delete(doomed)
        new = await started(client)
        await client.ended(new)
        more = await client.collected("/api/events", heard[-1].id, until="caught_up")

        assert [message.seq for message in more] == stored(api, new)


@pytest.mark.parametrize("takes", [0, 1], ids=["nothing", "a byte at a time"])
async def test_a_listener_that_does_not_read_is_dropped_and_catches_up_when_it_returns(tmp_path: Path, takes: int) -> None:
    async with playing(tmp_path, ApiOptions(feed=Feed(stalled=0.2))) as (api, client, opened):
        root = await started(client)
        path, address = f"/api/executions/{root}/events", parse_address(api.url.removeprefix("http://"))
        with anyio.fail_after(TIME):
            async with await small_window(address.host, address.port) as idle, client.stream(path) as reading:
                await idle.send(f"GET {path} HTTP/1.1\r\nHost: {address.host}:{address.port}\r\n\r\n".encode())
                arrived = b""
                while b"caught_up" not in arrived:
                    arrived += await idle.receive(1_000)
                last = re.findall(rb"^id: (\d+)", arrived, re.MULTILINE)[-1].decode()
                big = {**stored_event(api, root), "seq": None, "type": "stream.chunk", "payload": f'"{"x" * 100_000}"'}
                heard = 0
                async for message in reading:  # it reads all the time, and loses nothing to the other one
                    heard += message.data is not None and message.data["type"] == "stream.chunk"
                    if heard == CHUNKS:
                        break
                    if message.kind == "caught_up":
                        for _ in range(CHUNKS):
                            api.bench.dispatcher.services.bus.publish_unstored(big)
                arrived += await cut_off(idle, takes)
                arrived += await rest_of(idle)
        opened.set()
        caught_up = await client.collected(path, last)

        assert len(arrived) < CHUNKS * 100_000
        assert [message.seq for message in caught_up] == [number for number in stored(api, root) if number > int(last)]


async def cut_off(stream: anyio.abc.SocketStream, takes: int) -> bytes:
    """Wait until the other side has closed a connection, taking so many bytes at a time; what was taken."""
    poll, taken = select.poll(), b""
    poll.register(stream.extra(anyio.abc.SocketAttribute.raw_socket), 0)
    while not poll.poll(0):
        with anyio.move_on_after(0.01):
            await anyio.sleep_forever()
        taken += await stream.receive(takes) if takes else b""
    return taken


async def rest_of(stream: anyio.abc.SocketStream) -> bytes:
    """What is still in the buffers of a connection that was closed."""
    arrived = b""
    try:
        while True:
            arrived += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return arrived


CHUNKS = 50
"""Five megabytes: more than the buffers between two sockets hold, and less than a topic does."""


def stored_event(api: ServedApi, root: str) -> dict[str, Any]:
    """Some event of a tree, as the bus carries it."""
    return api.bench.sql("select * from events where root_execution_id = ? limit 1", root)[0]


async def small_window(host: str, port: int) -> anyio.abc.SocketStream:
    """A connection whose reader takes little at a time."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    raw.connect((host, port))
    raw.setblocking(False)
    return await anyio.abc.SocketStream.from_socket(raw)


def test_a_topic_holds_a_bounded_number_of_bytes_and_gives_them_out_in_bounded_pages() -> None:
    topic, size, count = Topic(Scope("tree", "tree"), 0), 50_000, 2_000
    for number in range(1, count + 1):
        topic.add(StreamFrame(number, b"%05d" % number + b"x" * (size - 5)))
    position, pages = topic.first, list[FramePage]()
    while position < topic.end:
        pages.append(topic.since(position))
        position = pages[-1].end

    held = b"".join(page.text for page in pages)
    assert len(held) <= 2 * HELD_BYTES
    assert max(len(page.text) for page in pages) < AT_ONCE + size
    assert [int(held[each : each + 5]) for each in range(0, len(held), size)] == list(range(topic.floor + 1, count + 1))
