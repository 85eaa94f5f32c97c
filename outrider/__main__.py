"""Where Outrider starts: makes sure that its packages are its own before one of them is imported.

Their names are plain words (`server`, `db` …), so `PYTHONPATH`, the current folder or another distribution may bring a
package of the same name. Owns: that ours are found first, and what is said where they cannot be. Must not know: any
command. Invariant: what was not installed with Outrider is never imported as one of its packages; nothing slow is imported
to find out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

PACKAGES = ("db", "outrider_sre", "registry", "runner", "server")
HOME = Path(os.path.abspath(__file__)).parent.parent  # noqa: PTH100 - a link to this file stays where it is
"""Where Outrider is installed: its packages lie beside this one."""

ALONE = "install Outrider in an environment of its own, for example with `uv tool install outrider`"
AGAIN = "install Outrider once more (`pip install --force-reinstall outrider`), in an environment of its own"
USAGE = 2


class Clash(Exception):
    """A package of ours that is not there, or not ours."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class OwnPackages:
    """Finds our packages where Outrider is installed, and nothing else: before every other place is looked into."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """As the import system asks."""
        return PathFinder.find_spec(name, [str(HOME)], target) if path is None and name in PACKAGES else None


def main() -> int:
    """Run one command."""
    try:
        claim_packages()
        from server.cli.main import main as run
    except Clash as clash:
        return _refused(str(clash), clash.hint)
    except ImportError as error:
        return _refused(f"Outrider's installation in `{HOME}` is not whole: {error}", AGAIN)
    return run()


def claim_packages() -> None:
    """From now on these names mean our packages; raises Clash where that cannot be had."""
    if OwnPackages not in sys.meta_path:
        sys.meta_path.insert(0, OwnPackages)
    for name in PACKAGES:
        spec = OwnPackages.find_spec(name)
        if spec is None or spec.origin is None:  # a folder alone is what is left of a package
            raise Clash(f"the package `{name}` is missing where Outrider is installed, in `{HOME}`", AGAIN)
        imported = sys.modules.get(name)
        if imported is not None and getattr(imported, "__file__", None) != spec.origin:
            place = getattr(imported, "__file__", None) or "somewhere else"
            hint = "look for what imports it: `sitecustomize`, or a `.pth` file of this environment"
            raise Clash(f"`{name}` was imported from `{place}` before Outrider could start", hint)
    lost = _overwritten()
    if lost is not None and (whose := _others_with(lost)):
        names = " and ".join(f"`{name}`" for name in whose)
        raise Clash(f"the package `{lost}` in `{HOME}` is not Outrider's: {names} has put its own in its place", ALONE)


def _overwritten() -> str | None:
    """A package of ours over which another one was installed: its first file has not the size of the one that was ours."""
    record = next((each for each in _records() if each.parent.name.startswith("outrider-")), None)
    if record is None:  # installed as source
        return None
    firsts = {f"{name}/__init__.py": name for name in PACKAGES}
    for line in record.read_text(encoding="utf-8").splitlines():
        file, _, rest = line.partition(",")
        size = rest.rpartition(",")[2]
        if file in firsts and size.isdecimal() and (HOME / file).stat().st_size != int(size):
            return firsts[file]
    return None


def _records() -> list[Path]:
    """What the distributions that are installed beside us say they have brought."""
    folders = sorted(name for name in os.listdir(HOME) if name.endswith(".dist-info"))  # noqa: PTH208 - names are enough
    return [record for name in folders if (record := HOME / name / "RECORD").is_file()]


def _others_with(package: str) -> list[str]:
    """The other distributions that bring a package; none where a person has changed it."""
    return [
        record.parent.name.partition("-")[0]
        for record in _records()
        if not record.parent.name.startswith("outrider-")
        and f"\n{package}/" in "\n" + record.read_text(encoding="utf-8", errors="replace")
    ]


def _refused(message: str, hint: str) -> int:
    """Tell it as every other error of the command line is told."""
    if "--json" in sys.argv:
        import json

        told = {"message": message, "hint": hint, "kind": "usage", "exit": USAGE}
        sys.stdout.write(json.dumps({"error": told}, indent=2) + "\n")
    sys.stderr.write(f"error: {message}\n\nhint: {hint}\n")
    return USAGE


if __name__ == "__main__":
    sys.exit(main())
