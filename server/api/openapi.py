"""The OpenAPI document of the API, made from the table of requests and their models.

Owns the form of the document. Invariant: it has every request of the table and no other, and each schema is that of the
model that is answered or parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.responses import JSONResponse, Response

from server.api.endpoint import JSON, PAGE, PREFIX, ApiCall, ApiEndpoint
from server.api.table import ENDPOINTS, STREAM
from server.problem import MEDIA_TYPE, ProblemDetails
from server.views.records import StreamEvent

REFERENCE = "#/components/schemas/{model}"
_PARAMETER = re.compile(r"\{(\w+)\}")
ID = "An id, whole or short."

LAST_EVENT = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "The `id` of the last event that was read; it wins over `after`.",
    "schema": {"type": "string"},
}
MARKED = {
    "name": "X-Outrider",
    "in": "header",
    "required": False,
    "description": "`1`; required with a cookie, and without authentication.",
    "schema": {"type": "string", "const": "1"},
}


@cache
def document() -> dict[str, Any]:
    """The document."""
    schemas = _schemas()
    paths: dict[str, Any] = {}
    for endpoint in (*ENDPOINTS, OPENAPI):
        paths.setdefault(PREFIX + endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Outrider",
            "version": version("outrider"),
            "description": "What agents do, and what can be done about it. Every answer is JSON; a refusal is a problem "
            "(RFC 9457) with a hint. A time is UTC text in ISO-8601, money is US dollars.",
        },
        "security": [{"bearer": []}, {"cookie": []}, {}],
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in schemas.items() if not _is_query(name)},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "outrider-PORT"},
            },
        },
    }


async def answer(_: ApiCall) -> Response:
    return JSONResponse(document())


OPENAPI = ApiEndpoint("GET", "/openapi.json", "This document", answer)


def _models() -> Iterator[tuple[type[BaseModel], Any]]:
    yield ProblemDetails, "serialization"
    yield StreamEvent, "serialization"
    for endpoint in ENDPOINTS:
        if endpoint.answer is not None:
            yield endpoint.answer, "serialization"
        for given in (endpoint.body, endpoint.query):
            if given is not None:
                yield given, "validation"


def _schemas() -> dict[str, Any]:
    _, found = models_json_schema(list(dict.fromkeys(_models())), ref_template=REFERENCE)
    schemas: dict[str, Any] = found["$defs"]
    return schemas


def _is_query(name: str) -> bool:
    return name in {endpoint.query.__name__ for endpoint in ENDPOINTS if endpoint.query is not None}


def _operation(endpoint: ApiEndpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _name(endpoint),
        "summary": endpoint.does,
        "parameters": list(_parameters(endpoint, schemas)),
        "responses": {str(endpoint.status): _answered(endpoint), "default": _problem()},
    }
    if endpoint.needs:
        operation["description"] = f"An authenticated caller needs the scope `{endpoint.needs}`."
    if endpoint.is_open:
        operation["security"] = [{}]
    if endpoint.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": _reference(endpoint.body)}}}
    return operation


def _name(endpoint: ApiEndpoint) -> str:
    words = [word for word in re.split(r"[^a-z]+", _PARAMETER.sub("one", endpoint.path)) if word]
    return "_".join([endpoint.method.lower(), *words])


def _parameters(endpoint: ApiEndpoint, schemas: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in _PARAMETER.findall(endpoint.path):
        yield {"name": name, "in": "path", "required": True, "description": ID, "schema": {"type": "string"}}
    if endpoint.query is not None:
        schema = schemas[endpoint.query.__name__]
        for name, about in schema["properties"].items():
            yield {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": about}
    if endpoint.answers == STREAM:
        yield LAST_EVENT
    if endpoint.method != "GET":
        yield MARKED


def _answered(endpoint: ApiEndpoint) -> dict[str, Any]:
    if endpoint.answers == STREAM:
        words = "Server-sent events: the `data` of each is a StreamEvent; `caught_up` and `ended` have none."
        return {"description": words, "content": {STREAM: {"schema": {"type": "string"}}}}
    if endpoint.answers == PAGE:
        return {"description": endpoint.does, "content": {PAGE: {"schema": {"type": "string"}}}}
    if endpoint.status == 204:
        return {"description": "Done."}
    schema = _reference(endpoint.answer) if endpoint.answer is not None else {"type": "object"}
    return {"description": endpoint.does, "content": {JSON: {"schema": schema}}}


def _problem() -> dict[str, Any]:
    return {"description": "A refusal.", "content": {MEDIA_TYPE: {"schema": _reference(ProblemDetails)}}}


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": REFERENCE.format(model=model.__name__)}
