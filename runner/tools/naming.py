"""Tool names: the names sent to a model, and the server's tool behind each.

Owns the table between sent names (`server__tool`) and tools, and the repair of names that a model gets wrong. Pure. Must
not know: where tools come from or how they are called. Invariants: two tools never share a sent name; every sent name
fits the API's pattern; only the table maps a name back.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
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
    """A tool of a server, by the server's configured name and the server's own name for the tool."""

    server: str
    tool: str

    @property
    def label(self) -> str:
        """Its name in configurations, rows and events."""
        return f"{self.server}.{self.tool}"


class NameTable:
    """Sent names and their tools. Only grows: a sent name keeps its meaning."""

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
        """The sent name of a tool."""
        return self._sent[target]

    def target(self, name: str) -> Target | None:
        """The tool of a sent name."""
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
    """`server__tool` if it is unambiguous: it fits, and no other server and tool can be read from it."""
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
    """The known tool meant by a name with a wrong prefix or separator, if exactly one fits.

    An exact match always wins. A prefix that is a known server is never dropped: asking one server for another one's tool
    is a mistake that the model must be told about.
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
    """The name with each separator that a model may confuse."""
    joined = re.sub(r"[:/.]", _SEPARATOR, name, count=1)
    return (name, joined, name.replace(".", _SEPARATOR), name.replace(_SEPARATOR, ".", 1))


def why_unknown(name: str, known: Collection[str], unavailable: Mapping[str, str]) -> tuple[str, str, str]:
    """Why there is no such tool, as the type, message and hint of an error; `unavailable` has a reason for each server."""
    shown = name[:200]
    for server, reason in unavailable.items():
        if name.startswith((f"{server}{_SEPARATOR}", f"{server}.")):
            return "unavailable", f"`{shown}` was not called: upstream `{server}` {reason}", "continue without it"
    near = ", ".join(f"`{each}`" for each in nearest(shown, known))
    hint = f"the nearest are {near}" if near else "you have no tools; answer with what you know"
    return "unknown_tool", f"there is no tool `{shown}`", hint


def nearest(name: str, known: Collection[str], count: int = 3) -> list[str]:
    """The known names most similar to an unknown one, best first."""
    wanted = name[:_LONGEST_COMPARED]
    # The quick ratio is an upper bound; only the best by it are worth the quadratic comparison.
    likely = nlargest(count * 10, sorted(known), key=lambda candidate: _likeness(wanted, candidate, exact=False))
    return nlargest(count, likely, key=lambda candidate: _likeness(wanted, candidate, exact=True))


def _likeness(wanted: str, candidate: str, *, exact: bool) -> float:
    """The similarity of two names, by the whole names or by their parts after the server."""
    pairs = ((wanted, candidate), (_tail(wanted), _tail(candidate)))
    matchers = [SequenceMatcher(None, left.lower(), right.lower()) for left, right in pairs]
    return max(matcher.ratio() if exact else matcher.quick_ratio() for matcher in matchers)


def _tail(name: str) -> str:
    return re.split(r"__|[.:/]", name)[-1]
