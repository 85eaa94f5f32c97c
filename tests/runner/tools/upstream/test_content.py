"""Results of upstream calls as text: nothing dropped in silence, nothing over the cap."""

import mcp.types as t
from hypothesis import given
from hypothesis import strategies as st

from runner.tools.protocol import ToolResult
from runner.tools.upstream.content import STORED_CAP, cut, tool_result
from tests.support.requirement import requirement


@given(st.text(min_size=200, max_size=2000), st.integers(min_value=200, max_value=1000))
def test_a_cut_text_and_the_rest_from_its_offset_make_the_whole(text: str, cap: int) -> None:
    clean = text.encode("utf-8", "replace").decode()
    result = cut(ToolResult(clean), "id", cap)
    assert len(result.text.encode()) <= cap
    if result.full_text is None:
        assert result.text == clean
    else:
        head, _, marker = result.text.rpartition("\n[cut after ")
        offset = int(marker.split()[0])
        assert head == result.full_text[:offset]
        assert result.full_text == clean


def test_what_is_kept_of_a_vast_result_is_bounded_and_said() -> None:
    result = cut(ToolResult("x" * (STORED_CAP + 5)), "id", 1000)
    assert len(result.full_text or "") == STORED_CAP
    assert "of which 10.0 MB are kept" in result.text


def test_a_cap_smaller_than_the_marker_leaves_the_marker() -> None:
    assert cut(ToolResult("x" * 100), "id", 10).text.startswith("\n[cut after 0 characters")


@requirement("S2-CX-4")
def test_content_that_is_no_text_is_named() -> None:
    blob = t.BlobResourceContents(uri="file:///core", blob="AAAA" * 1_000_000)
    answer = t.CallToolResult(
        content=[
            t.AudioContent(data="AAAA", mime_type="audio/wav"),
            t.EmbeddedResource(resource=blob),
        ]
    )
    expected = "[audio audio/wav, 3 bytes]\n[resource file:///core of unknown type, 3.0 MB]"
    assert tool_result(answer) == ToolResult(expected)
