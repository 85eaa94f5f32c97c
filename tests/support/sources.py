"""The repository read as text and syntax, for the tests of its architecture.

Owns: the list of files in the repository, and the graph of imports between its modules.
Must not know: any rule; `tests/test_architecture.py` states them.
Invariant: no module is imported or run; files that git ignores are not part of the repository.
"""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("db", "outrider", "outrider_sre", "registry", "runner", "server")
"""The packages in the wheel."""

Graph = dict[str, set[str]]


@cache
def repository_files() -> tuple[Path, ...]:
    """Every file that git tracks or would track; without git (an unpacked archive), every file that is not hidden."""
    git = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        encoding="utf-8",
    )
    if git.returncode == 0:
        candidates = [ROOT / name for name in git.stdout.split("\0") if name]
    else:
        candidates = [file for file in ROOT.rglob("*") if not any(part.startswith(".") for part in _parts(file))]

    return tuple(sorted(file for file in candidates if file.is_file() and "__pycache__" not in file.parts))


def python_files(*folders: str) -> list[Path]:
    """The Python files below these folders; by default all."""
    return [file for file in repository_files() if file.suffix == ".py" and (not folders or _parts(file)[0] in folders)]


def relative(file: Path) -> str:
    """The path of a file relative to the repository, with slashes."""
    return file.relative_to(ROOT).as_posix()


@cache
def text_of(file: Path) -> str | None:
    """The text of a file; None if it is not UTF-8."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


@cache
def syntax_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=relative(file))


def module_name(file: Path) -> str:
    """The dotted name of a file."""
    parts = list(_parts(file.with_suffix("")))
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph(*, inside_functions: bool) -> Graph:
    """The imports between the modules of our packages, including those under TYPE_CHECKING: a reader follows them too.

    Imports inside functions are included on request.
    """
    files = python_files(*PACKAGES)
    names = {module_name(file) for file in files}
    return {module_name(file): _imported(file, names, inside_functions=inside_functions) for file in files}


def package_graph(graph: Graph) -> Graph:
    """The graph of imports between the top-level packages."""
    packages: Graph = {}
    for name, targets in graph.items():
        packages.setdefault(name.partition(".")[0], set()).update(target.partition(".")[0] for target in targets)

    return {name: targets - {name} for name, targets in packages.items()}


def find_cycle(graph: Graph) -> list[str] | None:
    """A cycle, with its first node repeated at the end; None if there is none."""
    finished: set[str] = set()

    def walk(name: str, path: list[str]) -> list[str] | None:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in finished:
            return None

        for target in sorted(graph.get(name, ())):
            cycle = walk(target, [*path, name])
            if cycle:
                return cycle

        finished.add(name)
        return None

    return next((cycle for name in sorted(graph) if (cycle := walk(name, []))), None)


def _parts(file: Path) -> tuple[str, ...]:
    return file.relative_to(ROOT).parts


def _imported(file: Path, names: set[str], *, inside_functions: bool) -> set[str]:
    found: set[str] = set()
    for statement in _imports(syntax_of(file), inside_functions=inside_functions):
        if isinstance(statement, ast.Import):
            found.update(alias.name for alias in statement.names)
        else:
            source = statement.module or ""
            submodules = {f"{source}.{alias.name}" for alias in statement.names}
            found.update(submodules & names)
            if submodules - names:
                found.add(source)

    return (found & names) - {module_name(file)}


def _imports(node: ast.AST, *, inside_functions: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif inside_functions or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _imports(child, inside_functions=inside_functions)
