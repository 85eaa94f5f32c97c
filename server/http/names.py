"""The names this server answers to, and the web pages that may call it.

Owns the two allow-lists, which keep a foreign page from reaching a local server by a name of its own. Pure. Invariant: what
cannot be read exactly is not allowed; nothing is normalised but the case of letters.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from registry import HttpSpec
from server.http.address import Address

THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "[::1]"})

_AUTHORITY = re.compile(r"(?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
_ORIGIN = re.compile(rf"https?://(?P<authority>{_AUTHORITY.pattern})")


class Names:
    """What a Host and an Origin may say."""

    def __init__(self, http: HttpSpec, bound: Address) -> None:
        own = {bound.name.lower()} if not bound.is_everywhere else set[str]()
        if http.oauth is not None:  # clients must be able to use the address their tokens are made for
            own.add(urlsplit(http.oauth.audience).netloc.lower())
        self._hosts = THIS_MACHINE | own | set(http.allowed_hosts)
        self._origins = frozenset(http.allowed_origins)

    def host(self, value: str) -> bool:
        """Whether a Host header names this server: with its port where the list has one, else with any."""
        found = _AUTHORITY.fullmatch(value.lower())
        return found is not None and bool({found[0], found["name"]} & self._hosts)

    def origin(self, value: str, host: str) -> bool:
        """Whether a page may call: one that is listed, one of this machine, or one that was served under the same name."""
        found = _ORIGIN.fullmatch(value.lower())
        if found is None:
            return False
        return found[0] in self._origins or found["name"] in THIS_MACHINE or found["authority"] == host.lower()
