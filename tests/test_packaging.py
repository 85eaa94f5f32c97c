"""What is installed is what was declared: the lock, the wheel's contents, the version and the changelog."""

import re
import tomllib
from functools import cache
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.support.sources import PACKAGES, ROOT

PINNED = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>\S+)")


@cache
def project() -> dict[str, Any]:
    """The project file."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def lock() -> str:
    """The text of the lock."""
    return (ROOT / "requirements.lock").read_text(encoding="utf-8")


def pins() -> dict[str, Version]:
    """The locked version of each distribution."""
    found = [PINNED.match(line) for line in lock().splitlines()]
    return {canonicalize_name(pin["name"]): Version(pin["version"]) for pin in found if pin}


def test_the_lock_satisfies_every_declared_dependency() -> None:
    declared = [*project()["project"]["dependencies"], *project()["dependency-groups"]["dev"]]
    declared += project()["build-system"]["requires"]
    locked = pins()

    broken = [
        text
        for text in declared
        if (wanted := Requirement(text)) and not wanted.specifier.contains(locked.get(canonicalize_name(wanted.name), "0"))
    ]

    assert not broken, f"the lock does not hold {broken}; run `make lock`"


def test_every_locked_version_has_a_hash_and_no_address() -> None:
    blocks = re.split(r"\n(?=\S)", lock())
    unhashed = [block.splitlines()[0] for block in blocks if PINNED.match(block) and "--hash=sha256:" not in block]

    assert not unhashed
    assert "://" not in lock()
    assert "--index" not in lock()


def test_the_wheel_holds_the_four_packages_and_the_default_configuration() -> None:
    wheel = project()["tool"]["hatch"]["build"]["targets"]["wheel"]

    assert sorted(wheel["packages"]) == sorted(PACKAGES)
    assert all((ROOT / source).is_file() for source in wheel["force-include"])
    assert all((ROOT / package / "py.typed").is_file() for package in PACKAGES)


def test_the_changelog_knows_the_version_or_calls_it_unreleased() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert headings[0] == "Unreleased", "the first section of the changelog is `Unreleased`"
    assert headings[1:] == sorted(headings[1:], key=Version, reverse=True), "releases stand newest first"
    assert all(Version(heading) <= Version(project()["project"]["version"]) for heading in headings[1:])
