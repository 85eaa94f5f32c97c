"""Figures carry the revision they were measured on, and a reader can check it out: it is an ancestor of this one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sources import ROOT

PAGE = ROOT / "bench" / "README.md"
FIGURE = re.compile(r"\|\s*\d+\.\d+")
"""A cell that begins with a measured number."""
REVISION = re.compile(r"\brevision\s+`?([0-9a-f]{7,40})\b")
ELSEWHERE = {"Peers": "other frameworks, which are not in our history"}
"""Sections whose figures are not of a revision of ours, and what they are of."""


def git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run git in a folder."""
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)


def sections(page: str) -> Iterator[tuple[str, str]]:
    """The sections of a page: title and text."""
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        yield title.strip(), text


def untraceable(page: str, folder: Path) -> list[str]:
    """The sections whose figures cannot be traced to an ancestor of the current revision of a repository."""
    found: list[str] = []
    for title, text in sections(page):
        if title in ELSEWHERE or not FIGURE.search(text):
            continue
        revisions = REVISION.findall(text)
        if not revisions:
            found.append(f"`{title}` names no revision\nhint: write `revision …` beside the date of its figures")
        found += [
            f"`{title}`: {revision} is not an ancestor of this revision\nhint: measure again, and name HEAD"
            for revision in revisions
            if git(folder, "merge-base", "--is-ancestor", revision, "HEAD").returncode
        ]
    return found


def test_every_section_with_figures_names_a_revision_that_this_one_descends_from() -> None:
    if not (ROOT / ".git").exists():  # an unpacked archive: it has no history to compare with
        assert all(REVISION.search(text) for title, text in sections(PAGE.read_text()) if title == "Figures")
        return
    shallow = git(ROOT, "rev-parse", "--is-shallow-repository").stdout.strip()
    assert shallow == "false", "this clone has no whole history\nhint: `git fetch --unshallow`"

    found = untraceable(PAGE.read_text(encoding="utf-8"), ROOT)

    assert not found, "\n\n".join(found)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit on its branch, and another beside it."""
    for words in (
        ["init", "-q", "-b", "main"],
        ["config", "user.email", "tests@example.org"],
        ["config", "user.name", "tests"],
        ["commit", "-q", "--allow-empty", "-m", "first"],
        ["checkout", "-q", "-b", "beside"],
        ["commit", "-q", "--allow-empty", "-m", "beside"],
        ["checkout", "-q", "main"],
    ):
        done = git(tmp_path, *words)
        assert done.returncode == 0, done.stderr
    return tmp_path


def test_figures_of_a_revision_that_is_not_in_the_history_are_refused(repository: Path) -> None:
    ours, beside = (git(repository, "rev-parse", name).stdout.strip() for name in ("main", "beside"))
    page = "# Page\n\n## Figures\n\n2026-01-01, revision {}.\n\n| a |\n|---|\n| 1.5 |\n\n## Scenarios\n\n| b | 50 |\n"

    assert untraceable(page.format(ours), repository) == []
    assert untraceable(page.format(ours[:7]), repository) == []
    [told] = untraceable(page.format(beside), repository)
    assert told.startswith(f"`Figures`: {beside} is not an ancestor of this revision\nhint: ")
    assert len(untraceable(page.format("0123456789"), repository)) == 1
    [unnamed] = untraceable(page.replace("revision", "at"), repository)
    assert unnamed.startswith("`Figures` names no revision\nhint: ")
