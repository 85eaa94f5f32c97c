"""Comparisons: two trees side by side, their executions paired by their place in the tree.

Owns the pairing and what counts as a difference. Must not know: why two trees are compared. Invariant: an execution is in
one pair, and a pair stands below the pair of both parents.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from db.ids import ALPHABET, RANDOM_DIGITS, TIME_DIGITS
from db.rows.reads import Reads
from db.rows.trees import TOKENS
from runner.result import Result
from runner.tools.builtin import SERVER
from server.views.answers import ExecutionNode, ExecutionTree
from server.views.bundles import subtree_sums
from server.views.figures import Change, ComparedNode, ComparedPair, ComparedTree, Difference, TreeComparison
from server.views.times import WAITS
from server.views.trees import Trees, cut_at

Row = Mapping[str, Any]

ANSWER, CALL = 2_000, 200
"""Characters of an answer and of a call."""
NOTABLE = 0.1
"""The share by which cost or time must differ to be named: clocks and prices always differ a little."""
LEAST_USD, LEAST_SECONDS = 0.0001, 1.0
"""And the least amounts."""

_ID = re.compile(f"[{ALPHABET}]{{{TIME_DIGITS + RANDOM_DIGITS}}}")
_WORD = re.compile(r"[\w-]+")


@dataclass(slots=True)
class _Side:
    """One tree, with its texts and calls."""

    tree: ExecutionTree
    texts: Mapping[str, Row]
    calls: Mapping[str, Sequence[str]]
    handles: frozenset[str]
    """Of all its calls: they are new in each run, also where an answer cites them."""
    children: dict[str, list[ExecutionNode]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.tree.nodes[1:]:
            self.children.setdefault(node.parent_execution_id, []).append(node)

    def compared(self, node: ExecutionNode) -> ComparedNode:
        return ComparedNode(
            **{name: getattr(node, name) for name in ("id", "short_id", "status", "outcome", "tool_call_count")},
            task=self.texts[node.id]["task"] or "",
            answer=cut_at(self.answer(node), ANSWER),
            seconds=_ran(node),
            tokens=sum(getattr(node, name) for name in TOKENS),
            cost_usd=node.cost_usd,
            tool_calls=list(self.calls.get(node.id, ())),
        )

    def answer(self, node: ExecutionNode) -> str:
        """Without ids and handles, which differ in every run."""
        stored = self.texts[node.id]["result"]
        text = Result.of_json(stored).text if stored is not None else ""
        return _WORD.sub(lambda word: "…" if word[0] in self.handles else word[0], _ID.sub("…", text))

    def whole(self) -> ComparedTree:
        node = self.tree.nodes[0]
        sums = subtree_sums(self.tree.nodes)[node.id]
        return ComparedTree(
            **{name: getattr(node, name) for name in ("id", "short_id", "agent", "status", "outcome", "created_at")},
            task=self.texts[node.id]["task"] or "",
            seconds=_ran(node),
            tokens=sums.tokens,
            cost_usd=sums.cost_usd,
            pricing=sorted({kind for each in self.tree.nodes for kind in each.pricing}),
            executions=sums.executions,
            answer=cut_at(self.answer(node), ANSWER),
        )


class Comparisons:
    """Pairs of trees of one database."""

    def __init__(self, reads: Reads, trees: Trees) -> None:
        self._reads, self._trees = reads, trees

    async def of(self, a: str, b: str) -> TreeComparison:
        """Two trees side by side; raises UnknownExecution."""
        left, right = await self._side(a), await self._side(b)
        pairs = list(_pairs(left, right, left.tree.nodes[0], right.tree.nodes[0], 0))
        equal = all(pair.change == "same" for pair in pairs)
        return TreeComparison(a=left.whole(), b=right.whole(), pairs=pairs, equal=equal)

    async def _side(self, top: str) -> _Side:
        tree = await self._trees.tree(top)
        ids = [node.id for node in tree.nodes]
        texts = {row["id"]: row for row in await self._reads.contents.texts(ids)}
        calls: dict[str, list[str]] = {}
        made = await self._reads.contents.tool_calls(ids)
        for row in made:
            if row["server"] != SERVER or row["tool"] not in WAITS:  # how often it asked is chance
                named = f"{row['tool']} {_ID.sub('…', row['arguments'])}"
                calls.setdefault(row["execution_id"], []).append(cut_at(named, CALL))
        return _Side(tree, texts, calls, frozenset(row["call_id"] for row in made))


def _pairs(left: _Side, right: _Side, a: ExecutionNode, b: ExecutionNode, level: int) -> Iterator[ComparedPair]:
    yield _pair(left, right, a, b, level)
    matched = _matched(left, right, left.children.get(a.id, ()), right.children.get(b.id, ()))
    for one, other in matched:
        if one is not None and other is not None:
            yield from _pairs(left, right, one, other, level + 1)
        elif one is not None:
            yield from _alone(left, one, level + 1, "only_a")
        elif other is not None:
            yield from _alone(right, other, level + 1, "only_b")


def _alone(side: _Side, node: ExecutionNode, level: int, change: Change) -> Iterator[ComparedPair]:
    shown = side.compared(node)
    a, b = (shown, None) if change == "only_a" else (None, shown)
    yield ComparedPair(level=level, agent=node.agent, change=change, differs=[], a=a, b=b)
    for child in side.children.get(node.id, ()):
        yield from _alone(side, child, level + 1, change)


Match = tuple[ExecutionNode | None, ExecutionNode | None]


def _matched(left: _Side, right: _Side, mine: Sequence[ExecutionNode], theirs: Sequence[ExecutionNode]) -> list[Match]:
    """Children in the same place: first those that match in most, then in less; in the order of the first tree."""
    found: dict[str, ExecutionNode] = {}
    taken: set[str] = set()
    for key in _KEYS:
        free: dict[tuple[Any, ...], list[ExecutionNode]] = {}
        for each in theirs:
            if each.id not in taken:
                free.setdefault(key(right, each), []).append(each)
        for each in mine:
            if each.id not in found and (same := free.get(key(left, each))):
                found[each.id] = same.pop(0)
                taken.add(found[each.id].id)
    pairs: list[Match] = [(each, found.get(each.id)) for each in mine]
    return [*pairs, *((None, each) for each in theirs if each.id not in taken)]


def _place(node: ExecutionNode) -> tuple[Any, ...]:
    return (node.agent, node.role, node.stage, node.step_id)


_KEYS: Sequence[Callable[[_Side, ExecutionNode], tuple[Any, ...]]] = (
    lambda side, node: (*_place(node), side.texts[node.id]["task"], node.position),
    lambda side, node: (*_place(node), side.texts[node.id]["task"]),
    lambda _, node: (*_place(node), node.position),
    lambda _, node: _place(node),
)


def _pair(left: _Side, right: _Side, a: ExecutionNode, b: ExecutionNode, level: int) -> ComparedPair:
    one, other = left.compared(a), right.compared(b)
    differs: list[Difference] = ["agent"] if a.agent != b.agent else []
    if _ID.sub("…", one.task) != _ID.sub("…", other.task):
        differs.append("task")
    if (one.status, one.outcome) != (other.status, other.outcome):
        differs.append("status")
    if left.answer(a) != right.answer(b):
        differs.append("answer")
    if Counter(one.tool_calls) != Counter(other.tool_calls):  # calls at the same time have no order
        differs.append("calls")
    change: Change = "changed" if differs else "same"
    if _notable(one.cost_usd, other.cost_usd, LEAST_USD):
        differs.append("cost")
    if _notable(one.seconds, other.seconds, LEAST_SECONDS):
        differs.append("time")
    return ComparedPair(level=level, agent=a.agent, change=change, differs=differs, a=one, b=other)


def _notable(one: float, other: float, least: float) -> bool:
    return abs(one - other) > max(least, NOTABLE * max(one, other))


def _ran(node: ExecutionNode) -> float:
    times = node.times
    return float(round(times.model + times.tool + times.approval + times.children + times.idle, 6))
