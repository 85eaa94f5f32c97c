"""Make the `planned` flags of the manifest true to the tests; run by `make requirements`.

Owns: the rewriting of `planned` lines. Must not know: what a requirement says.
Invariant: everything else in the files, order and comments included, stays as it was.
"""

import re
import sys
from pathlib import Path

from tests.requirements.manifest import FOLDER, named_by_tests, read_manifest

HEADER = re.compile(r"^\[(?P<id>[^\]]+)\]$")


def rewritten(text: str, planned: set[str]) -> str:
    """The text of a manifest file in which exactly the ids of `planned` carry the flag."""
    lines: list[str] = []
    current = ""

    for line in text.splitlines():
        header = HEADER.match(line)
        if header:
            current = header["id"]
        if not line.startswith("planned ="):
            lines.append(line)
        if line.startswith("text =") and current in planned:
            lines.append("planned = true")

    return "\n".join(lines) + "\n"


def write(file: Path, planned: set[str]) -> bool:
    """Rewrite one file and tell whether that changed it."""
    before = file.read_text(encoding="utf-8")
    after = rewritten(before, planned)
    if after != before:
        file.write_text(after, encoding="utf-8")

    return after != before


def table(tested: set[str], proved: set[str]) -> str:
    """For each seed, group by group: how many of its requirements tests prove, and which are left."""
    groups: dict[tuple[str, str], list[str]] = {}
    for identifier in sorted(tested):
        seed, group, *_ = identifier.split("-")
        groups.setdefault((seed, group.rstrip("0123456789")), []).append(identifier)
    lines: list[str] = []
    for seed in sorted({seed for seed, _ in groups}):
        whole = [each for (owner, _), members in groups.items() if owner == seed for each in members]
        lines.append(f"{seed}  {len(proved.intersection(whole)):3} of {len(whole):3} proved")
        for (owner, group), members in groups.items():
            left = [each for each in members if each not in proved]
            if owner == seed:
                told = f"  left: {', '.join(left)}" if left else ""
                lines.append(f"    {group:5} {len(members) - len(left):3} of {len(members):3}{told}")
    return "\n".join(lines)


def main() -> int:
    """Rewrite the manifest, report on standard output, and fail when a test names an id that does not exist."""
    manifest = read_manifest()
    named = named_by_tests()
    proved = {each.id for each in named}
    tested = {identifier for identifier, row in manifest.items() if not row.decision}

    print(table(tested, proved))
    changed = [file.name for file in sorted(FOLDER.glob("*.toml")) if write(file, tested - proved)]
    print(f"{len(tested & proved)} of {len(tested)} requirements are proved; rewritten: {', '.join(changed) or 'nothing'}")

    unknown = [each for each in named if each.id not in manifest]
    for each in unknown:
        print(f"error: no such requirement: {each}", file=sys.stderr)

    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
