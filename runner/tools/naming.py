"""The names of tools: what is sent to a model, and which tool of which server each sent name stands for.

Owns: the table between sent names (`server__tool`) and tools, and the repair of names a model gets wrong. Must not know:
where tools come from or how they are called; everything here is pure.
Invariant: two tools never share a sent name, every sent name fits the API's pattern, and the way back is the table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from hashlib import sha256
from heapq import nlargest

LONGEST_NAME = 64
"""The Messages API takes 128 characters; many compatible endpoints take 64, and no name needs more."""

_SEPARATOR = "__"
_FITTING = re.compile(r"[a-zA-Z0-9_-]+")
_REFUSED = re.compile(r"[^a-zA-Z0-9_-]+")
_SHORTEST_HASH = 8
_SERVER_IN_ALIAS = 20
_LONGEST_COMPARED = 200


@dataclass(frozen=True, slots=True)
class Target:
    """A tool of a server, under the names both have for themselves."""

    server: str
    tool: str

    @property
    def label(self) -> str:
        """How config, rows and events call it."""
        return f"{self.server}.{self.tool}"


class NameTable:
    """Sent names and the tools they stand for. Grows only: a name once sent keeps its meaning."""

    __slots__ = ("_sent", "_targets")

    def __init__(self, targets: Iterable[Target] = ()) -> None:
        self._sent: dict[Target, str] = {}
        self._targets: dict[str, Target] = {}
        self.add(targets)

    def add(self, targets: Iterable[Target]) -> None:
        """Give every new tool its sent name; the result does not depend on their order."""
        new = sorted(set(targets) - self._sent.keys(), key=lambda target: (target.server, target.tool))
        odd = [target for target in new if not self._take(target, _plain_name(target))]
        for target in odd:
            digest = sha256(f"{target.server}\0{target.tool}".encode("utf-8", "surrogatepass")).hexdigest()
            lengths = range(_SHORTEST_HASH, LONGEST_NAME)
            if not any(self._take(target, _alias(target, digest[:length])) for length in lengths):
                raise ValueError(f"no free name is left for `{target.label}`")

    def sent(self, target: Target) -> str:
        """Return the name under which a tool is sent to the model."""
        return self._sent[target]

    def target(self, name: str) -> Target | None:
        """Return the tool a sent name stands for."""
        return self._targets.get(name)

    @property
    def names(self) -> Collection[str]:
        """All names in use."""
        return self._targets.keys()

    def _take(self, target: Target, name: str | None) -> bool:
        if name is None or name in self._targets:
            return False
        self._sent[target] = name
        self._targets[name] = target
        return True


def _plain_name(target: Target) -> str | None:
    """`server__tool` where that is unmistakable: it fits, and no other server and tool can be read from it."""
    server, tool = target.server, target.tool
    if _SEPARATOR in server or server.endswith("_") or tool.startswith("_"):
        return None
    name = f"{server}{_SEPARATOR}{tool}"
    fits = len(name) <= LONGEST_NAME and _FITTING.fullmatch(server) and _FITTING.fullmatch(tool)
    return name if fits else None


def _alias(target: Target, digest: str) -> str:
    digest = digest[: LONGEST_NAME - len(_SEPARATOR) - 2]
    server = _REFUSED.sub("_", target.server)[:_SERVER_IN_ALIAS]
    tool = _REFUSED.sub("_", target.tool).strip("_")
    room = LONGEST_NAME - len(digest) - len(_SEPARATOR)
    server = server[: max(1, room - 1)]
    tool = tool[: max(0, room - len(server) - 1)]
    return f"{server}{_SEPARATOR}{tool}_{digest}" if tool else f"{server}{_SEPARATOR}{digest}"


def normalise(name: str, known: Collection[str]) -> str | None:
    """Return the known tool a model meant by a name with a wrong prefix or separator, if exactly one fits.

    An exact match always wins. A prefix that is itself a known server is never dropped: asking one server for
    another one's tool is a mistake the model must hear about, not one to be guessed around.
    """
    if name in known:
        return name
    servers = {sent.partition(_SEPARATOR)[0] for sent in known if _SEPARATOR in sent}
    fitting = {form for bare in _bare_forms(name.strip(), servers) for form in _spellings(bare) if form in known}
    return fitting.pop() if len(fitting) == 1 else None


def _bare_forms(name: str, servers: Collection[str]) -> Iterable[str]:
    """The name, then the name without one wrong prefix after the other."""
    rest: str | None = name
    while rest:
        yield rest
        match = re.match(r"([^:./]+?)(?::|/|\.|__)(.+)", rest, re.DOTALL)
        rest = match[2] if match is not None and match[1] not in servers else None


def _spellings(name: str) -> tuple[str, ...]:
    """The name with each separator a model may take for another."""
    joined = re.sub(r"[:/.]", _SEPARATOR, name, count=1)
    return (name, joined, name.replace(".", _SEPARATOR), name.replace(_SEPARATOR, ".", 1))


def nearest(name: str, known: Collection[str], count: int = 3) -> list[str]:
    """Return the known names most like a name nobody knows, best first, for the error that says so."""
    wanted = name[:_LONGEST_COMPARED]
    # The quick ratio is an upper bound; only the best by it are worth the quadratic comparison.
    likely = nlargest(count * 10, sorted(known), key=lambda candidate: _likeness(wanted, candidate, exact=False))
    return nlargest(count, likely, key=lambda candidate: _likeness(wanted, candidate, exact=True))


def _likeness(wanted: str, candidate: str, *, exact: bool) -> float:
    """How alike two names are, by the whole names or by what stands after the server."""
    pairs = ((wanted, candidate), (_tail(wanted), _tail(candidate)))
    matchers = [SequenceMatcher(None, left.lower(), right.lower()) for left, right in pairs]
    return max(matcher.ratio() if exact else matcher.quick_ratio() for matcher in matchers)


def _tail(name: str) -> str:
    return re.split(r"__|[.:/]", name)[-1]
