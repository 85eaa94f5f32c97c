"""The tutorials, typed as they stand: their files are written, their commands run, and their output is the page's."""

import re
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.docs.typed_pages import pattern_of, type_page
from tests.support.messages_api import messages_api, reply, text, tool_use
from tests.support.requirement import requirement
from tests.support.shell import Shell
from tests.support.sources import ROOT

PAGES = ROOT / "docs" / "tutorial"


@requirement("S2-VA-12")
@pytest.mark.timeout(120)
def test_the_first_tutorial_works_as_it_stands(tmp_path: Path) -> None:
    assert type_page((PAGES / "first-agent.md").read_text(encoding="utf-8"), Shell(tmp_path)) > 8


@pytest.mark.timeout(120)
async def test_the_tutorial_with_a_server_of_ones_own_works_as_it_stands(tmp_path: Path) -> None:
    page = (PAGES / "own-server.md").read_text(encoding="utf-8")
    said = re.findall(r"^(?:I noted|One note) .*$", page, re.MULTILINE)
    answers = [
        reply(tool_use("notes__add_note", {"text": "the pool of inventory has 10 connections"})),
        reply(text(said[0])),
        reply(tool_use("notes__find_notes", {"word": "inventory"})),
        reply(text(said[1])),
    ]

    async with messages_api(*answers) as api:
        shell = Shell(tmp_path, {"ANTHROPIC_API_KEY": "a-key", "ANTHROPIC_BASE_URL": api.url})
        assert await anyio.to_thread.run_sync(type_page, page, shell) == 6

    found = api.requests[-1].body["messages"][-1]["content"][0]["content"]
    assert "the pool of inventory has 10 connections" in str(found)


def test_output_that_differs_would_be_noticed() -> None:
    assert pattern_of("a…c\n…\nd\n").fullmatch("abc\nx\ny\nd\n")
    assert not pattern_of("a…c\n").fullmatch("abd\n")
