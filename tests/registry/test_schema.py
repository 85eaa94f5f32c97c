import json
from typing import Any

import jsonschema
import pytest
import yaml

from registry import json_schema
from tests.registry.conftest import Load, Problems
from tests.registry.test_settings import CONFIG


def test_the_schema_accepts_what_loads(load_yaml: Load) -> None:
    schema = json_schema()

    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load(CONFIG), schema)
    json.dumps(schema)


@pytest.mark.parametrize(
    "text",
    [
        "agentz: {}",
        "agents: {A: {descripton: x}}",
        "agents: {A: {max_iterations: 0}}",
        "agents: {A: {max_iterations: '5'}}",
        "agents: {A: {description: null}}",
        "agents: {A: {sub_agents: [{nam: x}]}}",
        "agents: {A: {strategy: chain}}",
        "agent_chains: {c: {stages: []}}",
        "models: {m: {}}",
        "mcp_servers: {s: {command: npx}}",
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(problems_of: Problems, text: str) -> None:
    document: Any = yaml.safe_load(text)

    assert problems_of(text)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, json_schema())


def test_every_setting_is_described() -> None:
    definitions: dict[str, Any] = json_schema()["$defs"]
    silent = [
        f"{name}.{key}"
        for name, definition in definitions.items()
        for key, setting in definition["properties"].items()
        if not setting.get("description")
    ]

    assert silent == []
