"""What is published says one thing: the same name and version everywhere, in the forms that registries and clients take."""

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from server.project import CONFIG_VARIABLE
from tests.support.sources import PACKAGES, ROOT

TEXT = {"type": "string", "minLength": 1}

REGISTRY_ENTRY = {
    "type": "object",
    "required": ["$schema", "name", "description", "version", "packages"],
    "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"},
        "name": {"type": "string", "pattern": r"^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$", "maxLength": 200},
        "title": {**TEXT, "maxLength": 100},
        "description": {**TEXT, "maxLength": 100},
        "version": TEXT,
        "packages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["registryType", "identifier", "version", "transport"],
                "properties": {
                    "registryType": {"const": "pypi"},
                    "identifier": TEXT,
                    "version": TEXT,
                    "runtimeHint": {"const": "uvx"},
                    "transport": {"const": {"type": "stdio"}},
                    "packageArguments": {"const": [{"type": "positional", "value": "serve"}]},
                    "environmentVariables": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["name", "description"],
                            "properties": {
                                "name": TEXT,
                                "description": TEXT,
                                "isSecret": {"type": "boolean"},
                                "format": {"enum": ["string", "number", "boolean", "filepath"]},
                            },
                            "additionalProperties": False,
                        },
                    },
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
"""What we use of the registry's schema, and nothing besides."""


def document(name: str) -> Any:
    """A JSON file of the repository."""
    return json.loads((ROOT / name).read_text(encoding="utf-8"))


def project() -> dict[str, Any]:
    """The project as it is declared."""
    declared: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return declared


def test_name_version_licence_and_python_are_the_same_everywhere() -> None:
    server, manifest = document("server.json"), document("manifest.json")
    [package] = server["packages"]

    assert {server["version"], package["version"], manifest["version"]} == {project()["version"]}
    assert {server["name"].split("/")[1], package["identifier"], manifest["name"]} == {project()["name"]}
    assert manifest["license"] == project()["license"]
    assert manifest["compatibility"]["runtimes"]["python"] == project()["requires-python"]
    assert manifest["description"] == project()["description"]


def test_the_registry_takes_the_entry_and_finds_its_name_in_the_published_readme() -> None:
    server = document("server.json")

    jsonschema.validate(server, REGISTRY_ENTRY)

    assert f"mcp-name: {server['name']}" in (ROOT / project()["readme"]).read_text(encoding="utf-8")


def test_secrets_are_declared_as_such_and_what_is_not_given_is_empty() -> None:
    [package] = document("server.json")["packages"]
    manifest = document("manifest.json")
    options, given = manifest["user_config"], manifest["server"]["mcp_config"]["env"]

    assert [each["name"] for each in package["environmentVariables"] if each.get("isSecret")] == ["ANTHROPIC_API_KEY"]
    assert [name for name, option in options.items() if option.get("sensitive")] == ["anthropic_api_key"]
    assert given == {"ANTHROPIC_API_KEY": "${user_config.anthropic_api_key}", CONFIG_VARIABLE: "${user_config.config}"}
    assert all(option["default"] == "" for option in options.values()), (
        "without one, the reference itself would be handed on"
    )


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle as `make bundle` packs it."""
    path = tmp_path_factory.mktemp("bundle") / "outrider.mcpb"
    subprocess.run([sys.executable, ROOT / "tools" / "bundle.py", path], check=True)
    return path


def test_the_bundle_holds_what_the_server_is_built_from_and_no_folders(bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as packed:
        names = packed.namelist()
        manifest = json.loads(packed.read("manifest.json"))

    assert manifest == document("manifest.json")
    assert manifest["server"]["entry_point"] in names
    assert {name.split("/")[0] for name in names} == {
        *PACKAGES,
        *("manifest.json", "pyproject.toml", "README.md", "LICENSE", "config.yaml"),
    }
    assert [name for name in names if name.endswith(("/", ".pyc", ".db"))] == []


def test_the_bundle_starts_the_console_script_of_the_project() -> None:
    config = document("manifest.json")["server"]["mcp_config"]

    assert [config["command"], *config["args"][:3]] == ["uv", "run", "--project", "${__dirname}"]
    assert config["args"][-2] in project()["scripts"]
    assert config["args"][-1] == "serve"
