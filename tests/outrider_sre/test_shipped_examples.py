"""Everything that ships as an example loads: configurations, rehearsals, and the blocks in the documents."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from outrider_sre.incident import ALERT
from registry import load
from registry.specs.document import SECTIONS
from runner.llm.rehearsal.script import load_rehearsal
from server.project import find_config
from tests.outrider_sre.investigating import CHAIN, CONFIG
from tests.support.requirement import requirement
from tests.support.sources import ROOT, relative, repository_files

_BLOCK = re.compile(r"^```ya?ml\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
_REHEARSAL = re.compile(r"rehearsal: ([\w.-]+)$", re.MULTILINE)
_TEXT_FILE = re.compile(r"url: ([\w./-]+\.md)")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
"""One without a default."""


def configurations() -> dict[str, str]:
    """Every configuration there is: files beside the packages and in `examples`, and blocks of documents."""
    found: dict[str, str] = {}
    for file in repository_files():
        place = relative(file)
        if place == "config.yaml" or (place.startswith("examples/") and file.suffix in (".yaml", ".yml")):
            found[place] = file.read_text(encoding="utf-8")
        elif file.suffix == ".md":
            text = file.read_text(encoding="utf-8")
            found.update({f"{place}#{block.start()}": block["text"] for block in _BLOCK.finditer(text)})
    return {place: text for place, text in found.items() if is_configuration(text)}


def is_configuration(text: str) -> bool:
    """Whether a YAML text has a section of a configuration; a rehearsal has turns where that has agents, and a file of one
    agent is loaded with the configuration that lists it. What a page adds to an example is tested with that example.
    """
    tree, added = yaml.safe_load(text), text.startswith("# added to examples/")
    if not isinstance(tree, dict) or not set(tree) & set(SECTIONS) or "strategy" in tree or added:
        return False
    agents = tree.get("agents")
    return not (isinstance(agents, dict) and any(isinstance(entry, list) for entry in agents.values()))


def patterns_in(tree: object) -> list[str]:
    """Every text of a tree."""
    if isinstance(tree, str):
        return [tree]
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return [pattern for each in inner for pattern in patterns_in(each)]


@requirement("S2-VA-12")
@pytest.mark.parametrize("place", configurations())
def test_every_shipped_configuration_loads(place: str, tmp_path: Path) -> None:
    text = configurations()[place]
    built_in = {"OUTRIDER_PYTHON", "OUTRIDER_HOME", "OUTRIDER_CONFIG_DIR"}
    given = dict.fromkeys(set(_VARIABLE.findall(text)) - built_in, "http://given.test")

    settings = load(ROOT / place if "#" not in place else laid_out(text, tmp_path), given)

    assert settings.agents


def laid_out(text: str, folder: Path) -> Path:
    """Write a block of a document, and the files it names beside it."""
    file = folder / "config.yaml"
    file.write_text(text, encoding="utf-8")
    tree = yaml.safe_load(text)
    patterns = [pattern.replace("**", "deep").replace("*", "some") for pattern in patterns_in(tree.get("context_files"))]
    agents = tree["agents"] if isinstance(tree.get("agents"), list) else []
    texts = _TEXT_FILE.findall(text)
    for name in (*_REHEARSAL.findall(text), *texts, *patterns, *agents):
        folder.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        folder.joinpath(name).write_text("words\n" if name in texts else "", encoding="utf-8")
    for workspace in (tree.get("workspaces") or {}).values():
        folder.joinpath(workspace["path"]).mkdir(parents=True, exist_ok=True)
    return file


@requirement("S2-VA-12")
def test_the_default_configuration_needs_no_variable_and_works_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = tmp_path / "default_config.yaml"
    shutil.copy(CONFIG, packaged)
    monkeypatch.chdir(tmp_path)

    settings = load(packaged, {})

    assert find_config(environ={}).path.read_bytes() == CONFIG.read_bytes()
    for model in settings.models.values():
        assert model.rehearsal is not None
        assert load_rehearsal(model.rehearsal).turns_of("Investigator")


def test_the_packaged_alert_starts_the_chain() -> None:
    alert = json.loads(ALERT.read_text(encoding="utf-8"))

    assert load(CONFIG, {}).chain_for_alert(alert["labels"]["alertname"]).name == CHAIN


def test_every_agent_of_the_default_configuration_has_a_part_in_the_rehearsal() -> None:
    settings = load(CONFIG, {})
    script = settings.models[settings.defaults.model].rehearsal
    assert script is not None

    parts = load_rehearsal(script).agents

    assert set(settings.agents) - {"Synthesizer"} <= set(parts)


def test_the_default_configuration_is_short_enough_to_be_read_at_once() -> None:
    assert len(CONFIG.read_text(encoding="utf-8").splitlines()) <= 110
