"""The documents hold what they promise: links lead somewhere, and the present is described without its history."""

import re
from pathlib import Path

from tests.support.requirement import requirement
from tests.support.sources import relative, repository_files

LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ +(?P<title>.+)$", re.MULTILINE)
HISTORY = re.compile(r"\b(previously|no longer|used to|improved over)\b", re.IGNORECASE)


def documents() -> list[Path]:
    """Every page of the repository."""
    return [file for file in repository_files() if file.suffix == ".md"]


def anchors(page: Path) -> set[str]:
    """What a link may name behind `#`."""
    titles = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def leads_nowhere(page: Path, target: str) -> bool:
    """Whether a link inside the repository has no end."""
    if re.match(r"[a-z]+:", target):
        return False

    path, _, anchor = target.partition("#")
    goal = (page.parent / path).resolve() if path else page
    return not goal.exists() or bool(anchor and goal.suffix == ".md" and anchor not in anchors(goal))


def test_every_link_inside_the_repository_leads_somewhere() -> None:
    broken = [
        f"{relative(page)}: {link['target']}"
        for page in documents()
        for link in LINK.finditer(page.read_text(encoding="utf-8"))
        if leads_nowhere(page, link["target"])
    ]

    assert not broken


@requirement("S1-DOC-1")
def test_documents_describe_the_system_as_it_is_and_leave_history_to_the_changelog() -> None:
    historical = [
        f"{relative(page)}:{number}"
        for page in documents()
        if page.name != "CHANGELOG.md" and "adr" not in page.parts
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
        if HISTORY.search(line)
    ]

    assert not historical, f"say what is, not what was: {historical}"


def test_the_glossary_is_sorted_so_that_words_are_found() -> None:
    glossary = next(page for page in documents() if page.name == "glossary.md")
    words = re.findall(r"^\*\*(.+?)\*\*:", glossary.read_text(encoding="utf-8"), re.MULTILINE)

    assert words == sorted(words, key=str.lower)
