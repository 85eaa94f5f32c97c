"""`output_schema`: what is no JSON schema is refused when the file is read, at the line that is wrong."""

from dataclasses import replace

import pytest

from registry import AgentSpec, ConfigError, load, misfits, restore
from tests.registry.conftest import Load, Problems
from tests.support.requirement import requirement


@requirement("S0-RG-1")
@pytest.mark.parametrize(
    ("schema", "path", "line", "message", "hint"),
    [
        ("{type: strin}", "type", 1, "this is not a JSON schema: 'strin'", "`string`"),
        ("{type: object, required: jobs}", "required", 1, "'jobs' is not of type 'array'", ""),
        ("\n      properties:\n        id: {pattern: '('}", "properties.id.pattern", 5, "is not a 'regex'", ""),
        ("{jobs: {type: array}}", "jobs", 1, "`jobs` is not a keyword of JSON schema", "under `properties`"),
        ("{items: {anyOf: [{tipe: string}]}}", "items.anyOf[0].tipe", 1, "`tipe` is not a keyword", "did you mean `type`?"),
        ("{$ref: '#/$defs/job'}", "$ref", 1, "`#/$defs/job` leads nowhere", "a part of this schema"),
        ("{$ref: 'http://127.0.0.1:9/job'}", "$ref", 1, "`http://127.0.0.1:9/job` leads nowhere", "a part of this schema"),
        ("{$schema: 'https://example.com/mine'}", "$schema", 1, "unknown dialect", "leave it out"),
        ("{$schema: 3}", "$schema", 1, "unknown dialect", "leave it out"),
        ("a text", "", 1, "a mapping is expected, not a text", ""),
    ],
)
def test_what_is_no_schema_is_refused_with_its_place(
    problems_of: Problems, schema: str, path: str, line: int, message: str, hint: str
) -> None:
    [problem] = problems_of(f"agents: {{A: {{output_schema: {schema}}}}}" if "\n" not in schema else _block(schema))

    assert (problem.path, problem.line) == (f"agents.A.output_schema.{path}".rstrip("."), line)
    assert message in problem.message
    assert hint in problem.hint


def _block(schema: str) -> str:
    return f"agents:\n  A:\n    output_schema:{schema}"


@requirement("S0-RG-1")
@pytest.mark.parametrize(
    ("setting", "path", "message"),
    [
        ("capabilities: search", "capabilities", "a list is expected"),
        ("capabilities: [search, '']", "capabilities[1]", "must not be empty"),
        ("max_tokens: 0", "max_tokens", "must be at least 1"),
        ("require_tool_call: sometimes", "require_tool_call", "`true` or `false` is expected"),
        ("strategy: synthesis, require_tool_call: true", "require_tool_call", "no effect on a synthesis agent"),
        ("output_schema:", "output_schema", "has no value"),
    ],
)
def test_every_demand_of_a_definition_is_checked(problems_of: Problems, setting: str, path: str, message: str) -> None:
    [problem] = problems_of(f"agents: {{A: {{{setting}}}}}")

    assert (problem.path, problem.line) == (f"agents.A.{path}", 1)
    assert message in problem.message


def test_a_schema_is_kept_word_for_word_and_a_snapshot_gives_it_again(load_yaml: Load) -> None:
    settings = load_yaml("""
        agents:
          A:
            capabilities: [search mail, read mail]
            max_tokens: 100
            require_tool_call: true
            output_schema:
              $schema: http://json-schema.org/draft-07/schema#
              definitions: {job: {enum: [a, 1, true, null], default: null}}
              type: array
              items: {$ref: '#/definitions/job'}
              x-note: ours
    """)
    agent = settings.agent("A")

    assert agent.output_schema == {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"job": {"enum": ["a", 1, True, None], "default": None}},
        "type": "array",
        "items": {"$ref": "#/definitions/job"},
        "x-note": "ours",
    }
    assert (agent.capabilities, agent.max_tokens, agent.require_tool_call) == (("search mail", "read mail"), 100, True)
    again = restore(settings.snapshot, {}).agent("A")
    assert again == replace(agent, limits=again.limits)
    assert settings.model_of(agent).max_tokens == 100


def test_the_schema_of_an_agent_that_is_registered_in_code_is_checked_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("registered") / "config.yaml"
    file.write_text("agents: {}", encoding="utf-8")

    with pytest.raises(ConfigError, match="`jobs` is not a keyword"):
        load(file, {}, registered=[AgentSpec(name="Probe", output_schema={"jobs": {}})])


def test_what_does_not_fit_is_told_by_its_path_and_no_longer_than_it_need_be() -> None:
    schema = {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["id"]}]}}

    assert misfits(["a", {"id": 1}], schema) == []
    assert misfits([{}], schema) == ["`$[0]`: 'id' is a required property"]
    many = misfits([1] * 7, schema)
    assert (len(many), many[-1]) == (6, "and 2 more")
    [long] = misfits("x" * 1000, schema)
    assert len(long) < 220
    assert long.endswith("is not of type 'array'")
    assert misfits([[]], {"type": "array", "items": {"$ref": "#"}, "allOf": [{"$ref": "#"}]}) == [
        "`$`: it is nested too deeply"
    ]
