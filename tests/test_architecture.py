"""The rules of the house that a machine can check: sizes, names, direction, words.

Import contracts between and inside the packages are import-linter's; these tests add what it does not see.
"""

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.requirement import requirement
from tests.support.sources import (
    PACKAGES,
    ROOT,
    find_cycle,
    import_graph,
    module_name,
    package_graph,
    python_files,
    relative,
    repository_files,
    syntax_of,
    text_of,
)

MODULE_LINES = 500
LEAST_LINES = 60
"""Of a module with a single importer: a smaller one belongs to the story of that importer."""
FUNCTION_LINES = 60
FOLDER_MODULES = 25
FLAT_FILES = 15
"""Of `runner`: its vocabulary."""
FIELDS = 16
"""Of the widest object of the core."""

ALONE: dict[str, str] = {
    "outrider_sre/label_selector.py": "a small language, as its neighbours are",
    "runner/compaction/shorten.py": "shortens for a budget, its neighbours for a context window",
    "runner/strategies/synthesis.py": "a strategy",
    "server/cli/run.py": "a command",
    "server/cli/watch.py": "a command",
}
"""Small modules with a single importer that stand alone, and why."""
TWO_MEANINGS: dict[str, str] = {
    "Entry": "outrider_sre is a world of its own, and the names of its answers are part of its tools",
    "Node": "the MCP face shows its name in an output schema",
    "Point": "as Entry",
    "QueryAnswer": "as Entry",
    "Usage": "as Node",
}
"""Class names with two meanings that stay, and why."""
FORBIDDEN_IN_FILE_NAMES = {"base", "common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}

ASYNCIO_ALLOWED = {"tests/costs/still_loop.py": "it is an event loop, for counts that are the same in every run"}
"""File and reason. anyio is the one dialect of concurrency here."""

# Built from pieces so that this file does not break its own rules.
UNFINISHED = re.compile(
    r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", r"(?<!::)place" + r"holder(?!:)"]) + r")\b"
)
MACHINE_FOLDERS = "|".join(["wo" + "rk", "ro" + "ot", "ho" + "me", "Us" + "ers"])
MACHINE_PATH = re.compile(rf"(?<![\w.$}}/~-])/({MACHINE_FOLDERS})/\w")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(file: Path) -> Iterator[Function]:
    """Every function of a file, nested ones and methods included."""
    return (node for node in ast.walk(syntax_of(file)) if isinstance(node, Function))


def fields_of(node: ast.ClassDef) -> int:
    """How many fields a class has: annotated ones, its slots, or what its `__init__` sets."""
    annotated = sum(isinstance(each, ast.AnnAssign) for each in node.body)
    slots = [
        len(each.value.elts)
        for each in node.body
        if isinstance(each, ast.Assign)
        and isinstance(each.value, ast.Tuple)
        and ast.unparse(each.targets[0]) == "__slots__"
    ]
    made = {
        target.attr
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
        for each in ast.walk(method)
        for target in assigned(each)
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
    }
    return max(annotated, len(made), *slots, 0)


def assigned(node: ast.AST) -> list[ast.expr]:
    """What a statement assigns to, tuples taken apart."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [each for target in targets for each in (target.elts if isinstance(target, ast.Tuple) else [target])]


def imported_names(file: Path) -> Iterator[str]:
    """The dotted names a file imports, wherever in it."""
    for node in ast.walk(syntax_of(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def order_in_all(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, each by name: the order ruff gives to `__all__`."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def lines_matching(pattern: re.Pattern[str]) -> list[str]:
    """Where in the repository a pattern occurs, as file:line."""
    return [
        f"{relative(file)}:{number}"
        for file in repository_files()
        for number, line in enumerate((text_of(file) or "").splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_module_is_longer_than_five_hundred_lines() -> None:
    long = {relative(file): size for file in python_files() if (size := len(file.read_bytes().splitlines())) > MODULE_LINES}

    assert not long, f"split these by noun: {long}"


def test_a_small_module_has_several_importers() -> None:
    graph = import_graph(inside_functions=True)
    importers = {name: [each for each, targets in graph.items() if name in targets] for name in graph}
    small = {
        relative(file): importers[module_name(file)]
        for file in python_files(*PACKAGES)
        if not file.name.startswith("__") and len(file.read_bytes().splitlines()) < LEAST_LINES
    }

    lonely = {name: users for name, users in small.items() if len(users) == 1 and name not in ALONE}
    assert not lonely, f"merge each with its one importer: {lonely}"
    assert set(ALONE) <= set(small), "an exception that is not needed any more"


def test_a_folder_of_the_runner_can_be_taken_in_at_a_glance() -> None:
    folders: dict[str, int] = {}
    for file in python_files("runner"):
        folder = relative(file.parent)
        folders[folder] = folders.get(folder, 0) + 1

    assert {name: count for name, count in folders.items() if count > FOLDER_MODULES} == {}
    assert folders["runner"] <= FLAT_FILES


def test_no_object_of_the_core_is_wide() -> None:
    wide = {
        f"{relative(file)} {node.name}": count
        for file in python_files("runner")
        for node in ast.walk(syntax_of(file))
        if isinstance(node, ast.ClassDef) and (count := fields_of(node)) > FIELDS
    }

    assert not wide, f"group what changes together: {wide}"


def test_a_class_name_has_one_meaning() -> None:
    homes: dict[str, list[str]] = {}
    for file in python_files(*PACKAGES):
        for node in syntax_of(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(relative(file))

    shared = {name: files for name, files in homes.items() if len(files) > 1 and name not in TWO_MEANINGS}
    assert not shared, f"rename all but one of each: {shared}"
    assert all(len(homes.get(name, ())) > 1 for name in TWO_MEANINGS), "an exception that is not needed any more"


def test_no_function_is_longer_than_sixty_lines() -> None:
    long = [
        f"{relative(file)}:{function.lineno} {function.name}: {size}"
        for file in python_files()
        for function in functions(file)
        if (size := (function.end_lineno or function.lineno) - function.lineno + 1) > FUNCTION_LINES
    ]

    assert not long, f"split these: {long}"


def test_every_module_says_what_it_owns() -> None:
    modules = [file for file in python_files() if syntax_of(file).body and not file.name.startswith("test_")]

    silent = [relative(file) for file in modules if ast.get_docstring(syntax_of(file)) is None]

    assert not silent, f"begin with a docstring (what it owns, what it must not know, its invariant): {silent}"


def test_no_module_imports_itself_by_way_of_others() -> None:
    cycle = find_cycle(import_graph(inside_functions=True))

    assert cycle is None, f"import cycle: {' → '.join(cycle or [])}"


def test_late_imports_do_not_turn_the_direction_between_packages_round() -> None:
    cycle = find_cycle(package_graph(import_graph(inside_functions=True)))

    assert cycle is None, f"packages import each other, some of it inside functions: {' → '.join(cycle or [])}"


def test_a_cycle_would_be_found() -> None:
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c", "a"]
    assert find_cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def test_the_tests_are_packages_so_that_they_cannot_shadow_ours() -> None:
    folders = {folder for file in python_files("tests") for folder in file.parents if folder.is_relative_to(ROOT / "tests")}

    missing = [relative(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()]

    assert (ROOT / "tests" / "__init__.py").is_file()
    assert not missing, f"`tests/server` without `__init__.py` would be imported as `server`; add one to {missing}"


@pytest.mark.parametrize("package", PACKAGES)
def test_the_public_names_of_a_package_are_sorted_and_exist(package: str) -> None:
    module = importlib.import_module(package)
    public: list[str] = list(getattr(module, "__all__", []))

    assert public == sorted(public, key=order_in_all), f"sort `__all__` of `{package}`: CONSTANTS, Classes, functions"
    assert len(public) == len(set(public)), f"`__all__` of `{package}` names something twice"
    assert [name for name in public if not hasattr(module, name)] == []


def test_files_are_named_by_the_noun_they_own() -> None:
    vague = [
        relative(file)
        for file in python_files()
        if FORBIDDEN_IN_FILE_NAMES & set(re.split(r"[_\W]+", "_".join(file.relative_to(ROOT).with_suffix("").parts)))
    ]

    assert not vague, f"say what these are about: {vague}"


def test_concurrency_is_anyio_alone() -> None:
    users = {
        relative(file)
        for file in python_files()
        for name in imported_names(file)
        if name == "asyncio" or name.startswith("asyncio.")
    }

    assert users <= ASYNCIO_ALLOWED.keys(), f"use anyio in {sorted(users - ASYNCIO_ALLOWED.keys())}"
    assert users >= ASYNCIO_ALLOWED.keys(), f"no longer needed: {sorted(ASYNCIO_ALLOWED.keys() - users)}"


@requirement("S2-LE-21")
def test_tests_wait_for_events_and_never_sleep() -> None:
    sleeping = [
        f"{relative(file)}:{node.lineno}"
        for file in python_files("tests")
        for node in ast.walk(syntax_of(file))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"time.sleep", "anyio.sleep", "asyncio.sleep", "sleep"}
    ]

    assert not sleeping, f"wait for an event, within `anyio.fail_after`: {sleeping}"


def test_nothing_is_left_unfinished() -> None:
    assert not (places := lines_matching(UNFINISHED)), f"finish or remove: {places}"


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    assert not (places := lines_matching(MACHINE_PATH)), f"paths of one machine: {places}"


def test_a_path_of_a_machine_would_be_found() -> None:
    assert MACHINE_PATH.search("cd /ho" + "me/someone")
    assert not MACHINE_PATH.search("https://example.org/ho" + "me/page")


def test_every_folder_of_python_is_type_checked() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    folders = {file.relative_to(ROOT).parts[0] for file in python_files()}

    assert folders <= set(tools["mypy"]["files"]), "name the folder in `tool.mypy.files` of pyproject.toml"
    assert folders <= set(tools["pyright"]["include"]), "name the folder in `tool.pyright.include` of pyproject.toml"
