"""Secrets: which values of the configuration and the environment must not be shown or stored.

Owns: what makes a value a secret (its setting, its name, its form), and the secrets inside it (a password in an address, a
line of a key). Must not know: how settings are printed or stored, or where secrets are searched for.
Invariant: when in doubt a value is a secret; a secret is masked as a whole.
"""

import binascii
import json
import re
from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import Field

from registry.specs.upstreams import UpstreamSpec
from registry.text.entry import Entry, Line
from registry.text.errors import TreePath

MASK = "***"

SHORTEST = 6
"""A shorter value is no secret: it would match everywhere."""
_LONG_LINE = 16
"""A line of a secret with at least so many characters is a secret by itself."""


class SecretsEntry(Entry):
    """`secrets` as written."""

    plain: tuple[Line, ...] = Field(
        default=(), description="names of variables and headers whose values are not secret and are never masked"
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# -- names -------------------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SECRET_WORDS = _words(
    "apikey auth authorization bearer cookie cookies cred credential credentials creds dsn jwt key keys oauth pass passcode"
    " passphrase passwd password pat private pw pwd salt secret secrets session signature token tokens"
)
_SECRET_PART = re.compile(
    r"(?i)passw|passphrase|secret|api_?key|token|credential|cookie"
    r"|(?:(?<!com)(?<!by)(?<!sur)(?<!over)pass|pwd|dsn|jwt|(?<!mon)(?<!tur)(?<!hot)(?<!don)key)(?:$|_|\d)"
)
_SAID_ELSEWHERE = re.compile(
    r"(?i)(?:old)?pwd|ssh_auth_sock|xauthority|(?:xdg|desktop|gdm|term|iterm|dbus)_?session.*|session_manager"
)
"""Variables that every shell has; they hold no secret, whatever their names."""
_PLAIN_HEADERS = _words(
    "accept accept-charset accept-encoding accept-language cache-control connection content-type host user-agent"
)


def looks_secret(name: str) -> bool:
    """Say whether the name of a variable, flag or header suggests a secret."""
    if _SECRET_PART.search(name):
        return True
    return any(word.lower() in _SECRET_WORDS for word in _WORD.findall(name))


# -- values ------------------------------------------------------------------------------------------------------------

_PLAIN_WORDS = _words(
    "true false yes no on off none null auto default enabled disabled required optional basic bearer oauth oauth2 token"
    " password postgres secret admin root guest changeme test example mysql redis rabbitmq minio user username"
)
"""Common settings and passwords anyone would guess: masking them would garble texts and hide nothing."""
_NUMBER = re.compile(r"[+-]?[\d.,:_-]{1,9}(?: ?(?:ms|s|sec|m|min|h|d|[kmgt]i?b?|%))?", re.IGNORECASE)
_HOST = r"(?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+|\[[0-9a-f:]+\])(?::\d{1,5})?"
_USUAL = re.compile(
    rf"[a-z]{{1,12}}|[a-z]{{2,3}}(?:-[a-z]+){{1,2}}-\d|[a-z]{{2}}[-_][a-z]{{2}}(?:\.[a-z0-9-]+)?|[a-z]+/[a-z_]+"
    rf"|{_HOST}(?:,{_HOST})*|[a-z][a-z0-9+.-]*://{_HOST}(?:/[\w./-]*)?|\d{{4}}-\d\d-\d\d|v?\d+(?:\.\d+){{1,3}}",
    re.IGNORECASE,
)
"""A word, a region, a locale, a time zone, hosts, an address without user and query, a date, a version."""
_PATH = re.compile(r"(?:~|\.{1,2})?(?:/[A-Z]?[a-z0-9._-]{1,32}){2,}/?|(?:~|\.{1,2})/[\w./-]*|[A-Za-z]:\\[\w\\. -]*")


def _is_plain(value: str, *, named: bool) -> bool:
    """Say whether the form of a value shows that it is no secret; `named`: its name suggests one."""
    text = value.strip()
    if len(text) < SHORTEST or text.lower() in _PLAIN_WORDS:
        return True
    number = _NUMBER.fullmatch(text)
    if named:
        return number is not None and len(text) < SHORTEST + 2
    return number is not None or _USUAL.fullmatch(text) is not None or _PATH.fullmatch(text) is not None


def _exists(text: str) -> bool:
    """Say whether it is an existing path: a path is no secret, its content may be."""
    if not text.startswith(("/", "~/", "./", "../")) or "\n" in text or len(text) > 1024:
        return False
    try:
        return Path(text).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False


# -- settings ----------------------------------------------------------------------------------------------------------

_ADDRESS = re.compile(r"(?i)[a-z][a-z0-9+.-]*://(?:[^/\s]*@|[^\s]*\?)")


def may_be_secret(path: TreePath, value: object, before: object = None, plain: Collection[str] = ()) -> bool:
    """Say whether the value of a setting may be a secret; `before` is the element before it in its list.

    The setting alone decides, so that a snapshot does not depend on the files of a machine.
    """
    if not isinstance(value, str) or not value:
        return False
    if _ADDRESS.match(value):
        return True
    if len(path) > 3 and path[0] == "mcp_servers":  # section, server, setting, and below
        if path[2] in ("headers", "env"):
            return _given(str(path[2]), str(path[3]), value, plain)
        if path[2] == "command":
            flag, equals, _ = value.partition("=")
            following = isinstance(before, str) and before.startswith("-") and "=" not in before
            return bool((equals and looks_secret(flag)) or (following and looks_secret(str(before))))
    return False


def _given(setting: str, name: str, value: str, plain: Collection[str]) -> bool:
    """Say whether a value given to a server is a secret: every value is, unless it is declared plain or looks plain."""
    if name in plain or (setting == "headers" and name.lower() in _PLAIN_HEADERS):
        return False
    return not _is_plain(value, named=looks_secret(name))


def held_secrets(
    upstreams: Iterable[UpstreamSpec],
    environ: Mapping[str, str],
    variables: Collection[str] = (),
    referenced: Collection[str] = (),
    plain: Collection[str] = (),
) -> frozenset[str]:
    """Every secret of this process: from its environment, and from the configuration of upstream servers.

    `variables` hold one whatever their names, `referenced` are those that the configuration names as `${…}`; those in
    `plain` hold none.
    """
    held = {environ[name] for name in variables if name in environ}
    for name, value in environ.items():
        if name in plain or name in variables:
            continue
        named = looks_secret(name) and not _SAID_ELSEWHERE.fullmatch(name)
        if (named or name in referenced) and not _is_plain(value, named=named) and not _exists(value):
            held.add(value)
        else:
            held.update(_passwords(value))
    for spec in upstreams:
        held.update(_secrets_of(spec, plain))
    parts = {part for value in held for part in _parts(value)}
    return frozenset(part for part in parts if len(part) >= SHORTEST and part.lower() not in _PLAIN_WORDS)


def _secrets_of(spec: UpstreamSpec, plain: Collection[str]) -> Iterator[str]:
    for setting, given in (("headers", spec.headers), ("env", spec.env)):
        for name, value in given.items():
            if _given(setting, name, value, plain) and not _exists(value):
                yield value
            elif name not in plain:
                yield from _passwords(value)
    words = spec.command or ()
    for position, (before, word) in enumerate(zip(("", *words), words, strict=False)):
        if may_be_secret(("mcp_servers", spec.name, "command", position), word, before):
            yield word.partition("=")[2] or word
    address = urlsplit(spec.url or "")
    yield from _passwords(spec.url or "")
    yield from (value for _, value in parse_qsl(address.query))


# -- parts of a value --------------------------------------------------------------------------------------------------

_SCHEME = re.compile(r"(?i)(bearer|basic|token|apikey|api-key|digest|negotiate|key)\s+(\S.*)", re.DOTALL)
_FIELD = re.compile(r"(?i)(?:password|passwd|pwd|pass|secret|token|key|sig|signature)\s*=\s*([^;&\s\"']+)")
_LINE_END = re.compile(r"\r?\n|\\r\\n|\\n")
_DEEPEST = 5


def _parts(value: str, depth: int = 0) -> Iterator[str]:
    """A secret, and the parts of it that are secrets by themselves."""
    text = value.strip()
    yield text
    if depth > _DEEPEST:
        return
    if (scheme := _SCHEME.fullmatch(text)) is not None:
        yield from _parts(scheme[2], depth + 1)
        if scheme[1].lower() == "basic":
            yield from _credentials(scheme[2])
    yield from _passwords(text)
    for found in _FIELD.finditer(text):
        yield from (found[1], unquote(found[1]))
    lines = _LINE_END.split(text)
    if len(lines) > 1:
        kept = (line.strip() for line in lines)
        yield from (line for line in kept if len(line) >= _LONG_LINE and not line.startswith("-----"))
    if "; " in text and "=" in text:  # cookies
        yield from (pair.partition("=")[2] for pair in text.split("; ") if len(pair.partition("=")[2]) >= SHORTEST + 2)
    if text.startswith(("{", "[")):
        yield from _in_json(text, depth)


_USER_INFO = re.compile(
    r"(?<![a-zA-Z0-9+.-])[a-zA-Z][a-zA-Z0-9+.-]*://(?:([^:/@\s]*):(?!\d{1,5}/)([^@\s]+)|([^:/@\s]{16,}))@"
)
_TO_THE_LAST = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^:/@\s]*:(?!\d{1,5}/)(\S+)@")


def _passwords(text: str) -> Iterator[str]:
    """The passwords in addresses, or the user if it is a token; as written, and decoded."""
    if "://" not in text or "@" not in text:  # nearly every value
        return
    for found in _USER_INFO.finditer(text):
        password = found[2] or found[3]
        if password != found[1]:
            yield from (password, unquote(password))
    if (whole := _TO_THE_LAST.match(text.strip())) is not None:  # it may hold an `@` itself
        yield from (whole[1], unquote(whole[1]))


def _credentials(coded: str) -> Iterator[str]:
    """User and password of a Basic header."""
    try:
        both = b64decode(coded, validate=True).decode()
    except (binascii.Error, ValueError):
        return
    yield both
    yield both.partition(":")[2]


def _in_json(text: str, depth: int) -> Iterator[str]:
    try:
        waiting: list[tuple[str, Any]] = [("", json.loads(text))]
    except (ValueError, RecursionError):
        return
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += ((name, each) for each in value)
        elif isinstance(value, str) and not _is_plain(value, named=looks_secret(name)):
            yield from _parts(value, depth + 1)
