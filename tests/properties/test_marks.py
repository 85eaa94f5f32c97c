"""Whatever text comes from outside, no mark of Outrider's is left in it, and nothing else of it changes."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from runner.marks import disarmed, restored
from runner.text import BLOCKS, escape_blocks
from tests.runner.prompt.hostile import BRACKETS, NOTES, TAGS, hostile, notes, tags

UNSEEN = ("\u200b", "\u00ad", "\u2060", "\u202e", "\u200f", "\ufeff", "\u0301", "\u034f", "\x00", "\x1b", "\U000e0041", "")
ALIKE = {
    "a": "аａ", "c": "сｃⅽ", "e": "еｅё", "i": "іｉ", "l": "ｌⅼӏ", "o": "оｏο", "p": "рｐ", "r": "ｒ", "s": "ѕｓ",
    "t": "ｔт", "u": "ｕ", "<": "＜﹤⟨", "[": "［【", "/": "／∕",
}  # fmt: skip

FORGED = st.one_of(
    st.builds(lambda tag, block: tag.format(block=block, upper=block.upper(), hidden=block, alike=block),
              st.sampled_from(TAGS), st.sampled_from(BLOCKS)),
    st.builds(lambda note, brackets: note.format(open=brackets[0], close=brackets[1]),
              st.sampled_from(NOTES), st.sampled_from(BRACKETS)),
)  # fmt: skip


@st.composite
def disguised(draw: st.DrawFn) -> str:
    """A mark, some of whose letters are others that look like them, with something invisible after some."""
    made = []
    for letter in draw(FORGED):
        likes = ALIKE.get(letter.lower())
        shown = draw(st.sampled_from(likes)) if likes and draw(st.integers(0, 3)) == 0 else letter
        # What spells a character must stay as it is, to be one.
        after = draw(st.sampled_from(UNSEEN)) if letter in "calutrepos" and draw(st.integers(0, 3)) == 0 else ""
        made.append(draw(st.sampled_from((shown, shown.upper(), shown))) + after)
    return "".join(made)


TEXTS = st.lists(st.one_of(FORGED, disguised(), st.text(max_size=20), st.sampled_from(["<", "[", "~", "&", "</", " "])))


@given(TEXTS)
def test_no_mark_is_left_in_any_mixture_and_nothing_is_done_twice(parts: list[str]) -> None:
    text = "".join(parts)
    shown = escape_blocks(text)
    assert (tags(shown), notes(shown)) == ([], [])
    assert escape_blocks(shown) == shown


@given(TEXTS)
def test_nothing_is_added_but_a_sign_before_the_mark_and_it_can_be_taken_away(parts: list[str]) -> None:
    text = "".join(parts).replace("~", "")
    shown = disarmed(text)
    assert shown.replace("~", "") == text
    if not any("\U000e0000" <= letter <= "\U000e007f" for letter in text):
        assert restored({"a": [shown]}) == {"a": [text]}


INNOCENT = """\
2026-11-18T01:02:03Z [info] call to /v1/pods took 12 ms [retry 3/5] [thread-7] a[call] items[0] [10, 20] [1 more]
<html><body class="x"><b>bold</b> &lt;b&gt; &amp; <a href="/x?a=1&b=2">[cut the cake]</a></body></html>
See [call me](tel:123), [result](r.md), [report](https://x/report), [image](i.png) and [link to docs](d.md).
if (n <messages && m < 3) { x<y; vector<int> v; std::map<std::string, int> m; } // List<String>, Array<[u8; 4]>
{"items": [{"name": "web", "labels": ["call", "cut"]}], "re": "^[a-z]+$", "path": "C:\\\\temp", "note": "50% [of it]"}
- [ ] call Ada - [x] cut costs; ASCII art: <=> <-> <!-- --> <?xml version="1.0"?> <stages> [recall] [cutoff]
def f(x: list[int]) -> dict[str, Any]: return {"a": x[1:2]}  # rows[call_id], [*parts], [~x for x in y]
שלום [היי] <טקסט>, 你好【注意】《报告》, « message », Ünïcödé [Größe], 🙂 [🙂]
"""


def test_innocent_text_stays_as_it_is() -> None:
    assert [escape_blocks(line) for line in INNOCENT.splitlines()] == INNOCENT.splitlines()


def test_a_hundred_kilobytes_cost_little_whatever_they_hold() -> None:
    log = "2026-11-18T01:02:03Z [info] pod web-7d4b9c restarted; trace 4bf92 took 12ms status=200\n" * 1_200
    hostile_texts = [
        "<\u200b",
        "[",
        "[с",
        "[call ",
        "&amp;",
        "&#0",
        "< ",
        "\U000e003c",
        "&lt",
        "<</",
        "[\u0301",
        *hostile(),
    ]
    assert _seconds(log) < 0.02, "about one millisecond"
    for text in hostile_texts:
        assert _seconds((text * (100_000 // len(text) + 1))[:100_000]) < 1.5, ascii(text[:30])
    assert _seconds("<" + "\u200b" * 100_000) < 1.5


def _seconds(text: str) -> float:
    began = time.thread_time()
    escape_blocks(text)
    return time.thread_time() - began
