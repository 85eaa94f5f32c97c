"""What is made from code is as `make docs` makes it now, and shows nothing of the machine it was made on."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.docs import mcp_page, picture
from tests.docs.reference import FOLDER, pages
from tests.outrider_sre.investigating import investigate

STALE = "run `make docs` and commit what it writes"


@pytest.mark.parametrize("page", ["api.md", "cli.md", "config.md", "mcp.md"])
def test_a_page_is_what_the_code_says(page: str) -> None:
    file = FOLDER / page

    assert file.read_text(encoding="utf-8") == pages()[file], STALE


def test_the_tools_in_the_readme_are_those_clients_get() -> None:
    readme = mcp_page.README.read_text(encoding="utf-8")

    assert mcp_page.rewritten(readme) == readme, STALE


def words(drawing: str) -> list[str]:
    """What a drawing says, but for how many tokens it took: every change of a prompt changes that."""
    pieces = [each.text or "" for each in ET.fromstring(drawing).iter() if each.tag.endswith("}text")]
    return [re.sub(r"^[\d.,]+k? tok$", "tokens", piece) for piece in pieces]


async def test_the_picture_is_of_the_investigation_as_it_runs(tmp_path: Path) -> None:
    investigation = await investigate(tmp_path)

    drawn = picture.picture(investigation.database)

    assert words(drawn) == words(picture.FILE.read_text(encoding="utf-8")), STALE
    assert picture.picture(investigation.database) == drawn


def test_the_picture_is_well_formed_and_no_piece_overlaps_another() -> None:
    drawing = ET.parse(picture.FILE).getroot()
    pieces = [each for each in drawing.iter() if each.tag.endswith("}text")]
    ends: dict[str, float] = {}
    for piece in pieces:
        x, y = float(piece.attrib["x"]), piece.attrib["y"]
        assert x >= ends.get(y, 0.0)
        ends[y] = x + float(piece.attrib["textLength"])

    assert max(ends.values()) <= float(drawing.attrib["width"])
    assert "K8sInspector" in "".join(piece.text or "" for piece in pieces)
    assert not re.search(r"/\w+/\w+", "".join(piece.text or "" for piece in pieces))
