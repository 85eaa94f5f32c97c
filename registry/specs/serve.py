"""The `serve` section: what MCP clients are offered, who may call, and what happens when a client disconnects.

Owns: the shape of the section and ServeSpec. Must not know: how a client connects or a token is checked.
Invariant: a token is known only by the name of its environment variable, never by its value.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from registry.specs.models import web_address
from registry.text.durations import SecondsOrZero
from registry.text.entry import Count, Entry, Line
from registry.text.names import Directories
from registry.text.variables import referenced

OnDisconnect = Literal["keep", "finish", "cancel"]
"""What happens to a client's running executions when it disconnects."""

DEFAULT_MAX_BODY = 4 * 1024 * 1024
DEFAULT_SHUTDOWN_GRACE = 25.0

_HOST = re.compile(r"(?:[\w-]+(?:\.[\w-]+)*|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_LAST_PORT = 65_535
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


def _host(value: str) -> str:
    match = _HOST.fullmatch(value)
    if match is None or int(match["port"] or 0) > _LAST_PORT:
        raise PydanticCustomError(
            "host",
            "a host is a name or an address, with a port or without",
            {"hint": "write `agents.example.org` or `10.1.2.3:8080`"},
        )
    return value.lower()


def _origin(value: str) -> str:
    web_address(value)
    scheme, _, rest = value.partition("://")
    _host(rest)
    return f"{scheme}://{rest.lower()}"


def _guarded_address(value: str) -> str:
    """Require `https` for the issuer of tokens, so that no impostor can sign them; this machine is exempt."""
    web_address(value)
    parts = urlsplit(value)
    if parts.username is not None or parts.query or parts.fragment:
        raise PydanticCustomError("address", "an address without user, query and fragment is expected")
    if parts.scheme != "https" and parts.hostname not in _THIS_MACHINE:
        raise PydanticCustomError(
            "address", "an `https://` address is expected", {"hint": "only this machine may use `http://`"}
        )
    return value


def _reference(value: str) -> str:
    if referenced(value) is None:
        raise PydanticCustomError(
            "token",
            "a token is given by the name of an environment variable, never by its value",
            {"hint": "write `token: ${ALICE_TOKEN}` and set that variable"},
        )
    return value


GuardedAddress = Annotated[Line, AfterValidator(_guarded_address)]


class TokenEntry(Entry):
    """One entry of `serve.http.tokens` as written."""

    token: Annotated[Line, AfterValidator(_reference)] = Field(
        description="`${NAME}` of the variable with the token; read when `serve --http` starts"
    )
    scopes: tuple[Line, ...] = Field(
        default=(), description="scopes beyond its own executions: `executions:read_all`, `users:speak_for_all`"
    )


class OAuthEntry(Entry):
    """`serve.http.oauth` as written."""

    issuer: GuardedAddress = Field(description="the issuer of access tokens, as in their `iss`")
    audience: GuardedAddress = Field(description="address of `/mcp` as clients know it; the audience of their tokens")
    jwks_url: GuardedAddress | None = Field(default=None, description="keys of the issuer; absent: from its metadata")
    scopes: tuple[Line, ...] = Field(default=(), description="scopes that every token must have")


class HttpEntry(Entry):
    """`serve.http` as written."""

    allowed_hosts: tuple[Annotated[Line, AfterValidator(_host)], ...] = Field(
        default=(), description="names clients may use for this server, besides those of this machine"
    )
    allowed_origins: tuple[Annotated[Line, AfterValidator(_origin)], ...] = Field(
        default=(), description="web pages that may call this server, as `https://host`"
    )
    max_body: Count = Field(default=DEFAULT_MAX_BODY, description="longest request in bytes")
    tokens: dict[str, TokenEntry] = Field(default={}, description="callers with a fixed bearer token, by name")
    oauth: OAuthEntry | None = Field(default=None, description="callers with access tokens of an OAuth issuer")


class ServeEntry(Entry):
    """The `serve` section as written."""

    agents: tuple[Line, ...] | None = Field(
        default=None, description="agents clients may dispatch; absent: every agent with a description"
    )
    on_disconnect: OnDisconnect = Field(
        default="keep",
        description="executions of a disconnected client, and of a stopping server: `keep`, `finish` first, or `cancel`",
    )
    shutdown_grace: SecondsOrZero = Field(
        default=DEFAULT_SHUTDOWN_GRACE,
        description="from a signal, or a stdio client's disconnect, to the end of the process: running model and tool "
        "calls may end, new ones do not start",
    )
    http: HttpEntry = Field(default=HttpEntry(), description="who may call over HTTP")


@dataclass(frozen=True, slots=True)
class TokenSpec:
    """A caller with a fixed token."""

    principal: str
    token_env: str
    scopes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class OAuthSpec:
    """The issuer whose access tokens are accepted, for this audience only."""

    issuer: str
    audience: str
    jwks_url: str | None = None
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HttpSpec:
    """Which callers, host names and web origins are accepted over HTTP."""

    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    max_body: int = DEFAULT_MAX_BODY
    tokens: Mapping[str, TokenSpec] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    oauth: OAuthSpec | None = None

    @property
    def authenticates(self) -> bool:
        """Whether callers must authenticate."""
        return bool(self.tokens) or self.oauth is not None


@dataclass(frozen=True, slots=True)
class ServeSpec:
    """The offer to MCP clients. `agents` None: every agent with a description."""

    agents: tuple[str, ...] | None = None
    on_disconnect: OnDisconnect = "keep"
    shutdown_grace: float = DEFAULT_SHUTDOWN_GRACE
    http: HttpSpec = HttpSpec()


def serve_spec(entry: ServeEntry, names: Directories) -> ServeSpec:
    """Return the spec of a checked section."""
    http, oauth = entry.http, entry.http.oauth
    tokens = {
        name: TokenSpec(name, referenced(each.token) or "", frozenset(each.scopes)) for name, each in http.tokens.items()
    }
    return ServeSpec(
        agents=None if entry.agents is None else tuple(map(names.agents.canonical, entry.agents)),
        on_disconnect=entry.on_disconnect,
        shutdown_grace=entry.shutdown_grace,
        http=HttpSpec(
            allowed_hosts=http.allowed_hosts,
            allowed_origins=http.allowed_origins,
            max_body=http.max_body,
            tokens=MappingProxyType(tokens),
            oauth=None if oauth is None else OAuthSpec(oauth.issuer, oauth.audience, oauth.jwks_url, oauth.scopes),
        ),
    )
