"""The tests of the modules, copied so that they run against one inlined script instead.

Owns: a folder that looks like the repository to those tests. Each module there only names what the script has of it.
Must not know: any module. Invariant: the script runs as a classic script, as a browser runs it in a document.
"""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from server.web.inline import STATIC, script_of
from tests.support.sources import ROOT

TESTS = ROOT / "tests" / "web" / "js"
MODULES = STATIC / "js"
_IMPORT = re.compile(r'from "((?:\.\./)+server/web/static/js/([^"]+))"')
_EXPORT = re.compile(r"^export (?:async )?(?:function\*?|class|const) (\w+)", re.MULTILINE)


def inlined_copy(folder: Path) -> Sequence[str]:
    """Write the tests and the script they run against below `folder`; the modules that are tested."""
    tests, there = folder / "tests" / "web" / "js", folder / "server" / "web" / "static" / "js"
    shutil.copytree(TESTS, tests)
    shutil.copytree(MODULES, there)
    tested = sorted({name for file in tests.rglob("*.js") for _, name in _IMPORT.findall(file.read_text("utf-8"))})
    everything = [f'import * as m{number} from "./{name}";' for number, name in enumerate(tested)]
    everything += [f"globalThis.inlined = {{{', '.join(f'm{number}' for number in range(len(tested)))}}};"]
    (there / "everything.js").write_text("\n".join(everything), "utf-8")
    (folder / "script.cjs").write_text(
        'const { readFileSync } = require("node:fs");\n'
        f'require("node:vm").runInThisContext(readFileSync("{folder}/script.js", "utf8"));\n',
        "utf-8",
    )
    (folder / "script.js").write_text(script_of(there, "everything.js"), "utf-8")
    for file in there.rglob("*.js"):
        file.unlink()
    for number, name in enumerate(tested):
        names = ", ".join(_EXPORT.findall((MODULES / name).read_text("utf-8")))
        text = f'import "{folder}/script.cjs";\nexport const {{ {names} }} = globalThis.inlined.m{number};\n'
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).write_text(text, "utf-8")
    return tested
