"""The answer of an agent: its `output_schema`, a JSON schema.

Owns: the checks of the schema, and the validation of a value by it. Must not know: where values come from.
Invariant: a schema without faults validates any value by itself: nothing is ever fetched. The library is imported only
when a configuration has such a schema.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.specs.document import Document
from registry.text.errors import TreePath
from registry.text.findings import Findings
from registry.text.names import listed, nearest

if TYPE_CHECKING:
    from jsonschema.protocols import Validator
    from referencing import Specification

LATEST = "https://json-schema.org/draft/2020-12/schema"
"""The dialect of a schema that names none."""
TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")

MOST_MISFITS = 5
LONGEST_MISFIT = 200
"""The longest message about a value: messages quote it, and it may be long."""

_ONE = ("additionalProperties", "propertyNames", "unevaluatedProperties", "items", "additionalItems", "contains",
        "unevaluatedItems", "not", "if", "then", "else", "contentSchema")  # fmt: skip
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions", "dependencies")
"""Keywords with schemas below them: one, several, or several by name."""

_REMARKS = ("$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", "$comment", "$defs",
            "definitions", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "format",
            "then", "else", "minContains", "maxContains", "contentEncoding", "contentMediaType",
            "contentSchema")  # fmt: skip
"""Keywords that validate nothing by themselves."""


@dataclass(frozen=True, slots=True)
class SchemaFault:
    """A fault of a schema, and its path."""

    path: TreePath
    message: str
    hint: str = ""


def check_output_schemas(findings: Findings, document: Document) -> None:
    """Check that agents' output schemas are valid."""
    for name, agent in document.agents.items():
        for fault in faults(agent.output_schema) if agent.output_schema is not None else ():
            findings.add(("agents", name, "output_schema", *fault.path), fault.message, fault.hint)


def faults(schema: Mapping[str, Any]) -> Iterator[SchemaFault]:
    """Yield the faults of a schema: unknown keywords, invalid values, dangling references."""
    from jsonschema.exceptions import best_match
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing.jsonschema import UnknownDialect, specification_with

    try:
        specification = specification_with(str(schema.get("$schema", LATEST)))
    except UnknownDialect:
        yield SchemaFault(("$schema",), "unknown dialect of JSON schema", f"leave it out, or write `{LATEST}`")
        return
    dialect = validator_for(schema, default=Draft202012Validator)
    seen: set[TreePath] = set()
    for error in dialect(dialect.META_SCHEMA, format_checker=dialect.FORMAT_CHECKER).iter_errors(schema):
        path = tuple(error.absolute_path)
        if path not in seen:
            seen.add(path)
            hint = f"types are {listed(TYPES)}" if path[-1:] == ("type",) else ""
            yield SchemaFault(path, f"this is not a JSON schema: {_words(best_match([error]).message)}", hint)
    if not seen:
        known = frozenset({*dialect.VALIDATORS, *_REMARKS})
        yield from _unknown_words(schema, known)
        yield from _lost_references(schema, specification)


def misfits(value: Any, schema: Mapping[str, Any] | bool, within: Mapping[str, Any] | None = None) -> Sequence[str]:
    """Return the violations of a schema by a value, each with its JSON path; nothing when it is valid.

    A schema `within` another may refer to parts of that one.
    """
    from jsonschema.exceptions import best_match

    try:
        judge = _validator(schema if within is None else within).evolve(schema=schema)
        errors = sorted(judge.iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
    except RecursionError:
        return ["`$`: it is nested too deeply"]
    shown = [best_match([error]) for error in errors[:MOST_MISFITS]]
    told = [f"`{_words(each.json_path)}`: {_words(each.message)}" for each in shown]
    return [*told, f"and {len(errors) - MOST_MISFITS} more"] if len(errors) > MOST_MISFITS else told


def _validator(schema: Mapping[str, Any] | bool) -> "Validator":
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing.jsonschema import EMPTY_REGISTRY

    return validator_for(schema, default=Draft202012Validator)(schema, registry=EMPTY_REGISTRY)


def _words(text: str) -> str:
    """Shorten a message in the middle: it begins with the value and ends with the fault."""
    return text if len(text) <= LONGEST_MISFIT else f"{text[: LONGEST_MISFIT // 2]} … {text[-LONGEST_MISFIT // 2 :]}"


def _schemas(schema: Any, path: TreePath = ()) -> Iterator[tuple[TreePath, Mapping[str, Any]]]:
    """Yield a schema and all schemas inside it."""
    if not isinstance(schema, Mapping):
        return
    yield path, schema
    for key, value in schema.items():
        below: list[tuple[TreePath, Any]] = []
        if key in _NAMED and isinstance(value, Mapping):
            below = [((key, name), each) for name, each in value.items()]
        elif key in _LISTED and isinstance(value, list):
            below = [((key, index), each) for index, each in enumerate(value)]
        elif key in _ONE:
            below = [((key,), value)]
        for step, each in below:
            yield from _schemas(each, (*path, *step))


def _unknown_words(schema: Mapping[str, Any], known: frozenset[str]) -> Iterator[SchemaFault]:
    """Yield unknown keywords: JSON schema would silently ignore them."""
    for path, each in _schemas(schema):
        for word in each:
            if word not in known and not word.startswith("x-"):
                near = nearest(word, sorted(known))
                hint = f"did you mean `{near}`?" if near else "members of an object are described under `properties`"
                yield SchemaFault((*path, word), f"`{word}` is not a keyword of JSON schema", hint)


def _lost_references(schema: Mapping[str, Any], specification: "Specification[Any]") -> Iterator[SchemaFault]:
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import EMPTY_REGISTRY

    resolver = EMPTY_REGISTRY.resolver_with_root(specification.create_resource(schema))
    for path, each in _schemas(schema):
        reference = each.get("$ref")
        if isinstance(reference, str):
            try:
                resolver.lookup(reference)
            except Unresolvable:
                hint = "refer to a part of this schema: `#/$defs/name`"
                yield SchemaFault((*path, "$ref"), f"`{reference}` leads nowhere", hint)
