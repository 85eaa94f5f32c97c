"""Texts in the folder of the configuration: what a pattern finds, and that nothing outside is ever read."""

import os
from pathlib import Path

import pytest

from registry import Folder, UnreadableFile
from registry.text.folder import MOST_BYTES, MOST_ENTRIES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files, hidden ones, links of all kinds and something outside of it."""
    inside = tmp_path / "inside"
    texts = ("a.md", "b.txt", "docs/b.md", "docs/a.md", "docs/deep/er/c.md", ".env", "docs/.draft.md", ".git/x.md")
    for path in texts:
        (inside / path).parent.mkdir(parents=True, exist_ok=True)
        (inside / path).write_text(path, encoding="utf-8")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.md").write_text("CANARY", encoding="utf-8")
    links = {
        "docs/same.md": "../a.md",
        "docs/out.md": "../../outside/secret.md",
        "docs/broken.md": "nowhere.md",
        "docs/circle.md": "circle.md",
        "docs/deep/up": "../..",
        "linked": "docs",
        "away": "../outside",
    }
    for link, target in links.items():
        (inside / link).symlink_to(target)
    os.mkfifo(inside / "docs" / "pipe.md")
    return inside


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a.md", "a.md"),
        ("*", "a.md b.txt"),
        ("./docs//*.md", "docs/a.md docs/b.md docs/out.md docs/same.md"),
        ("docs/[!ao]*.md", "docs/b.md docs/same.md"),
        ("**/c.md", "docs/deep/er/c.md"),
        ("docs/**/?.md", "docs/a.md docs/b.md docs/deep/er/c.md"),
        ("docs/deep/**", "docs/deep/er/c.md"),
        ("**/**/c.*", "docs/deep/er/c.md"),
        ("linked/?.md", "linked/a.md linked/b.md"),
        ("*/*/*/a.md", "docs/deep/up/a.md linked/deep/up/a.md"),
        (".env", ".env"),
        (".*/*.md", ".git/x.md"),
        ("docs/.d*", "docs/.draft.md"),
        ("**/secret.md", ""),
        ("away/*.md", ""),
        ("*/secret.md", ""),
        ("docs", ""),
        (".", ""),
        ("nowhere/*", ""),
    ],
)
def test_a_pattern_finds_files_in_order_and_goes_round_in_no_circle(folder: Path, pattern: str, found: str) -> None:
    assert Folder(folder).find(pattern) == tuple(found.split())


def test_a_folder_that_is_reached_by_a_link_is_a_folder_like_any_other(folder: Path) -> None:
    (folder.parent / "config").symlink_to(folder)
    there = Folder(folder.parent / "config")

    assert [there.read(path) for path in there.find("docs/?.md")] == ["docs/a.md", "docs/b.md"]
    assert there.read("docs/same.md") == "a.md"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("docs/out.md", "leads out of the folder"),
        ("../outside/secret.md", "leads out of the folder"),
        ("away/secret.md", "leads out of the folder"),
        ("docs/broken.md", "cannot be read (No such file"),
        ("docs/circle.md", "cannot be read ("),
        ("docs/pipe.md", "not a file"),
        ("docs", "not a file"),
        ("binary.md", "not a text file"),
        ("latin.md", "not UTF-8 text"),
        ("long.md", "longer than 1,000,000 bytes"),
        ("new\nline.md", "its name cannot be shown"),
        ("\udcff.md", "its name cannot be shown"),
    ],
)
def test_only_texts_of_the_folder_are_read(folder: Path, path: str, why: str) -> None:
    (folder / "binary.md").write_bytes(b"a\0b")
    (folder / "latin.md").write_bytes("café".encode("latin-1"))
    (folder / "long.md").write_bytes(b"x" * (MOST_BYTES + 1))
    (folder / "new\nline.md").write_text("text", encoding="utf-8")

    with pytest.raises(UnreadableFile) as unreadable:
        Folder(folder).read(path)

    assert why in str(unreadable.value)


def test_a_byte_order_mark_is_no_part_of_a_text(folder: Path) -> None:
    (folder / "marked.md").write_bytes("\ufefftext\r\n".encode())

    assert Folder(folder).read("marked.md") == "text\r\n"


def test_looking_comes_to_an_end(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "again").symlink_to("..")  # each folder has all the others in it

    with pytest.raises(UnreadableFile, match=f"more than {MOST_ENTRIES:,} files"):
        Folder(tmp_path).find("*/*/*/*/*/*.md")
    assert Folder(tmp_path).find("**/*.md") == ()
