"""No dead knobs: every key of the configuration is set by a test of what it does, not only by a test of how it is read."""

import re
from collections.abc import Iterator
from pathlib import Path

from registry import json_schema
from registry.text.entry import Entry
from tests.support.requirement import requirement

TESTS = Path(__file__).parents[1]
BEHAVIOUR = ("faults", "mcp_face", "runner", "server", "sre", "properties")


def entries(kind: type[Entry] = Entry) -> Iterator[type[Entry]]:
    """Every shape a part of the file can have."""
    for shape in kind.__subclasses__():
        yield shape
        yield from entries(shape)


@requirement("S2-LE-10")
def test_every_setting_is_set_by_a_test_of_its_effect() -> None:
    assert json_schema()  # loads every shape
    texts = [file.read_text(encoding="utf-8") for folder in BEHAVIOUR for file in (TESTS / folder).rglob("*.py")]
    written = "\n".join([*texts, (TESTS.parent / "config.yaml").read_text(encoding="utf-8")])

    keys = {(shape.__name__, field.alias or key) for shape in entries() for key, field in shape.model_fields.items()}
    dead = {(shape, key) for shape, key in keys if not re.search(rf"\b{key}['\"]?\s*[:=]", written)}

    assert len(keys) > 60
    assert not dead
