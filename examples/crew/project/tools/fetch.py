"""Fetches the index of Mathlib that searches are made in."""

from http.client import HTTPSConnection


def fetch(host: str, path: str) -> bytes:
    """What a host answers."""
    connection = HTTPSConnection(host)
    connection.request("GET", path)
    return connection.getresponse().read()
