"""Reading the manifest of requirements and the ids that tests name.

Owns: the shape of `tests/requirements/*.toml` and the scan of the test sources for `requirement(...)`.
Must not know: pytest. Tests are read as source, never imported, so one worker sees the marks of every test file.
Invariant: an id is defined once, and a mark that cannot be read from the source is an error rather than overlooked.
"""

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
TESTS = FOLDER.parent


class ManifestError(Exception):
    """The manifest or a mark is malformed; the message says where and what to write instead."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One row of the manifest."""

    id: str
    text: str
    file: Path
    planned: bool = False
    """No test proves it yet."""
    decision: bool = False
    """It settles a conflict between requirements, which have tests of their own; a test may name it but none must."""


@dataclass(frozen=True, slots=True)
class Named:
    """One place where a test names a requirement."""

    id: str
    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.id} in {self.file.relative_to(TESTS.parent)}:{self.line}"


def read_manifest() -> dict[str, Requirement]:
    """Every defined requirement by its id."""
    found: dict[str, Requirement] = {}

    for file in sorted(FOLDER.glob("*.toml")):
        for identifier, row in tomllib.loads(file.read_text(encoding="utf-8")).items():
            unknown = set(row) - {"text", "planned", "decision"}
            if unknown or not row.get("text"):
                raise ManifestError(f"`{identifier}` in {file.name} needs a `text` and allows `planned`, not {unknown}")
            if identifier in found:
                raise ManifestError(f"`{identifier}` is defined in {found[identifier].file.name} and in {file.name}")
            if not identifier.startswith(file.stem + "-"):
                raise ManifestError(f"`{identifier}` does not belong into {file.name}")

            found[identifier] = Requirement(id=identifier, file=file, **row)

    return found


def named_by_tests() -> list[Named]:
    """Every id that a test names, with the place."""
    return [named for file in sorted(TESTS.rglob("*.py")) for named in _named_in(file)]


def _named_in(file: Path) -> list[Named]:
    tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_mark(node.func)]
    return [_literal(argument, file) for call in calls for argument in call.args]


def _is_mark(function: ast.expr) -> bool:
    return isinstance(function, ast.Name) and function.id == "requirement"


def _literal(argument: ast.expr, file: Path) -> Named:
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return Named(argument.value, file, argument.lineno)

    raise ManifestError(
        f"`requirement` at {file.relative_to(TESTS.parent)}:{argument.lineno} is not given a string literal; "
        'write each id out, as in `@requirement("S2-CF-1")`'
    )
