"""Attacks on templates: none leaves the folder of the configuration, none runs anything, none goes on for ever."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from registry.text.sources import TemplateEntry, TemplateSource, Texts
from registry.text.templates import gathered
from tests.support.requirement import requirement

SECRET = "BURIED-TREASURE"

CODE = [
    "{{ f() }}",
    "{{ x() }}",
    "{{ x.items() }}",
    "{{ ''.join(x) }}",
    "{{ ''.format(x) }}",
    "{{ '{0.__class__}'.format(x) }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ self.__init__.__globals__.__builtins__.open('../secret.md').read() }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ lipsum.__globals__['os'].system('id') }}",
    "{{ range(10) }}",
    "{{ range(10 ** 12) | list }}",
    "{{ namespace(a=1) }}",
    "{{ dict(a=1) }}",
    "{{ joiner()() }}",
    "{{ caller() }}",
    "{{ super() }}",
    "{{ loop.cycle('a', 'b') }}",
    "{% for a in x recursive %}{{ loop(a) }}{% endfor %}",
    "{{ x | attr('__class__') }}",
    "{{ x | map(attribute='__class__') | list }}",
    "{{ x | map('upper') }}",
    "{{ x | selectattr('__class__') }}",
    "{{ x | groupby('a') }}",
    "{{ x | sort(attribute='__class__') }}",
    "{{ x | xmlattr }}",
    "{{ x | tojson | safe }}",
    "{{ x | pprint }}",
    "{{ x | format(1) }}",
    "{{ '%s' | format(x) }}",
    "{{ x | replace('a', 'b') }}",
    "{{ x | indent(1000000000) }}",
    "{{ x | center(1000000000) }}",
    "{{ x | batch(3) }}",
    "{{ x | random }}",
    "{{ x | urlize }}",
    "{{ x | yaml.load }}",
    "{{ x | json.parse }}",
    "{{ x | os.system }}",
    "{{ x | join(y) }}",
    "{{ x | join(attribute='__class__') }}",
    "{{ x | join(*y) }}",
    "{{ x | join(**y) }}",
    "{{ x | default(y()) }}",
    "{{ x | yaml(1) }}",
    "{% filter upper %}{{ x }}{% endfilter %}",
    "{{ x is callable }}",
    "{{ x is sameas y }}",
    "{{ x is divisibleby(0) }}",
    "{{ x is filter }}",
    "{{ x is eq(y) }}",
    "{% set a = 1 %}",
    "{% set a %}b{% endset %}",
    "{% set x.y = 1 %}",
    "{% with a = 1 %}{% endwith %}",
    "{% macro m() %}{% endmacro %}",
    "{% call m() %}{% endcall %}",
    "{% import 'inside.md' as m %}",
    "{% from 'inside.md' import m %}",
    "{% extends 'inside.md' %}",
    "{% block b %}{% endblock %}",
    "{% autoescape false %}{% endautoescape %}",
    "{% do x.append(1) %}",
    "{% debug %}",
    "{% trans %}a{% endtrans %}",
    "{% break %}",
    "{% python %}import os{% endpython %}",
    "{{ 9 ** 9 ** 9 }}",
    "{{ 'a' * 1000000000 }}",
    "{{ 1 + 1 }}",
    "{{ 1 / 0 }}",
    "{{ 1 % 0 }}",
    "{{ 'a' ~ x }}",
    "{{ -x }}",
    "{{ x[1:] }}",
    "{{ {'a': x} }}",
    "{{ x for x in y }}",
    "{{ x; y }}",
    "{{ lambda: 1 }}",
    "{{ x if }}",
    "{{ x",
    "{% if x %}",
    "{% endif %}",
    "{# never closed",
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "{{ " + "[" * 200 + "]" * 200 + " }}",
    "{{ x" + ".y" * 5000 + " }}",
    "{{ x" + " and x" * 5000 + " }}",
    "{{ x" + " | upper" * 5000 + " }}",
    "{{ " + "not " * 5000 + "x }}",
    "{{ " + "9" * 10_000 + " }}",
    "{% if x %}" * 100 + "{% endif %}" * 100,
    "{% for a in x %}" * 100 + "{% endfor %}" * 100,
    "{% for a in x %}{% for a.b in a %}{% endfor %}{% endfor %}",
    "{% for (a, (b, c)) in x %}{% endfor %}",
]
"""What would run something, or has no end: refused when it is read."""

PATHS = [
    "../secret.md",
    "./../secret.md",
    "inside/../../secret.md",
    "inside/../inside/../../secret.md",
    "..",
    "../",
    ".",
    "/etc/passwd",
    "//etc/passwd",
    "/../secret.md",
    "{outside}",
    "file://{outside}",
    "file:secret.md",
    "http://127.0.0.1:9/secret.md",
    "C:secret.md",
    "C:/secret.md",
    "c:\\\\secret.md",
    "\\\\\\\\host\\\\share\\\\secret.md",
    "..\\\\secret.md",
    "inside\\\\..\\\\..\\\\secret.md",
    "%2e%2e/secret.md",
    "..%2fsecret.md",
    "..%c0%afsecret.md",
    "．．/secret.md",
    "‥/secret.md",
    ".../secret.md",
    "~/secret.md",
    "$HOME/secret.md",
    "../secret.md\\0.md",
    "inside.md/../../secret.md",
    "link.md",
    "folder-link/secret.md",
    "inside/../folder-link/secret.md",
    "chain.md",
    "circle.md",
    "pipe",
    "folder",
    "device",
    "",
    " ",
    "..\\n/secret.md",
]
"""Where a secret lies, or nothing at all: none of it is ever read."""

INERT = [
    "{{ ''.__class__ }}",
    "{{ x.__class__.__mro__ }}",
    "{{ x['__class__'] }}",
    "{{ x.__dict__.secret }}",
    "{{ x.keys }}{{ x.items }}{{ x.pop }}",
    "{{ word.upper }}{{ word.format }}{{ word.__doc__ }}",
    "{{ list.append }}{{ list[99] }}{{ list['0'] }}{{ list[word] }}",
    "{{ self }}{{ super }}{{ caller }}{{ varargs }}{{ kwargs }}",
    "{{ config }}{{ request }}{{ environ }}{{ os }}",
    "{{ range }}{{ dict }}{{ lipsum }}{{ cycler }}{{ joiner }}{{ namespace }}",
    "{{ __import__ }}{{ __builtins__ }}{{ _ }}",
    "{{ loop }}{{ loop._iterator }}{{ loop.previtem }}",
    "{{ x[x] }}{{ x[list] }}{{ list[x] }}",
    "{{ none.a }}{{ (1).real }}{{ 1.5.hex }}{{ true.numerator }}",
]
"""What looks for a way out and finds that values have none."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a configuration, with a secret outside of it and every kind of way there."""
    above = tmp_path_factory.mktemp("above")
    above.joinpath("secret.md").write_text(SECRET, encoding="utf-8")
    above.joinpath("elsewhere").mkdir()
    above.joinpath("elsewhere", "secret.md").write_text(SECRET, encoding="utf-8")
    folder = above / "root"
    folder.joinpath("folder").mkdir(parents=True)
    folder.joinpath("inside").mkdir()
    folder.joinpath("inside.md").write_text("{{ x }}", encoding="utf-8")
    folder.joinpath("link.md").symlink_to(above / "secret.md")
    folder.joinpath("folder-link").symlink_to(above / "elsewhere")
    folder.joinpath("chain.md").symlink_to(folder / "link.md")
    folder.joinpath("circle.md").symlink_to(folder / "circle.md")
    folder.joinpath("device").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe")
    return folder


def entry(written: object, root: Path) -> TemplateEntry:
    """Read a template as a configuration in that folder does."""
    return TypeAdapter(TemplateSource).validate_python(written, context=Texts(root))


@pytest.mark.parametrize("text", CODE, ids=lambda text: text[:60])
def test_a_template_that_would_run_something_is_refused_when_it_is_read(text: str, root: Path) -> None:
    faults = entry(text, root).faults

    assert faults
    assert all(fault.line == 1 and fault.message for fault in faults)


@requirement("S3-TP-4")
@pytest.mark.parametrize("path", PATHS, ids=ascii)
def test_no_path_leads_out_of_the_folder(path: str, root: Path) -> None:
    name = path.replace("{outside}", str(root.parent / "secret.md"))

    included = entry(f'{{% include "{name}" %}}', root)
    with pytest.raises(ValidationError) as caught:
        entry({"url": name.encode().decode("unicode_escape") if name.isascii() else name}, root)

    assert included.faults
    assert SECRET not in str(included.template)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("text", ["{% include x %}", "{% include x.y %}", "{% include ['inside.md', 'b'] %}",
                                  "{% include 'a' ~ x %}", "{% include 'inside.md' if x %}", "{% include x | trim %}",
                                  "{% include 'inside.md' ignore missing %}", "{% include 1 %}",
                                  "{% include 'inside.md' without context %}"])  # fmt: skip
def test_only_a_file_that_is_named_in_the_template_can_be_included(text: str, root: Path) -> None:
    assert entry(text, root).faults


@pytest.mark.parametrize("text", INERT)
def test_a_value_has_nothing_but_its_members(text: str, root: Path) -> None:
    read = entry(text, root)

    values: Mapping[str, Any] = {"x": {"a": 1}, "word": "word", "list": [1, 2]}
    assert not read.faults
    assert read.template.render(values, str) == ""


def test_includes_that_multiply_are_read_once_each() -> None:
    read: list[str] = []

    def text_of(name: str) -> str:
        read.append(name)
        level = int(name)
        return f"{{% include '{level + 1}' %}}" * 50 if level < 5 else ""

    template, faults = gathered("", "{% include '1' %}" * 50, text_of)

    assert (read, faults, template.variables()) == (["1", "2", "3", "4", "5"], [], frozenset())
