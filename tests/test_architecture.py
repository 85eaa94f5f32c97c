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
    package_graph,
    python_files,
    relative,
    repository_files,
    syntax_of,
    text_of,
)

MODULE_LINES = 500
FUNCTION_LINES = 60
FORBIDDEN_IN_FILE_NAMES = {"base", "common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}

ASYNCIO_ALLOWED: dict[str, str] = {}
"""File and reason. anyio is the one dialect of concurrency here."""

# Built from pieces so that this file does not break its own rules.
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", "place" + "holder"]) + r")\b")
MACHINE_FOLDERS = "|".join(["wo" + "rk", "ro" + "ot", "ho" + "me", "Us" + "ers"])
MACHINE_PATH = re.compile(rf"(?<![\w.$}}/~-])/({MACHINE_FOLDERS})/\w")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(file: Path) -> Iterator[Function]:
    """Every function of a file, nested ones and methods included."""
    return (node for node in ast.walk(syntax_of(file)) if isinstance(node, Function))


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
    cycle = find_cycle(import_graph(inside_functions=False))

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
