"""The OpenAPI document says what the API answers: every answer of a played service fits its schema."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema

from server.api.openapi import document
from server.api.table import ENDPOINTS
from tests.support.api_serving import ApiClient, ApiOptions, served_api
from tests.support.gated import CONFIG, DELETE, asked, deleting
from tests.support.models import call, say

SCRIPTS = {
    "Lead": [
        call("dispatch_agent", name="Worker", task="delete it"),
        call("dispatch_agent", name="Nobody", task="x"),
        say("I wait"),
        say("done"),
    ],
    "Worker": [DELETE, say("it is gone")],
}
JSON = "application/json"


def schema_of(path: str, method: str, status: str) -> Mapping[str, Any]:
    """The schema of an answer, with what it refers to."""
    answer = document()["paths"][path][method]["responses"][status]
    [content] = answer["content"].values()
    return {**content["schema"], "components": document()["components"]}


def check(answer: Any, path: str, method: str = "get", status: str = "200") -> None:
    """Hold an answer against its schema."""
    jsonschema.Draft202012Validator(schema_of(path, method, status)).validate(answer)


async def looked_at(client: ApiClient, root: str, call_id: str) -> set[str]:
    """Ask every request that only looks, and check its answer."""
    query: dict[str, dict[str, Any]] = {"/compare": {"a": root, "b": root}}
    seen = set[str]()
    for endpoint in ENDPOINTS:
        if endpoint.method == "GET" and endpoint.answers == JSON and not endpoint.path.endswith("/plan"):
            url = endpoint.path.replace("{id}", call_id if endpoint.path.startswith("/tool_calls") else root)
            check(await client.get(f"/api{url}", **query.get(endpoint.path, {})), f"/api{endpoint.path}")
            seen.add(endpoint.path)
    return seen


async def test_every_answer_of_a_played_service_fits_its_schema(tmp_path: Path) -> None:
    options = ApiOptions(extra_tools=deleting().for_agents("Worker"))
    async with served_api(tmp_path, CONFIG, SCRIPTS, options) as api, api.client() as client:
        started = await client.post("/api/executions", 201, name="Lead", task="go")
        check(started, "/api/executions", "post", "201")
        root = started["execution_id"]
        await asked(api.bench)
        [row] = api.bench.sql("select id from tool_calls where tool = 'local.delete'")
        while_it_waits = await looked_at(client, root, row["id"])
        [question] = (await client.get("/api/approvals"))["approvals"]
        decided = await client.post(f"/api/approvals/{question['id']}/approve", shown=question["shown"])
        check(decided, "/api/approvals/{id}/approve", "post")
        events = await client.collected(f"/api/executions/{root}/events")
        for event in events:
            schema = {**document()["components"]["schemas"]["StreamEvent"], "components": document()["components"]}
            jsonschema.Draft202012Validator(schema).validate(event.data)
        after = await looked_at(client, root, row["id"])
        check(await client.post(f"/api/executions/{root}/cancel"), "/api/executions/{id}/cancel", "post")
        check(await client.post("/api/sql", sql="select * from executions"), "/api/sql", "post")
        check(await client.get(f"/api/executions/{root}/plan", 404), "/api/executions/{id}/plan", status="default")
        assert await client.get("/api/openapi.json") == document()

    assert while_it_waits == after
    assert len(after) > 15


def test_the_document_is_valid_and_names_every_request() -> None:
    told = document()

    assert told["openapi"] == "3.1.0"
    named = {(method.upper(), path) for path, methods in told["paths"].items() for method in methods}
    assert named == {(each.method, f"/api{each.path}") for each in ENDPOINTS} | {("GET", "/api/openapi.json")}
    ids = [about["operationId"] for methods in told["paths"].values() for about in methods.values()]
    assert len(ids) == len(set(ids))
    for schema in told["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    referred = [each.rpartition("/")[2] for each in references(told)]
    assert set(referred) <= set(told["components"]["schemas"])


def references(node: Any) -> list[str]:
    """Every reference of a document."""
    if isinstance(node, list):
        return [found for each in node for found in references(each)]
    if isinstance(node, dict):
        own = [node["$ref"]] if "$ref" in node else []
        return own + [found for each in node.values() for found in references(each)]
    return []
