"""The summary that the runtime makes of an answer: what is said first, never a heading alone."""

import pytest

from runner.result import SUMMARY_LIMIT, summarise


@pytest.mark.parametrize(
    ("answer", "summary"),
    [
        ("It is the pool.\n\nMore follows.", "It is the pool."),
        ("## Summary\n\nIt is the pool.\n\n## Evidence\n\n- one", "It is the pool."),
        ("# Report\n\n## Summary\n\nIt is the pool.", "It is the pool."),
        ("## Summary\nIt is the pool.\n\nMore.", "## Summary\nIt is the pool."),
        ("## Nothing else", "## Nothing else"),
        ("", ""),
    ],
)
def test_an_answer_is_summarised_by_its_first_paragraph(answer: str, summary: str) -> None:
    assert summarise(answer) == summary


def test_a_long_paragraph_is_cut_at_a_word_and_says_so() -> None:
    cut = summarise("word " * 500)

    assert len(cut) <= SUMMARY_LIMIT
    assert cut.endswith("word…")
