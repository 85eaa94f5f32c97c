"""A real Prometheus behind a real server: the values an agent reads are the values that were scraped."""

import json

from runner.llm.protocol import Request
from tests.support.models import Turn, call, say
from tests.support.served_shell import free_port
from tests.third_party.listening import listening, prometheus
from tests.third_party.place import MODERN, Place, installed, recorded, told


async def test_values_come_from_a_real_prometheus_over_stdio_and_over_http(place: Place) -> None:
    port = str(free_port())
    async with prometheus(place.folder) as scraping:
        place.environ.update(PROMETHEUS_URL=scraping.url, PROMETHEUS_MCP_URL=f"http://127.0.0.1:{port}/mcp")
        listen = {
            "PROMETHEUS_MCP_SERVER_TRANSPORT": "http",
            "PROMETHEUS_MCP_BIND_PORT": port,
            "PROMETHEUS_URL": scraping.url,
        }
        listen |= {"FASTMCP_CHECK_FOR_UPDATES": "off"}

        async def query(_: Request) -> Turn:
            # Meanwhile the servers start: Prometheus takes five seconds to look for its targets.
            await scraping.scraped.wait()
            wanted = ("up", "checkout_errors_total")
            return sum((call("prometheus__execute_query", query=each) for each in wanted), Turn())

        async with listening(installed("bin/prometheus-mcp-server"), listen, b"Uvicorn running on"):
            for over_http in (False, True):
                async with place.service({"MetricChecker": [query, say("done")]}, over_http=over_http) as service:
                    await service.run("MetricChecker")

                    up, errors = (json.loads(text)["result"] for text in told(service.model.requests[1]))
                    assert [(series["metric"]["job"], series["value"][1]) for series in up] == [("checkout", "1")]
                    assert [series["value"][1] for series in errors] == ["42"]
                    assert recorded(service)["prometheus.execute_query"]["effect"] == "read_only"
    assert place.protocols() == {"prometheus": [MODERN, MODERN]}
