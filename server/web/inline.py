"""One classic script made of ES modules, and one style sheet of several: for documents that may load nothing.

Owns the order of the modules and how imports and exports become local names. Must not know: what a module does. Each module
becomes a function that returns its exports, so names of different modules cannot clash. Invariant: a form whose meaning
would change is refused: cycles, `import()`, `import.meta`, default exports, exported variables that may change.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from server.web.script_tokens import ScriptToken, Unreadable, compact, tokens

STATIC = Path(__file__).resolve().parent / "static"
DECLARING = frozenset({"function", "class", "const"})
CLOSING: Mapping[str, int] = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
_OURS = re.compile(r"\$\d+")
_RULES = re.compile(r"/\*.*?\*/", re.DOTALL)
_OUTSIDE = re.compile(r"@import|url\(\s*[\"']?(?!data:|#)|</style", re.IGNORECASE)


class NotInlinable(Exception):
    """A module or style sheet that cannot become a part of one script or sheet."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"cannot inline `{name}`: {reason}")


@cache
def inlined_script(entry: str) -> str:
    """The modules that `entry` reaches as one script; `entry` is a path below `js`. Made once in a process."""
    return script_of(STATIC / "js", entry)


@cache
def inlined_style(*sheets: str) -> str:
    """Style sheets in this order as one text; a name is a path below `css`. Made once in a process."""
    return style_of(STATIC / "css", sheets)


def script_of(folder: Path, entry: str) -> str:
    """The modules of a folder that `entry` reaches as one classic script; raises NotInlinable."""
    modules = _in_order(folder, entry)
    numbers = {name: number for number, name in enumerate(modules)}
    parts = [_wrapped(module, numbers, modules) for module in modules.values()]
    return '"use strict";(()=>{\n' + "\n".join(parts) + "\n})();\n"


def style_of(folder: Path, sheets: Sequence[str]) -> str:
    """Style sheets of a folder as one text without comments and indentation; raises NotInlinable."""
    parts: list[str] = []
    for name in sheets:
        rules = _RULES.sub("", (folder / name).read_text(encoding="utf-8"))
        outside = _OUTSIDE.search(rules)
        if outside is not None:
            raise NotInlinable(name, f"it has `{outside[0]}`")
        parts += [line.strip() for line in rules.splitlines() if line.strip()]
    return "\n".join(parts) + "\n"


@dataclass(slots=True)
class _Import:
    """Names of another module: pairs of its name and ours; `whole` is the name for all of them together."""

    source: str
    names: list[tuple[str, str]] = field(default_factory=list)
    whole: str | None = None


@dataclass(slots=True)
class _Module:
    """A module without its imports and exports, which are kept beside it."""

    name: str
    body: list[ScriptToken] = field(default_factory=list)
    imports: list[_Import] = field(default_factory=list)
    exports: dict[str, str] = field(default_factory=dict)
    """The local names by the exported ones."""


def _in_order(folder: Path, entry: str) -> dict[str, _Module]:
    """The modules by name, each after those it imports."""
    found: dict[str, _Module] = {}
    above: list[str] = []

    def visit(name: str) -> None:
        if name in found:
            return
        if name in above:
            raise NotInlinable(name, f"a cycle of imports: {' → '.join([*above[above.index(name) :], name])}")
        above.append(name)
        module = _read(folder, name)
        for each in module.imports:
            visit(each.source)
        above.pop()
        found[name] = module

    visit(entry)
    return found


def _read(folder: Path, name: str) -> _Module:
    try:
        text = (folder / name).read_text(encoding="utf-8")
    except OSError as error:
        raise NotInlinable(name, error.strerror or "it cannot be read") from None
    try:
        return _Reader(name, list(tokens(text))).module()
    except Unreadable as error:
        raise NotInlinable(name, str(error)) from None


class _Reader:
    """Reads the tokens of one module."""

    def __init__(self, name: str, given: list[ScriptToken]) -> None:
        self._module, self._tokens, self._at = _Module(name), given, 0

    def module(self) -> _Module:
        depth, before = 0, ""
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            if token.kind == "word" and before != ".":
                self._check(token)
                if depth == 0 and token.text in ("import", "export"):
                    self._at += 1
                    self._import() if token.text == "import" else self._export()
                    before = ";"
                    continue
            elif token.kind == "mark":
                depth += CLOSING.get(token.text, 0)
            if token.kind not in ("space", "comment"):
                before = token.text
            self._module.body.append(token)
            self._at += 1
        return self._module

    def _check(self, token: ScriptToken) -> None:
        if token.text == "import" and (behind := self._first(self._at + 1)) in ("(", "."):
            raise self._refused(f"it has `import{behind}`")
        if _OURS.fullmatch(token.text):
            raise self._refused(f"the name `{token.text}` is reserved for modules")

    def _import(self) -> None:
        """`import "x"`, `import {a, b as c} from "x"` or `import * as d from "x"`."""
        made = _Import("")
        if self._peek() == "{":
            made.names = self._names()
            self._take("from")
        elif self._peek() == "*":
            self._take("*")
            self._take("as")
            made.whole = self._next().text
            self._take("from")
        made.source = self._source()
        self._module.imports.append(made)

    def _export(self) -> None:
        """A declaration, which stays, or a list of names, perhaps of another module."""
        if self._peek() == "{":
            names = self._names()
            if self._peek() == "from":
                self._take("from")
                hidden = [(name, f"$_{name}_{len(self._module.imports)}") for name, _ in names]
                self._module.imports.append(_Import(self._source(), hidden))
                names = [(ours, public) for (_, ours), (_, public) in zip(hidden, names, strict=True)]
            elif self._peek() == ";":
                self._take(";")
            self._module.exports |= {public: local for local, public in names}
            return
        ahead = [token.text for token in self._tokens[self._at :] if token.kind not in ("space", "comment")][:4]
        words = [text for text in ahead if text not in ("async", "*")]
        if words[0] not in DECLARING or not words[1].isidentifier():
            raise self._refused(f"it exports by `export {' '.join(ahead[:2])}`")
        self._module.exports[words[1]] = words[1]

    def _names(self) -> list[tuple[str, str]]:
        """`{a, b as c}` as pairs."""
        self._take("{")
        found: list[tuple[str, str]] = []
        while (first := self._next().text) != "}":
            second = first
            if self._peek() == "as":
                self._take("as")
                second = self._next().text
            found.append((first, second))
            if self._peek() == ",":
                self._take(",")
        return found

    def _source(self) -> str:
        token = self._next()
        address = token.text[1:-1]
        if token.kind != "text" or not address.startswith("."):
            raise self._refused(f"it imports `{token.text}`, which is no relative path")
        if self._peek() == ";":
            self._take(";")
        return posixpath.normpath(posixpath.join(posixpath.dirname(self._module.name), address))

    def _peek(self) -> str:
        return self._first(self._at)

    def _first(self, start: int) -> str:
        """The first token from `start` on that is neither space nor comment."""
        return next((each.text for each in self._tokens[start:] if each.kind not in ("space", "comment")), "")

    def _next(self) -> ScriptToken:
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token.kind not in ("space", "comment"):
                return token
        raise self._refused("it ends within an import or export")

    def _take(self, expected: str) -> None:
        token = self._next()
        if token.text != expected:
            raise self._refused(f"`{token.text}` stands where `{expected}` was expected")

    def _refused(self, reason: str) -> NotInlinable:
        return NotInlinable(self._module.name, reason)


def _wrapped(module: _Module, numbers: Mapping[str, int], modules: Mapping[str, _Module]) -> str:
    """A module as a function that is called at once, under the name of its number."""
    lines: list[str] = []
    for each in module.imports:
        there = f"${numbers[each.source]}"
        missing = [name for name, _ in each.names if name not in modules[each.source].exports]
        if missing:
            raise NotInlinable(module.name, f"`{each.source}` does not export `{missing[0]}`")
        if each.whole is not None:
            lines.append(f"const {each.whole}={there};")
        if each.names:
            lines.append(f"const{{{_pairs(each.names)}}}={there};")
    lines.append(compact(module.body))
    if module.exports:
        lines.append(f"return{{{_pairs((name, local) for name, local in module.exports.items())}}};")
    body = "\n".join(line for line in lines if line)
    return f"const ${numbers[module.name]}=(()=>{{\n{body}\n}})();"


def _pairs(names: Iterable[tuple[str, str]]) -> str:
    return ",".join(first if first == second else f"{json.dumps(first)}:{second}" for first, second in names)
