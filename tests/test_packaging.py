"""What is installed is what was declared: the locks, the wheel's contents, the version and the changelog."""

import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.support.sources import PACKAGES, ROOT

OWN_LOCK = "requirements.lock"
THIRD_PARTY_LOCK = "tests/third_party/requirements.lock"
NPM_LOCK = "tests/third_party/package-lock.json"

PINNED = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>\S+)")


@cache
def project() -> dict[str, Any]:
    """The project file."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def text_of_lock(name: str) -> str:
    """The text of a lock."""
    return (ROOT / name).read_text(encoding="utf-8")


def pins(lock: str) -> dict[str, Version]:
    """The locked version of each distribution."""
    found = [PINNED.match(line) for line in lock.splitlines()]
    return {canonicalize_name(pin["name"]): Version(pin["version"]) for pin in found if pin}


def declared(lock: str) -> list[str]:
    """The requirements a lock was made from."""
    groups = project()["dependency-groups"]
    if lock == THIRD_PARTY_LOCK:
        return list(groups["third-party"])
    return [*project()["project"]["dependencies"], *groups["dev"], *project()["build-system"]["requires"]]


@pytest.mark.parametrize("lock", [OWN_LOCK, THIRD_PARTY_LOCK])
def test_a_lock_satisfies_every_declared_dependency(lock: str) -> None:
    locked = pins(text_of_lock(lock))

    broken = [
        text
        for text in declared(lock)
        if (wanted := Requirement(text)) and not wanted.specifier.contains(locked.get(canonicalize_name(wanted.name), "0"))
    ]

    assert not broken, f"`{lock}` does not hold {broken}; run `make lock`"


@pytest.mark.parametrize("folder", [".venv", ".servers"])
def test_what_locked_distributions_need_is_locked_too(folder: str) -> None:
    """They are installed without asking what they need: a release of tomorrow must not get in the way."""
    interpreter = ROOT / folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(interpreter), "check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("lock", [OWN_LOCK, THIRD_PARTY_LOCK])
def test_every_locked_version_has_a_hash_and_no_address(lock: str) -> None:
    text = text_of_lock(lock)
    blocks = re.split(r"\n(?=\S)", text)
    unhashed = [block.splitlines()[0] for block in blocks if PINNED.match(block) and "--hash=sha256:" not in block]

    assert not unhashed
    assert "://" not in text
    assert "--index" not in text


def test_the_lock_of_npm_holds_what_is_declared_with_hashes_and_no_address() -> None:
    text = text_of_lock(NPM_LOCK)
    packages = json.loads(text)["packages"]
    root = packages.pop("")

    assert root["dependencies"] == json.loads(text_of_lock("tests/third_party/package.json"))["dependencies"]
    assert all(f"node_modules/{name}" in packages for name in root["dependencies"])
    assert [name for name, package in packages.items() if not package["integrity"].startswith("sha512-")] == []
    assert "://" not in text


def test_the_wheel_holds_every_package_and_the_default_configuration() -> None:
    wheel = project()["tool"]["hatch"]["build"]["targets"]["wheel"]

    assert sorted(wheel["packages"]) == sorted(PACKAGES)
    assert all((ROOT / source).is_file() for source in wheel["force-include"])
    assert all((ROOT / package / "py.typed").is_file() for package in PACKAGES)


def test_the_changelog_knows_the_version_or_calls_it_unreleased() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert headings[0] == "Unreleased", "the first section of the changelog is `Unreleased`"
    assert headings[1:] == sorted(headings[1:], key=Version, reverse=True), "releases stand newest first"
    assert all(Version(heading) <= Version(project()["project"]["version"]) for heading in headings[1:])
