"""Sent names: unique, fitting, stable, and repaired where a model gets them wrong."""

import re
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.tools.naming import NameTable, Target, nearest, normalise
from tests.support.requirement import requirement

API_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")

server_names = st.from_regex(r"[a-zA-Z0-9]([_-]?[a-zA-Z0-9]){0,20}_?", fullmatch=True)
awkward = st.text(alphabet="ab_-. /é\ud800", min_size=0, max_size=8)
tool_names = st.one_of(st.text(max_size=300), awkward, st.sampled_from(["b__c", "b.c", "b_c", "_b", "__b", "b_"]))
targets = st.builds(Target, server_names, tool_names)


@requirement("S2-TN-2", "S2-TN-5")
@given(st.lists(targets, max_size=30))
def test_every_sent_name_fits_the_api_and_leads_back_to_its_own_tool(some: list[Target]) -> None:
    table = NameTable(some)
    sent = {table.sent(target) for target in some}
    assert len(sent) == len(set(some))
    assert all(API_PATTERN.fullmatch(name) for name in sent)
    assert all(table.target(table.sent(target)) == target for target in some)


@given(st.lists(targets, max_size=12), st.randoms())
def test_names_depend_on_the_tools_and_not_on_their_order(some: list[Target], random: object) -> None:
    shuffled = list(some)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first, second = NameTable(some), NameTable(shuffled)
    assert all(first.sent(target) == second.sent(target) for target in some)


@given(st.lists(targets, max_size=12), st.lists(targets, max_size=12))
def test_a_name_once_sent_keeps_its_meaning_when_more_tools_come(old: list[Target], new: list[Target]) -> None:
    table = NameTable(old)
    before = {target: table.sent(target) for target in old}
    table.add(new)
    assert all(table.sent(target) == name and table.target(name) == target for target, name in before.items())
    assert len({table.sent(target) for target in {*old, *new}}) == len({*old, *new})


def test_a_plain_name_is_server_and_tool() -> None:
    assert NameTable([Target("loki", "query")]).sent(Target("loki", "query")) == "loki__query"


@requirement("S2-TN-3")
def test_tool_names_with_separators_never_mix() -> None:
    tools = [Target("a", "b__c"), Target("a", "b.c"), Target("a", "b_c")]
    table = NameTable(tools)
    assert [table.target(table.sent(tool)) for tool in tools] == tools
    assert table.sent(tools[0]) == "a__b__c"
    assert table.sent(tools[2]) == "a__b_c"


@requirement("S2-TN-5")
def test_a_tool_that_is_named_like_another_ones_alias_takes_nothing_from_it() -> None:
    odd = Target("a", "b.c")
    alias = NameTable([odd]).sent(odd)
    imitation = Target("a", alias.removeprefix("a__"))
    table = NameTable([odd, imitation])
    assert table.target(table.sent(odd)) == odd
    assert table.target(table.sent(imitation)) == imitation


@given(st.lists(targets, max_size=12))
def test_no_upstream_tool_is_ever_sent_under_a_plain_name(some: list[Target]) -> None:
    assert all("__" in name for name in NameTable(some).names)


KNOWN = ("dispatch_agent", "finish", "loki__query", "prom__query", "loki__b_c")


@requirement("S2-TN-8")
@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("loki__query", "loki__query"),
        ("default_api:dispatch_agent", "dispatch_agent"),
        ("default_api:loki__query", "loki__query"),
        ("functions.dispatch_agent", "dispatch_agent"),
        ("functions.loki.query", "loki__query"),
        ("functions.loki__query", "loki__query"),
        ("mcp__loki__query", "loki__query"),
        ("mcp__outrider__dispatch_agent", "dispatch_agent"),
        ("loki.query", "loki__query"),
        ("loki:query", "loki__query"),
        (" finish ", "finish"),
        ("query", None),
        ("functions.query", None),
        ("prom__finish", None),
        ("mcp__prom__finish", None),
        ("nothing", None),
        ("", None),
    ],
)
def test_a_wrong_prefix_is_put_right_when_exactly_one_tool_fits(wrong: str, right: str | None) -> None:
    assert normalise(wrong, KNOWN) == right


@requirement("S2-TN-8")
def test_an_ambiguous_name_is_not_guessed() -> None:
    assert normalise("functions:a.b", ("a.b", "a__b")) is None
    assert normalise("x.query", ("query", "x__query")) == "x__query"


def test_a_dot_is_restored_where_dots_are_known() -> None:
    assert normalise("loki__query", ("loki.query",)) == "loki.query"


@given(st.text(max_size=60), st.lists(st.text(min_size=1, max_size=20), max_size=10))
def test_normalising_gives_a_known_name_or_none_and_an_exact_one_always_wins(name: str, known: Collection[str]) -> None:
    assert normalise(name, known) in {*known, None}
    assert all(normalise(exact, known) == exact for exact in known)


def test_the_nearest_names_come_best_first() -> None:
    known = ("dispatch_agent", "get_result", "memory__load_contexts", "loki__query")
    assert nearest("load_context", known)[0] == "memory__load_contexts"
    assert nearest("loki__qery", known)[0] == "loki__query"
    assert nearest("anything", ()) == []


def test_the_nearest_of_ten_thousand_names_is_found_for_a_name_of_a_megabyte() -> None:
    known = [f"server__tool_{number}" for number in range(10_000)]
    assert len(nearest("x" * 1_000_000, known)) == 3
