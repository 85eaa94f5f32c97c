"""Which settings and variables may hold a secret, so that none is shown or stored.

Owns: the guess from a setting's place and name. Must not know: how settings are printed or stored, or where secrets are
looked for.
Invariant: when in doubt it is one; a secret is masked whole.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, urlsplit

from registry.errors import TreePath
from registry.upstreams import UpstreamSpec

MASK = "***"

_NAME = re.compile(r"(?i)(?:key|token|secret|passw|pwd|credential|auth|cookie|session|dsn|private|_pat$|^pat$)")
_VARIABLE = re.compile(r"(?i)(?:key|token|secret|password|passwd|credentials?|_pat)$")
_ADDRESS = re.compile(r"(?i)[a-z][a-z0-9+.-]*://(?:[^/\s]*@|[^\s]*\?)")


def may_be_secret(path: TreePath, value: object, before: object = None) -> bool:
    """Say whether the value of a setting may be a secret; `before` is the element before it in its list."""
    if not isinstance(value, str) or not value:
        return False
    if _ADDRESS.match(value):
        return True
    if len(path) > 3 and path[0] == "mcp_servers":  # section, server, setting, and below
        if path[2] == "headers":
            return True
        if path[2] == "env":
            return _NAME.search(str(path[3])) is not None
        if path[2] == "command":
            flag, equals, _ = value.partition("=")
            following = isinstance(before, str) and before.startswith("-") and "=" not in before
            return bool((equals and _NAME.search(flag)) or (following and _NAME.search(str(before))))
    return False


def held_secrets(
    upstreams: Iterable[UpstreamSpec], environ: Mapping[str, str], variables: Collection[str] = ()
) -> frozenset[str]:
    """Every secret this process was given: by its environment, and by the configuration for upstream servers.

    `variables` hold one whatever they are called.
    """
    held = {value for name, value in environ.items() if _VARIABLE.search(name) and not value.startswith("/")}
    held.update(environ[name] for name in variables if name in environ)
    for spec in upstreams:
        held.update(_secrets_of(spec))
    return frozenset(held)


def _secrets_of(spec: UpstreamSpec) -> Iterator[str]:
    for value in spec.headers.values():
        yield value
        yield value.partition(" ")[2]  # `Bearer …`
    for name, value in spec.env.items():
        if may_be_secret(("mcp_servers", spec.name, "env", name), value):
            yield value
    words = spec.command or ()
    for position, (before, word) in enumerate(zip(("", *words), words, strict=False)):
        if may_be_secret(("mcp_servers", spec.name, "command", position), word, before):
            yield word.partition("=")[2] or word
    address = urlsplit(spec.url or "")
    yield address.password or ""
    yield from (value for _, value in parse_qsl(address.query))
