"""The effective configuration as a text for people: every value, and where it came from.

Owns: the form of that text. Must not know: how values were decided. Invariant: the text is YAML that means the
effective configuration, and contains neither a secret nor the value of a variable.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from registry.load.settings import Settings
from registry.show.provenance import PlaceLimits, chain_limits, origin_of
from registry.text.errors import TreePath
from registry.text.locate import plain

_BARE = re.compile(r"[A-Za-z0-9_./-][A-Za-z0-9_./ -]*(?<! )")
_LINES = re.compile(
    r"(?:[!-~\u00a1-\ud7ff\ue000-\ufefe][ -~\u00a1-\ud7ff\ue000-\ufefe]*(?<! )\n+)+(?:[!-~][ -~]*(?<! ))?(?<!\n\n)"
)
"""Several lines that mean the same in a block: no indentation of their own, nothing that cannot be seen."""


def describe(settings: Settings) -> str:
    """Return the effective configuration as YAML, each value with the line it came from, `built-in` or `default`."""
    tree = json.loads(settings.snapshot)["config"]
    heading = f"# effective configuration of {settings.source}"
    places = [place for chain in settings.chains.values() for place in chain_limits(settings, chain)]
    return "\n".join([heading, *_lines(tree, (), settings), *(line for place in places for line in _remark(place))]) + "\n"


def _lines(value: Any, path: TreePath, settings: Settings) -> Iterator[str]:
    indent = "  " * len(path)
    if isinstance(value, Mapping):
        pairs = [(key, _word(key)[0], each) for key, each in value.items()]
        marker = ":"
    else:
        pairs = [(index, "-", each) for index, each in enumerate(value)]
        marker = ""
    for step, label, each in pairs:
        here = (*path, step)
        if isinstance(each, Mapping | list) and each:
            yield f"{indent}{label}{marker}"
            yield from _lines(each, here, settings)
        else:
            word, *more = _word(each, indent)
            yield "\n".join([f"{indent}{label}{marker} {word}  # {origin_of(here, settings)}", *more])


def _remark(place: PlaceLimits) -> Iterator[str]:
    """What holds at a place of a chain: a remark, because written there it would bind the agents below."""
    yield f"# limits of {place.place}"
    yield from (f"#   {each.path}: {_word(each.value)[0]}  # {each.origin}" for each in place.limits)


def _word(value: Any, indent: str = "") -> list[str]:
    """Return a value as YAML, line by line: bare where it cannot be taken for something else, else in double quotes."""
    if not isinstance(value, str):
        return [json.dumps(value, ensure_ascii=False)]
    if _BARE.fullmatch(value) and isinstance(plain(value), str) and value[0] != "-":
        return [value]
    if _LINES.fullmatch(value):
        return ["|" if value.endswith("\n") else "|-", *(f"{indent}  {line}".rstrip() for line in value.splitlines())]
    return [json.dumps(value, ensure_ascii=False)]
