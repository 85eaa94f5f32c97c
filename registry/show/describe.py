"""A configuration as people and editors read it: the effective values with their origins, and the file's JSON schema.

Owns: the form of both texts. Must not know: how values were decided, or any one setting. Invariants: the YAML means the
effective configuration and contains neither a secret nor the value of a variable; the loader refuses whatever the schema
refuses.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from registry.load.settings import Settings
from registry.show.provenance import PlaceLimits, chain_limits, origin_of
from registry.specs.document import Document
from registry.text.errors import TreePath
from registry.text.locate import plain

_BARE = re.compile(r"[A-Za-z0-9_./-][A-Za-z0-9_./ -]*(?<! )")
_LINES = re.compile(
    r"(?:[!-~\u00a1-\ud7ff\ue000-\ufefe][ -~\u00a1-\ud7ff\ue000-\ufefe]*(?<! )\n+)+(?:[!-~][ -~]*(?<! ))?(?<!\n\n)"
)
"""Lines that keep their meaning in a YAML block: no leading indentation, only visible characters."""


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
    """The limits at a place of a chain, as a comment: as a setting they would apply to the agents below."""
    yield f"# limits of {place.place}"
    yield from (f"#   {each.path}: {_word(each.value)[0]}  # {each.origin}" for each in place.limits)


def _word(value: Any, indent: str = "") -> list[str]:
    """Return a value as YAML, line by line: bare if it cannot be misread, else in double quotes."""
    if not isinstance(value, str):
        return [json.dumps(value, ensure_ascii=False)]
    if _BARE.fullmatch(value) and isinstance(plain(value), str) and value[0] != "-":
        return [value]
    if _LINES.fullmatch(value):
        return ["|" if value.endswith("\n") else "|-", *(f"{indent}  {line}".rstrip() for line in value.splitlines())]
    return [json.dumps(value, ensure_ascii=False)]


# -- the schema --------------------------------------------------------------------------------------------------------

_REFERENCE = {"type": "string", "pattern": r"\$\{"}
"""Any scalar may be a reference to an environment variable."""

_CLOSED = ("integer", "number", "boolean")
_ANNOTATIONS = ("default", "description", "title")


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of the configuration file."""
    schema = _open_to_variables(_as_written(Document.model_json_schema(mode="validation")))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "Outrider configuration",
        "description": "What `config.yaml` may say",
    }


def _as_written(node: Any) -> Any:
    """Remove nulls that mean "not given", defaults made of them, and keywords of no schema."""
    if isinstance(node, list):
        return [_as_written(each) for each in node]
    if not isinstance(node, dict):
        return node
    options = [each for each in node.get("anyOf", ()) if each != {"type": "null"}]
    made = {key: _as_written(value) for key, value in node.items() if not _is_unsaid(key, value)}
    if "anyOf" in node:
        made.pop("anyOf")
        made = {**(_as_written(options[0]) if len(options) == 1 else {"anyOf": _as_written(options)}), **made}
    return made


def _is_unsaid(key: str, value: Any) -> bool:
    if key == "default":
        return value is None or (isinstance(value, dict) and None in value.values())
    return key in ("ge", "gt") and isinstance(value, int | float)


def _open_to_variables(node: Any) -> Any:
    """Allow a reference to a variable wherever a number, a flag or an enum is expected."""
    if isinstance(node, list):
        return [_open_to_variables(each) for each in node]
    if not isinstance(node, dict):
        return node
    if "enum" in node or "const" in node or node.get("type") in _CLOSED:
        value = {key: each for key, each in node.items() if key not in _ANNOTATIONS}
        about = {key: node[key] for key in _ANNOTATIONS if key in node}
        return {"anyOf": [value, _REFERENCE], **about}
    return {key: _open_to_variables(value) for key, value in node.items()}
