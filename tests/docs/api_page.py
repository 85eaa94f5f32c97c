"""The page `docs/reference/api.md`: the HTTP API, from its OpenAPI document.

Owns: the look of the page. Must not know: any one request. Invariant: the page has every request of the document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from server.api.openapi import document

HEADING = """\
# The HTTP API

<!-- Made by `make docs`; do not edit. -->

`outrider serve --http` and `outrider dashboard` serve it below `/api`. It acts by the same service as `/mcp` and with
the same authorisation: a caller sees the executions of its principal, and another id is as unknown as one that never
existed. `/api/openapi.json` is the same as an OpenAPI 3.1 document.

```sh
curl http://127.0.0.1:8080/api/executions
curl -X POST http://127.0.0.1:8080/api/executions -H 'X-Outrider: 1' -H 'Content-Type: application/json' \\
  -d '{"name": "Investigator", "task": "why is checkout slow?"}'
curl -N http://127.0.0.1:8080/api/executions/ID/events
```

- Answers are JSON. A time is UTC text in ISO-8601, money is US dollars, an id in a path is whole or short.
- With [tokens configured](../howto/serve-http.md) a request needs `Authorization: Bearer …`, or the cookie that `POST
  /api/session` sets.
- A request that changes something and has no bearer token needs the header `X-Outrider: 1` and `Content-Type:
  application/json`. A page of another site can send neither.
- A refusal is a problem, `application/problem+json`: `type`, `title`, `status`, `detail`, `hint`. 401 is an unknown
  caller, 403 a missing scope or a foreign page, 404 an unknown id or name, 409 a conflict with the state of things,
  422 a body or a query that does not fit, 429 a limit, 503 an outage.

## Events

`GET /api/executions/{id}/events` and `GET /api/events` are streams of server-sent events. The `data` of a message is
a `StreamEvent`. A stored event has a number, `seq`, which is the `id` of its message; a text that a model is saying
has none and is not repeated.

1. What is stored after `Last-Event-ID`, or after `?after=`, is sent first; `/api/events` begins now where neither is
   given.
2. `event: caught_up` says that the stream has reached now.
3. `event: ended` says that the execution has ended; the stream ends.

Trees of other processes are followed, too. A comment each 15 seconds shows that the connection lives. A listener that
takes nothing for ten seconds is cut off. One that returns with the last `id` it has read misses nothing and reads
nothing twice.

## Requests
"""


def page() -> str:
    """The page."""
    told = document()
    return "\n".join([HEADING, *_requests(told), "## Answers and bodies\n", *_schemas(told)])


def _requests(told: Mapping[str, Any]) -> Iterator[str]:
    for path, methods in told["paths"].items():
        for method, about in methods.items():
            yield f"### `{method.upper()} {path}`\n\n{about['summary']}.{_more(about)}\n"
            rows = [*_query(about)]
            if rows:
                yield "| query | |\n|---|---|\n" + "\n".join(rows) + "\n"


def _more(about: Mapping[str, Any]) -> str:
    parts = [f" {about['description']}"] if "description" in about else []
    if "requestBody" in about:
        parts.append(f" Body: {_body(about['requestBody'])}.")
    status, answer = next(iter(about["responses"].items()))
    content = next(iter(answer.get("content", {}).values()), None)
    if content is None:
        parts.append(f" Answer: {status}.")
    elif "$ref" in content["schema"]:
        parts.append(f" Answer: {_kind(content['schema'])}" + (f", {status}." if status != "200" else "."))
    return "".join(parts)


def _body(body: Mapping[str, Any]) -> str:
    return _kind(body["content"]["application/json"]["schema"])


def _query(about: Mapping[str, Any]) -> Iterator[str]:
    for each in about["parameters"]:
        if each["in"] == "query":
            needed = ", required" if each["required"] else ""
            yield f"| `{each['name']}` | {_kind(each['schema'])}{needed} |"


def _schemas(told: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in sorted(told["components"]["schemas"].items()):
        words = " ".join(schema.get("description", "").split())
        if "enum" in schema:
            yield f"### {name}\n\n{words}\n\n{_kind(schema)}\n"
        if "properties" not in schema:
            continue
        rows = [f"| `{field}` | {_kind(about)} |" for field, about in schema["properties"].items()]
        yield f"### {name}\n\n{words}\n\n| field | |\n|---|---|\n" + "\n".join(rows) + "\n"


def _kind(node: Mapping[str, Any]) -> str:
    """A schema in words."""
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in node:
        return " or ".join(_kind(each) for each in node["anyOf"])
    if "enum" in node:
        return ", ".join(f"`{each}`" for each in node["enum"])
    if "const" in node:
        return f"`{node['const']}`"
    kind = str(node.get("type", "anything"))
    if kind == "array":
        return f"list of {_kind(node.get('items', {}))}"
    return {"object": "object", "string": "text", "integer": "whole number"}.get(kind, kind)
