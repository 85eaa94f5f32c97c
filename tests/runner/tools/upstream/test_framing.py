"""The framing of the stdio transport."""

from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from runner.tools.upstream.framing import RawLine, read_lines


async def lines_of(chunks: list[bytes], cap: int) -> list[RawLine]:
    async def stream() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return [line async for line in read_lines(stream(), cap)]


@given(st.lists(st.binary(max_size=20)), st.integers(min_value=0, max_value=30))
async def test_lines_are_whole_up_to_the_cap_however_the_stream_is_cut(chunks: list[bytes], cap: int) -> None:
    expected = [line for line in b"".join(chunks).split(b"\n")[:-1] if len(line) <= cap]
    assert [line.head for line in await lines_of(chunks, cap) if line.complete] == expected


async def test_a_line_over_the_cap_is_told_of_when_it_crosses_it_and_when_it_ends() -> None:
    lines = await lines_of([b"abc", b"def", b"ghi\nok\n"], cap=5)
    assert lines == [
        RawLine(b"abcdef", b"", complete=False),
        RawLine(b"", b"defghi", complete=False),
        RawLine(b"ok", b"ok", complete=True),
    ]


async def test_a_line_that_never_ends_is_told_of_once() -> None:
    assert await lines_of([b"x" * 10] * 1000, cap=25) == [RawLine(b"x" * 30, b"", complete=False)]
