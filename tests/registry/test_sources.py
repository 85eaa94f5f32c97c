"""Sources: a text stands in the configuration or in a file beside it, and means the same."""

from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from registry.sources import Source, SourceEntry, Texts
from tests.support.requirement import requirement


def read(written: object, texts: Texts) -> SourceEntry:
    """Read a source as a configuration does."""
    return TypeAdapter(Source).validate_python(written, context=texts)


@requirement("S3-CF-2")
def test_three_ways_to_give_a_text_give_the_same(tmp_path: Path) -> None:
    tmp_path.joinpath("text.md").write_text("Look {{ closely }}, ${HOME}.", encoding="utf-8")
    texts = Texts(tmp_path)

    given = [
        read(written, texts).text
        for written in ("Look {{ closely }}, ${HOME}.", {"content": "Look {{ closely }}, ${HOME}."}, {"url": "./text.md"})
    ]

    assert given == ["Look {{ closely }}, ${HOME}."] * 3
    assert texts.read == {"text.md": "Look {{ closely }}, ${HOME}."}


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({}, "either `url` or `content` is expected"),
        ({"url": "a.md", "content": "b"}, "either `url` or `content` is expected"),
        ({"url": "gone.md"}, "`gone.md` cannot be used: there is no such file"),
        ({"url": "../a.md"}, "leads out of the folder"),
        ({"url": "data.bin"}, "`data.bin` cannot be used: it is no text in UTF-8"),
    ],
)
def test_what_gives_no_text_says_why(written: object, message: str, tmp_path: Path) -> None:
    tmp_path.joinpath("data.bin").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(ValidationError) as caught:
        read(written, Texts(tmp_path))

    [error] = caught.value.errors()
    assert message in error["msg"]


def test_kept_texts_stand_for_files_that_have_changed(tmp_path: Path) -> None:
    tmp_path.joinpath("text.md").write_text("new", encoding="utf-8")
    kept = Texts(tmp_path, {"text.md": "old"})

    assert read({"url": "text.md"}, kept).text == "old"
    with pytest.raises(ValidationError, match="it was not there when this was first loaded"):
        read({"url": "another.md"}, kept)
