"""The address to listen on, as written on the command line.

Owns its grammar and which addresses only this machine can reach. Must not know: sockets. Invariant: nothing is resolved, so
that whether authentication is needed is decided by what is written and before anything is opened.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from server.http.errors import HttpFault

LOOPBACK = "127.0.0.1"
LAST_PORT = 65_535

_WRITTEN = re.compile(r"(?:(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.-]+)?:)?(?P<port>[0-9]{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """A host without brackets, and a port; port 0 takes a free one."""

    host: str
    port: int

    @property
    def name(self) -> str:
        """The host as it stands in an address of the web."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def url(self) -> str:
        """Where the server is reached."""
        return f"http://{self.name}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it; a name other than `localhost` may lead anywhere."""
        number = _number(self.host)
        return self.host.lower() == "localhost" if number is None else number.is_loopback

    @property
    def is_everywhere(self) -> bool:
        """Whether it stands for every address of this machine, so that it is no name clients could use."""
        number = _number(self.host)
        return number is not None and number.is_unspecified


def parse_address(text: str) -> Address:
    """Read `HOST:PORT`, `[::1]:8080`, `:8080` or `8080`; without a host it is this machine alone."""
    match = _WRITTEN.fullmatch(text)
    if match is None or int(match["port"]) > LAST_PORT:
        hint = "write `HOST:PORT`, such as `127.0.0.1:8080` or `[::1]:8080`; port 0 takes a free one"
        raise HttpFault(f"`{text}` is no address to listen on", hint)
    return Address((match["host"] or LOOPBACK).strip("[]"), int(match["port"]))


def _number(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
