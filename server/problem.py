"""A problem: the answer to a request that the API or a page refuses (RFC 9457, `application/problem+json`).

Owns the shape. Must not know: which requests are refused. Invariant: a problem repeats nothing of a request that was
refused before it was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from pydantic import BaseModel

if TYPE_CHECKING:
    from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"
BLANK = "about:blank"
"""The type of a problem that its status says all about."""
KIND = "urn:outrider:problem:"


class ProblemDetails(BaseModel):
    """What was refused, why, and what to do."""

    type: str
    """`urn:outrider:problem:KIND`, or `about:blank`."""
    title: str
    status: int
    detail: str
    hint: str


class ApiRefused(Exception):
    """A request that is not carried out."""

    def __init__(self, status: int, detail: str, hint: str = "", kind: str = "") -> None:
        super().__init__(detail)
        self.status, self.hint, self.kind = status, hint, kind


def problem(
    status: int, detail: str, hint: str = "", headers: Mapping[str, str] | None = None, *, kind: str = ""
) -> Response:
    """The answer to a refused request."""
    from starlette.responses import Response  # late: every failing command imports this module by way of `HttpFault`

    said = ProblemDetails(
        type=f"{KIND}{kind}" if kind else BLANK,
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        hint=hint,
    )
    return Response(said.model_dump_json(), status, headers, MEDIA_TYPE)
