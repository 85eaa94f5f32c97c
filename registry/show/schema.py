"""The JSON schema of `config.yaml`, for editors and for people.

Owns: the schema's form. Must not know: any one setting: it is made from the shapes that validate the file.
Invariant: what the schema refuses the loader refuses too.
"""

from typing import Any

from registry.specs.document import Document

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
    """Take out what no file says: the null that stands for "not given", defaults made of it, and words of no schema."""
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
    """Allow a reference to a variable wherever a number, a flag or one of a few words is expected."""
    if isinstance(node, list):
        return [_open_to_variables(each) for each in node]
    if not isinstance(node, dict):
        return node
    if "enum" in node or "const" in node or node.get("type") in _CLOSED:
        value = {key: each for key, each in node.items() if key not in _ANNOTATIONS}
        about = {key: node[key] for key in _ANNOTATIONS if key in node}
        return {"anyOf": [value, _REFERENCE], **about}
    return {key: _open_to_variables(value) for key, value in node.items()}
