"""Trace context: what a caller sends goes with every upstream call of its tree, if it is well formed; nothing else does."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from runner.service.order import Order
from runner.trace_context import trace_context
from tests.support.models import call, say
from tests.support.reading import dispatch, results, text_of
from tests.support.servers import raw_server, sdk_server
from tests.support.service import bench
from tests.support.upstream_specs import raw_http, sdk_http

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SENT = {"traceparent": PARENT, "tracestate": "vendor=a1, t@other=b", "baggage": "user=ada;secret, place = north%20pole"}


def members(count: int) -> str:
    """A list of so many entries."""
    return ",".join(f"k{number}=v" for number in range(count))


WELL_FORMED: Mapping[str, list[str]] = {
    "traceparent": [PARENT, PARENT.replace("00-", "01-", 1)],
    "tracestate": ["a=b", "a=b,,c=d ", "0/_-*@x=y z!", "k=" + "v" * 256, members(32)],
    "baggage": ["a=", "a=b;c;d=e", "a = b , c=d", "x=" + "y" * 8190, members(64)],
}
MALFORMED: Mapping[str, list[Any]] = {
    "traceparent": [
        "",
        PARENT + "\n",
        PARENT + "-00",
        PARENT.upper(),
        PARENT.replace("00-", "ff-", 1),
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
        PARENT.replace("0af", "٠af"),
        7,
        [PARENT],
        None,
    ],
    "tracestate": ["", " ,", "a", "A=b", "a=b\n", "a=b=c", "a=,b=c", "a=é", "a=b,a=c", "k=" + "v" * 600, members(33)],
    "baggage": ["", "a", "a=b,", "=b", "a b=c", 'a="b"', "a=b\r\nx: y", "a=é", "a=b;=c", "x=" + "y" * 8191, members(65)],
}


def cases(table: Mapping[str, list[Any]]) -> list[tuple[str, Any]]:
    """Each value beside its name."""
    return [(name, value) for name, values in table.items() for value in values]


@pytest.mark.parametrize(("name", "value"), cases(WELL_FORMED))
def test_what_is_well_formed_is_taken_as_it_is(name: str, value: str) -> None:
    assert trace_context({"traceparent": PARENT, name: value})[name] == value


@pytest.mark.parametrize(("name", "value"), cases(MALFORMED))
def test_what_is_not_well_formed_is_left_out_and_the_rest_is_taken(name: str, value: Any) -> None:
    left = set(SENT) - ({"traceparent", "tracestate"} if name == "traceparent" else {name})
    assert trace_context({**SENT, name: value}) == {each: SENT[each] for each in left}


async def test_the_trace_of_an_order_goes_with_every_upstream_call_of_its_tree_and_of_no_other(tmp_path: Path) -> None:
    with sdk_http(mode="meta") as port, raw_http() as web:
        servers = {
            "stdio_modern": sdk_server("meta"),
            "stdio_legacy": raw_server("meta"),
            "http_modern": json.dumps({"url": f"http://127.0.0.1:{port}/mcp"}),
            "http_legacy": json.dumps({"url": web.spec("meta").url}),
        }
        config = "mcp_servers:\n" + "".join(f"  {name}: {spec}\n" for name, spec in servers.items())
        config += (
            f"agents:\n  Lead: {{sub_agents: [Left]}}\n  Left: {{description: x, mcp_servers: [{', '.join(servers)}]}}\n"
        )
        everywhere = [call(f"{name}__poke") for name in servers]
        scripts = {
            "Lead": [dispatch("Left"), say("waiting"), say("done")],
            "Left": [everywhere[0] + everywhere[1] + everywhere[2] + everywhere[3], say("left")],
        }
        async with bench(tmp_path, config, scripts) as service:

            async def sent_on(name: str, **more: Any) -> list[dict[str, Any]]:
                started = await service.dispatcher.start(Order(name, "look", **more))
                with anyio.fail_after(20):
                    await service.dispatcher.wait(started.id)
                return [json.loads(text_of(block)) for block in results(service.model.of("Left")[-1])]

            traced = await sent_on("Lead", trace={**SENT, "progressToken": 7, "x-api-key": "s3cret"})
            assert [{name: meta.get(name) for name in SENT} for meta in traced] == [SENT] * 4
            untraced = await sent_on("Left")
            for metas, expected in ((traced, set(SENT)), (untraced, set[str]())):
                assert [{name for name in meta if "/" not in name} for meta in metas] == [expected] * 4
