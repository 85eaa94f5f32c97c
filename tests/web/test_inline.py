"""One script of the modules does what the modules do, and may stand in a document that loads nothing."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from server.web.inline import STATIC, NotInlinable, inlined_script, script_of, style_of
from server.web.script_tokens import tokens
from tests.third_party.place import installed
from tests.web.inlined import inlined_copy

NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}
"""Names that look like addresses; no browser loads them."""


def ran(script: str) -> str:
    """The standard output of a classic script in node."""
    command = [*installed("bin/node"), "--eval", f"require('node:vm').runInThisContext({json.dumps(script)})"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def written(folder: Path, **modules: str) -> Path:
    for name, text in modules.items():
        (folder / f"{name}.js").write_text(text, encoding="utf-8")
    return folder


def all_modules() -> list[str]:
    return sorted(file.relative_to(STATIC / "js").as_posix() for file in (STATIC / "js").rglob("*.js"))


def test_the_tests_of_the_modules_pass_against_the_inlined_script(tmp_path: Path) -> None:
    tested = inlined_copy(tmp_path)

    command = [*installed("bin/node"), "--disable-warning=MODULE_TYPELESS_PACKAGE_JSON", "--test", "--test-reporter=tap"]
    done = subprocess.run(
        [*command, f"{tmp_path}/tests/web/js/**/*.test.js"], capture_output=True, text=True, check=False, timeout=300
    )

    assert "sources/event_stream.js" in tested
    assert done.returncode == 0, done.stdout[-4000:]
    assert re.search(r"^# pass [1-9]", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("name", all_modules())
def test_every_module_can_be_inlined_without_import_address_or_end_of_script(name: str) -> None:
    made = inlined_script(name)

    words = [token.text for token in tokens(made) if token.kind == "word"]
    assert not {"import", "export"} & set(words)
    assert set(re.findall(r"https?://[^\"'`\s]*", made)) <= NAMESPACES
    assert "</script" not in made.lower()
    assert "<!--" not in made


def test_names_of_different_modules_do_not_clash(tmp_path: Path) -> None:
    folder = written(
        tmp_path,
        a='const own = "a"; export function say() { return own; }',
        b='import { say as other } from "./a.js"; const own = "b"; export const say = () => own + other();',
        c='export { say } from "./b.js"; import * as a from "./a.js"; export const both = a.say() + "!";',
        main='import { say, both } from "./c.js"; console.log(say(), both);',
    )

    assert ran(script_of(folder, "main.js")) == "ba a!\n"


def test_a_module_that_two_others_import_runs_once_and_before_them(tmp_path: Path) -> None:
    folder = written(
        tmp_path,
        a='console.log("a"); export const seen = [];',
        b='import { seen } from "./a.js"; seen.push("b");',
        c='import { seen } from "./a.js"; seen.push("c");',
        main='import "./b.js"; import "./c.js"; import { seen } from "./a.js"; console.log(seen.join());',
    )

    assert ran(script_of(folder, "main.js")) == "a\nb,c\n"


def test_texts_templates_and_patterns_keep_what_looks_like_comments(tmp_path: Path) -> None:
    module = r"""
    const half = 6 / 2 /* three */ / 1; // not a pattern
    const parts = ["// no", '/* no */', `/* ${ "`" + `${half}` /* gone */ } // */`, /[/"'`]\/\*/g.source, "</script>"];
    console.log(JSON.stringify([...parts, "<!-- <script", half + +half - -half]));
    """
    made = script_of(written(tmp_path, main=module), "main.js")

    expected = r"""["// no","/* no */","/* `3 // */","[/\"'`]\\/\\*","</script>","<!-- <script",9]"""
    assert ran(made) == f"{expected}\n"
    assert "</script" not in made
    assert "not a pattern" not in made


@pytest.mark.parametrize(
    ("modules", "reason"),
    [
        ({"main": 'import "./a.js";', "a": 'import "./main.js";'}, "a cycle of imports: main.js → a.js → main.js"),
        ({"main": 'const later = import("./a.js");'}, r"it has `import\(`"),
        ({"main": "console.log(import.meta.url);"}, r"it has `import\.`"),
        ({"main": "export default 1;"}, "it exports by `export default 1`"),
        ({"main": "export let count = 0;"}, "it exports by `export let count`"),
        ({"main": 'export * from "./a.js";', "a": ""}, r"it exports by `export \* from`"),
        ({"main": 'import { b } from "./a.js";', "a": "const b = 1;"}, "`a.js` does not export `b`"),
        ({"main": 'import a from "./a.js";', "a": ""}, "`a` stands where|it imports"),
        ({"main": 'import { a } from "preact";'}, 'it imports `"preact"`, which is no relative path'),
        ({"main": 'import "./gone.js";'}, "No such file"),
        ({"main": "const $1 = 2;"}, r"the name `\$1` is reserved"),
        ({"main": "const a = `open"}, "a template does not end"),
        ({"main": 'const a = "open'}, "no token begins with"),
    ],
)
def test_what_would_change_its_meaning_is_refused(tmp_path: Path, modules: dict[str, str], reason: str) -> None:
    with pytest.raises(NotInlinable, match=f"cannot inline `.*`: .*{reason}"):
        script_of(written(tmp_path, **modules), "main.js")


def test_style_sheets_become_one_text_that_loads_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("/* why */\nbody {\n  color: red;\n}\n", encoding="utf-8")
    (tmp_path / "b.css").write_text("i {\n  background: url(data:image/png;base64,AA);\n}\n", encoding="utf-8")
    (tmp_path / "c.css").write_text("i { background: url(https://example.com/a.png); }\n", encoding="utf-8")

    assert style_of(tmp_path, ["a.css", "b.css"]) == (
        "body {\ncolor: red;\n}\ni {\nbackground: url(data:image/png;base64,AA);\n}\n"
    )
    with pytest.raises(NotInlinable, match=r"cannot inline `c.css`: it has `url\(`"):
        style_of(tmp_path, ["c.css"])
