"""The effective configuration as a text for people: every value, and where it came from.

Owns: the form of that text. Must not know: how values were decided. Invariant: the text is YAML that means the
effective configuration, and contains neither a secret nor the value of a variable.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from registry.effective import origin
from registry.errors import TreePath
from registry.scalars import plain
from registry.settings import Settings

_BARE = re.compile(r"[A-Za-z0-9_./-][A-Za-z0-9_./ -]*(?<! )")


def describe(settings: Settings) -> str:
    """Return the effective configuration as YAML, each value with the line it came from, or `default`."""
    tree = json.loads(settings.snapshot)["config"]
    heading = f"# effective configuration of {settings.source}\n"
    return heading + "\n".join(_lines(tree, (), settings)) + "\n"


def _lines(value: Any, path: TreePath, settings: Settings) -> Iterator[str]:
    indent = "  " * len(path)
    if isinstance(value, Mapping):
        pairs = [(key, _word(key), each) for key, each in value.items()]
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
            yield f"{indent}{label}{marker} {_word(each)}  # {_place(here, settings)}"


def _place(path: TreePath, settings: Settings) -> str:
    came_from = origin(path, settings.located)
    return settings.defined_at(*came_from) if came_from else "default"


def _word(value: Any) -> str:
    """Return a value as YAML: a text bare where it cannot be taken for something else, else in double quotes."""
    if isinstance(value, str) and _BARE.fullmatch(value) and isinstance(plain(value), str) and value[0] != "-":
        return value
    return json.dumps(value, ensure_ascii=False)
