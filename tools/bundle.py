"""Pack the server as an MCP bundle: a zip that a desktop client installs by a double click. `make bundle` calls it.

Owns: what goes into the bundle. Must not know: what is in the manifest.
Invariant: the same commit gives the same bytes; nothing that git does not know gets in.
"""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("db", "outrider", "outrider_sre", "registry", "runner", "server")
CONTENTS = ("manifest.json", "pyproject.toml", "README.md", "LICENSE", "config.yaml", *PACKAGES)
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest moment a zip can hold: files have no other one in common."""


def pack(bundle: Path) -> None:
    """Write the bundle. Files alone, no folders: the reference tool refuses to unpack those."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *CONTENTS],  # noqa: S607 - whichever git a developer has
        cwd=ROOT,
        capture_output=True,
        check=True,
        encoding="utf-8",
    ).stdout
    bundle.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in sorted(filter(None, listed.split("\0"))):
            member = zipfile.ZipInfo(name, EPOCH)
            member.external_attr = 0o644 << 16
            packed.writestr(member, (ROOT / name).read_bytes(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    pack(Path(sys.argv[1]))
