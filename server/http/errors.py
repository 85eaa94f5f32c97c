"""What keeps an HTTP server from starting, told for people."""

from __future__ import annotations


class HttpFault(Exception):
    """It cannot be served as asked: the address, the tokens or the authentication do not allow it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint
