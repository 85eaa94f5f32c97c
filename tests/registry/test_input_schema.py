"""`input_schema`: what cannot be demanded of an input is refused when the file is read."""

import pytest

from tests.registry.conftest import Load, Problems
from tests.support.requirement import requirement


@requirement("S3-OP-5")
@pytest.mark.parametrize(
    ("schema", "path", "message"),
    [
        ("{type: strin}", "type", "this is not a JSON schema"),
        ("{type: array}", "type", "an input schema must describe an object"),
        (
            "{properties: {n: {type: integer, default: many}}}",
            "properties.n.default",
            "the default does not fit the schema",
        ),
        (
            "{properties: {n: {$ref: '#/$defs/n', default: 7}}, $defs: {n: {maximum: 5}}}",
            "properties.n.default",
            "does not fit",
        ),
        ("{propertys: {}}", "propertys", "`propertys` is not a keyword of JSON schema"),
        ("", "", "has no value"),
    ],
)
def test_what_no_input_can_be_held_against_is_refused(problems_of: Problems, schema: str, path: str, message: str) -> None:
    [problem] = problems_of(f"agents: {{A: {{input_schema: {schema}}}}}")

    assert (problem.path, problem.line) == (f"agents.A.input_schema.{path}".rstrip("."), 1)
    assert message in problem.message


def test_a_schema_may_have_null_in_it(load_yaml: Load) -> None:
    settings = load_yaml("agents: {A: {input_schema: {properties: {n: {type: [string, 'null'], default: null}}}}}")

    assert settings.agent("A").input_schema == {"properties": {"n": {"type": ["string", "null"], "default": None}}}
