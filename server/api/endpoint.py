"""An endpoint: one request of the API with its models, and the way from a request to its answer.

Owns parsing, the checks of a request that changes something, and the form of every answer and refusal. Must not know: what
any endpoint does. Invariants: a handler gets a caller, and a body and a query that fit its models; every refusal is a
problem, and none contains a traceback.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, from_json, to_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from db.errors import QueryRefused, StoreError, TooManyQueries, UnknownExecution
from registry import UnknownName
from runner.errors import Refusal, RunnerError
from server.caller.caller import RequestCaller, RequestInfo
from server.caller.chain_order import ChainRefused
from server.identity import BEARER, KEY, READ_ALL, Identity, identity_of
from server.problem import ApiRefused, problem
from server.views.views import Views

if TYPE_CHECKING:
    from runner.service.dispatcher import Dispatcher
    from server.api.context import ApiContext

log = logging.getLogger("outrider.http")

PREFIX = "/api"
JSON = "application/json"
PAGE = "text/html"
MARK = "x-outrider"
"""The header that a request with a cookie must carry to change something: a page of another site cannot send it."""

STRANGER = Identity("")
"""The caller of an open endpoint: it sees no execution."""

UNPROCESSABLE = 422
NOT_FOUND = "there is no such execution"
LISTED = "`GET /api/executions` lists the executions you may see"

STATUS: Mapping[str, int] = {
    "unknown_agent": 404,
    "unknown_chain": 404,
    "unknown_user": 404,
    "not_in_catalogue": 404,
    "permission_denied": 403,
    "stopping": 503,
    "unavailable": 503,
    "limit": 429,
    "invalid_input": UNPROCESSABLE,
    "invalid_arguments": UNPROCESSABLE,
    "usage": UNPROCESSABLE,
    "unknown_command": UNPROCESSABLE,
}
"""The status of a refusal by its kind; of any other kind, 409: it conflicts with the state of things."""
CONFLICT = 409


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One request, understood."""

    request: Request
    context: ApiContext
    dispatcher: Dispatcher
    caller: RequestCaller
    query: Any
    """A model of the endpoint's `query`."""
    body: Any
    """A model of the endpoint's `body`."""

    @property
    def views(self) -> Views:
        database = self.dispatcher.services.database
        return Views(database.reads, database.path, self.dispatcher.lacks)

    async def row(self, given: str | None = None) -> Mapping[str, Any]:
        """The row of the execution in the path, or of another id; raises ApiRefused for one that is not the caller's."""
        row = await self.caller.row(self.request.path_params["id"] if given is None else given)
        if row is None:
            raise ApiRefused(404, NOT_FOUND, LISTED, "not_found")
        return row


Handler = Callable[[ApiCall], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class ApiEndpoint:
    """One request of the API."""

    method: str
    path: str
    """Below `/api`."""
    does: str
    handler: Handler
    answer: type[BaseModel] | None = None
    """None: its answer has no body, or is no JSON."""
    status: int = 200
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    needs: str = ""
    """A scope that an authenticated caller needs."""
    answers: str = JSON
    """The media type of its answer."""
    is_open: bool = False
    """Whether it is answered without authentication."""
    refusals: tuple[int, ...] = field(default=())
    """The statuses of its own refusals, besides those of every endpoint."""


def route(endpoint: ApiEndpoint, context: ApiContext, prefix: str = PREFIX) -> Route:
    """The endpoint as a route."""

    async def answer(request: Request) -> Response:
        try:
            return await _answered(endpoint, context, request)
        except Exception as error:
            return refused(error, request.url.path)

    return Route(prefix + endpoint.path, answer, methods=[endpoint.method])


async def _answered(endpoint: ApiEndpoint, context: ApiContext, request: Request) -> Response:
    check_sender(request, changes=endpoint.method != "GET")
    query = endpoint.query.model_validate(_query(request), strict=False) if endpoint.query is not None else None
    body = endpoint.body.model_validate(_json_in(await request.body() or b"{}")) if endpoint.body is not None else None
    dispatcher = await context.service.dispatcher()
    who = request.scope.get(KEY, STRANGER) if endpoint.is_open else identity_of(request)
    if endpoint.needs == READ_ALL and not who.reads_all:
        raise ApiRefused(403, "SQL reads the executions of every principal", f"use a token with the scope `{READ_ALL}`")
    session = context.session if who.principal is None else None
    caller = RequestCaller(dispatcher, RequestInfo(who, session, meta=request.headers, face=context.author))
    found = await endpoint.handler(ApiCall(request, context, dispatcher, caller, query, body))
    return found if isinstance(found, Response) else _json(found, endpoint)


def _json(found: Any, endpoint: ApiEndpoint) -> Response:
    if found is None:
        return Response(status_code=204)
    content = found.__pydantic_serializer__.to_json(found) if isinstance(found, BaseModel) else to_json(found)
    return Response(content, endpoint.status, media_type=JSON)


def _json_in(data: bytes) -> Any:
    """The JSON of a body; raises ApiRefused. `NaN` and `Infinity` are not JSON: no reader of the rows could parse them."""
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise ApiRefused(UNPROCESSABLE, f"the body is not JSON: {error}", "send one object", "invalid_arguments") from error


def _query(request: Request) -> dict[str, str]:
    return {name: value for name, value in request.query_params.items() if value != ""}


def check_sender(request: Request, *, changes: bool) -> None:
    """Refuse a request that a page of another site may have sent; raises ApiRefused. A bearer token proves its sender."""
    if request.scope.get(BEARER):
        return
    headers = request.headers
    site, origin = headers.get("sec-fetch-site", "same-origin"), headers.get("origin")
    if site not in ("same-origin", "none") or (origin and urlsplit(origin).netloc.lower() != headers["host"].lower()):
        raise ApiRefused(403, "a page of another origin sent this request", "send it from the pages of this server")
    if not changes:
        return
    if headers.get(MARK) != "1":
        raise ApiRefused(403, "the header `X-Outrider` is missing", "send `X-Outrider: 1` with what changes something")
    is_json = headers.get("content-type", "").partition(";")[0].strip().lower() == JSON
    if not is_json and request.method != "DELETE":  # which no form can send, and which has no body
        raise ApiRefused(415, "the body is not JSON", f"send it as `{JSON}`")


def refused(error: Exception, path: str) -> Response:
    """The problem that an error is for the caller."""
    match error:
        case ApiRefused():
            return problem(error.status, str(error), error.hint, kind=error.kind)
        case ValidationError():
            return problem(UNPROCESSABLE, _faults(error), "`/api/openapi.json` has every field", kind="invalid_arguments")
        case UnknownExecution():
            return problem(404, str(error), error.hint, kind="not_found")
        case TooManyQueries():
            return problem(429, str(error), error.hint, {"retry-after": "1"}, kind="limit")
        case QueryRefused():
            return problem(UNPROCESSABLE, str(error), error.hint, kind="query_refused")
        case UnknownName():
            return problem(404, str(error), error.hint, kind="not_found")
        case Refusal() | ChainRefused():
            return problem(STATUS.get(error.kind, CONFLICT), str(error), error.hint, kind=error.kind)
        case StoreError():
            log.warning("`%s` failed: %s", path, error)
            return problem(503, str(error), error.hint or "try again in a moment", {"retry-after": "5"}, kind="unavailable")
        case RunnerError():
            return problem(CONFLICT, str(error), error.hint)
    log.error("`%s` failed", path, exc_info=error)
    return problem(
        500, "the request failed inside Outrider", "try again; the log of the server has the details", kind="internal"
    )


def _faults(error: ValidationError) -> str:
    """The refused fields by name, without their values."""
    return "; ".join(dict.fromkeys(_fault(each) for each in error.errors(include_url=False, include_input=False)))


def _fault(each: ErrorDetails) -> str:
    where = ".".join(str(part) for part in each["loc"])
    return f"`{where}`: {each['msg']}" if where else each["msg"]
