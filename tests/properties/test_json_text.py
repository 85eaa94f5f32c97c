"""Whatever a file holds and however it is laid out, putting a value there keeps the rest, letter by letter."""

import json
from contextlib import suppress
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.cli.install.json_text import CannotKeep, JsonText, UnreadableJson

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just('//"{[,]}"/*')
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)
objects = st.dictionaries(st.text(max_size=4), values, max_size=3)
indents = st.sampled_from([None, "  ", "    ", "\t"])


def layout(tree: Any, indent: str | None, newline: str) -> str:
    """A tree as a file holds it."""
    return json.dumps(tree, indent=indent, ensure_ascii=False).replace("\n", newline)


def shared(one: str, other: str) -> int:
    """How many characters two texts have in common from their beginning on."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@given(root=objects, servers=objects, indent=indents, newline=st.sampled_from(["\n", "\r\n"]), comments=st.booleans())
def test_a_value_is_put_there_and_nothing_else_changes(
    root: dict[str, Any], servers: dict[str, Any], indent: str | None, newline: str, comments: bool
) -> None:
    tree = {**root, "servers": servers}
    before = layout(tree, indent, newline)

    after = JsonText(before, comments).put(("servers", "mine"), {"args": ["x"]})

    assert json.loads(after) == {**root, "servers": {**servers, "mine": {"args": ["x"]}}}
    if "mine" not in servers:
        head = shared(before, after)
        tail = shared(before[head:][::-1], after[head:][::-1])
        assert before[head : len(before) - tail].strip() == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "s": {\n    "n": 1\n  }\n}\n'),
        ("// none yet\n", '// none yet\n{\n  "s": {\n    "n": 1\n  }\n}\n'),
        ("{}", '{\n  "s": {\n    "n": 1\n  }\n}'),
        ('{"a": 1}', '{"a": 1, "s": {"n": 1}}'),
        ('{"s": {"a": 1}}', '{"s": {"a": 1, "n": 1}}'),
        ('{\n "s": {} // none\n}', '{\n "s": {\n  "n": 1\n } // none\n}'),
        ('{\n "s": { // none\n }\n}', '{\n "s": { // none\n  "n": 1\n }\n}'),
        ('{\n "s": {\n  "a": 1, // last\n },\n}', '{\n "s": {\n  "a": 1, // last\n  "n": 1\n },\n}'),
        ('{\n "s": {\n  "a": 1 // last\n }\n}', '{\n "s": {\n  "a": 1, // last\n  "n": 1\n }\n}'),
        ('// top\n{"s": {"n": 0}}', '// top\n{"s": {"n": 1}}'),
    ],
)
def test_comments_and_layout_stay(before: str, after: str) -> None:
    assert JsonText(before, comments=True).put(("s", "n"), 1) == after


@pytest.mark.parametrize("text", ['{"s": {"n": {/* mine */}}}', '{"s": {"a": 1 // to the end of the line\n}}'])
def test_what_a_person_wrote_is_rather_left_alone_than_lost(text: str) -> None:
    with pytest.raises(CannotKeep):
        JsonText(text, comments=True).put(("s", "n"), 1)


@pytest.mark.parametrize(
    "text", ["[1]", "{", "{'a': 1}", '{"a": NaN}', '{"a": 1} x', "[" * 100_000, '{"a": 1, "a": 1}', "/*"]
)
def test_what_is_not_an_object_is_refused(text: str) -> None:
    with pytest.raises(UnreadableJson):
        JsonText(text, comments=True)


@given(st.text('{}[]",:/*\\ \n1a', max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(UnreadableJson):
        assert isinstance(JsonText(text, comments=True).tree, dict)
