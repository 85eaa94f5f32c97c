"""Templates: places for values, conditions, loops, filters and includes, and nothing is ever rendered twice."""

from collections.abc import Mapping
from typing import Any

import pytest

from registry import Template, TooMuch
from registry.text.templates import Unusable, gathered
from tests.support.requirement import requirement


def rendered(text: str, values: Mapping[str, Any] | None = None, files: Mapping[str, str] | None = None) -> str:
    """Return what a sound template makes of values."""
    template, faults = gathered("", text, dict(files or {}).__getitem__)
    assert not faults
    return template.render(values or {}, str)


@requirement("S3-TP-1")
@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("Look at {{ topic }}.", {"topic": "disks"}, "Look at disks."),
        ("Look at {{ topic }}.", {"topic": None}, "Look at ."),
        ("Look at {{ topic }}.", {}, "Look at ."),
        ("{{ user.name.first }}{{ user.list[7] }}{{ user['x'] }}", {"user": {}}, ""),
        ("{{ a.b[1].c }}", {"a": {"b": [0, {"c": "deep"}]}}, "deep"),
        ("{{ data }}", {"data": {"a": [1, None, True], "ü": "é"}}, '{"a": [1, null, true], "ü": "é"}'),
        ("{{ data }}", {"data": ["a", 1.5]}, '["a", 1.5]'),
        ("{{ n }} {{ yes }} {{ no }}", {"n": 3, "yes": True, "no": False}, "3 true false"),
        ("{{ a or b }} {{ a if a else 'none' }}", {"b": "second"}, "second none"),
        ("{# a remark #}{% raw %}{{ kept }}{% endraw %}", {"kept": 1}, "{{ kept }}"),
    ],
)
def test_a_value_stands_where_its_name_stood(text: str, values: dict[str, Any], expected: str) -> None:
    assert rendered(text, values) == expected


@requirement("S3-TP-2")
def test_conditions_choose_and_loops_repeat_and_leave_no_empty_lines() -> None:
    wishes = (
        "{% if message %}\n## Wishes\n{{ message }}\n{% elif depth > 1 %}\nDeeply.\n{% else %}\nAt once.\n{% endif %}\n"
    )
    text = f"Do it.\n{wishes}End"

    assert rendered(text, {"message": "soon"}) == "Do it.\n## Wishes\nsoon\nEnd"
    assert rendered(text, {"message": "", "depth": 2}) == "Do it.\nDeeply.\nEnd"
    assert rendered(text, {"depth": "much"}) == "Do it.\nAt once.\nEnd"
    line = "{{ loop.index }}/{{ loop.length }} {{ name }}{{ ', ' if not loop.last }}"
    loop = f"{{% for name, age in people | items if age %}}{line}{{% else %}}nobody{{% endfor %}}"
    assert rendered(loop, {"people": {"Ada": 36, "Bob": 0, "Eve": 7}}) == "1/2 Ada, 2/2 Eve"
    assert rendered(loop, {"people": "Ada"}) == rendered(loop) == "nobody"
    tests = "{% if x is defined and x is not none and x in ['a', 'b'] and not (x == 'b') %}a{% endif %}{{ x is string }}"
    assert [rendered(tests, {"x": each}) for each in ("a", "b", None)] == ["atrue", "true", "false"]


@requirement("S3-TP-3")
def test_filters_give_yaml_and_json_under_either_name() -> None:
    data = {"skills": [{"name": "read", "description": "two\nlines\n"}, {"name": "null", "n": [1, {}]}]}

    assert rendered("{{ skills | yaml.stringify }}", data) == (
        "- name: read\n  description: |\n    two\n    lines\n- name: 'null'\n  n:\n  - 1\n  - {}"
    )
    assert rendered("{{ skills | yaml }}", data) == rendered("{{ skills | yaml.stringify }}", data)
    assert rendered("{{ skills[1] | json }}", data) == '{\n  "name": "null",\n  "n": [\n    1,\n    {}\n  ]\n}'
    assert rendered("{{ skills | json.stringify }}", data) == rendered("{{ skills | json }}", data)
    assert rendered("{{ gone | yaml }}{{ word | yaml }}", {"word": "plain"}) == "plain"
    shared = ["same"]
    assert rendered("{{ twice | yaml }}", {"twice": [shared, shared]}) == "- - same\n- - same"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ gone | default('x') }}{{ empty | default('y') }}{{ empty | default('z', true) }}", "xz"),
        ("{{ words | join(', ') | upper }}", "A, B"),
        ("{{ words | length }}{{ gone | length }}{{ word | length }}", "204"),
        ("{{ words | first }}{{ words | last }}{{ gone | first }}", "ab"),
        ("{{ word | capitalize | trim }}{{ 'LOUD' | lower }}", "Wordloud"),
    ],
)
def test_plain_filters_take_any_value(text: str, expected: str) -> None:
    assert rendered(text, {"empty": "", "words": ["a", "b"], "word": "word"}) == expected


@requirement("S3-TP-4")
def test_an_include_is_relative_to_the_file_that_has_it() -> None:
    files = {
        "parts/rules.md": "Rules for {{ topic }}: {% include 'more/deep.md' %} {% include '../tail.md' %}",
        "parts/more/deep.md": "{% for each in list %}{{ each }}{% include '../../dot.md' %}{% endfor %}",
        "tail.md": "the end",
        "dot.md": "{{ each }}.",
    }
    text = "{% include 'parts/rules.md' %}!"

    template, faults = gathered("objective.md", text, files.__getitem__)

    assert not faults
    assert template.render({"topic": "tests", "list": [1, 2]}, str) == "Rules for tests: 11.22. the end!"
    assert template.variables() == {"topic", "list"}
    assert template.included == files


def test_what_is_wrong_with_an_include_is_told_with_file_and_line() -> None:
    files = {"a.md": "fine\n{% include 'b.md' %}", "b.md": "{% include 'a.md' %}\n{{ f() }}", "deep.md": "x"}

    def read(name: str) -> str:
        if name in files:
            return files[name]
        raise Unusable("there is no such file")

    _, faults = gathered("o.md", "{% include 'a.md' %}\n\n{% include 'gone.md' %}\n{% include 'b.md' %}", read)

    assert {(each.file, each.line, each.message) for each in faults} == {
        ("b.md", 1, "`a.md` includes itself"),
        ("b.md", 2, "a call is not allowed in a template"),
        ("o.md", 3, "`gone.md` cannot be included: there is no such file"),
    }
    files.update({f"{level}.md": f"{{% include '{level + 1}.md' %}}" for level in range(9)})
    _, [deep, *_] = gathered("", "{% include '0.md' %}", read)
    assert (deep.message, deep.hint) == ("`5.md` is one include too many", "includes may be 5 deep, of 100 files")


@requirement("S3-TP-5")
@pytest.mark.parametrize(
    "said",
    [
        "{{ secret }}",
        "{% include 'secret.md' %}",
        "{% for x in list %}{{ secret }}{% endfor %}",
        "{# gone? #}",
        "{% raw %}{{ secret }}{% endraw %}",
        "{{ '{{ secret }}' }}",
        "${SECRET} %(secret)s {secret} {0.__class__}",
    ],
)
def test_a_value_is_never_read_as_a_template(said: str) -> None:
    values = {"said": said, "state": {"tasks": [{"result": said}]}, "secret": "BURIED", "list": [1]}
    text = "{{ said }}|{% if said %}{{ said }}{% endif %}|{{ state.tasks[0].result | trim }}|{% include 'part.md' %}"

    assert rendered(text, values, {"part.md": "{{ said }}"}) == "|".join([said] * 4)
    assert "BURIED" not in rendered("{{ state | yaml }}{{ state | json }}{{ state }}", values)


def test_every_value_that_is_put_out_is_quoted_once_and_the_text_around_it_is_not() -> None:
    template = Template("", "<a>{{ x }}</a>{{ [x, x] | join('<i>') }}{% if x == '<b>' %}{{ x if x }}{% endif %}", {})

    assert template.render({"x": "<b>"}, lambda text: f"[{text}]") == "<a>[<b>]</a>[<b><i><b>][<b>]"


@pytest.mark.parametrize(
    "text",
    [
        "{% for a in x %}{% for b in x %}{% for c in x %}{% endfor %}{% endfor %}{% endfor %}",
        "{% for a in x %}{{ big }}{% endfor %}",
        "{% for a in x %}{% for b in x %}{% if big | yaml == a %}{% endif %}{% endfor %}{% endfor %}",
        "{% for a in x %}{% for b in x %}{% include 'n1' %}{% endfor %}{% endfor %}",
    ],
)
def test_rendering_comes_to_an_end(text: str) -> None:
    files = {"n1": "{% include 'n2' %}" * 10, "n2": "{% include 'n3' %}" * 10, "n3": ""}
    template, faults = gathered("bomb.md", text, files.__getitem__)
    assert not faults

    with pytest.raises(TooMuch, match="output of the template is too long"):
        template.render({"x": list(range(1000)), "big": [["x" * 5000]]}, str)
