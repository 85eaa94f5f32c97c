"""One execution in the drawn tree, and the sums of everything below it, kept up as things change.

Owns: nodes, their sums, and the order in which children deserve to be seen. Must not know: events, terminals, words.
Invariant: after `account`, the sums of every ancestor are those of its subtree; it costs one step a level, however many
executions there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

from server.wording import ENDED

SETTLED = frozenset({"completed", "skipped"})
TROUBLE = frozenset({"failed", "timed_out", "blocked"})


class Share(NamedTuple):
    """What one execution adds to the sums above it."""

    status: str
    tokens: int
    cost_usd: float
    notes: int

    @property
    def is_trouble(self) -> bool:
        """Whether it needs to be seen."""
        return self.status in TROUBLE or self.notes > 0

    @property
    def is_settled(self) -> bool:
        """Whether nothing about it needs to be seen: it succeeded, or was not needed."""
        return self.status in SETTLED and not self.notes


@dataclass(slots=True)
class Sums:
    """An execution and everything below it, together."""

    statuses: dict[str, int] = field(default_factory=dict)
    executions: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    pricing: set[str] = field(default_factory=set)
    notes: int = 0
    troubled: int = 0
    unsettled: int = 0

    def add(self, share: Share, times: int = 1) -> None:
        """Count a share in, or with -1 out again."""
        self.statuses[share.status] = self.statuses.get(share.status, 0) + times
        self.executions += times
        self.tokens += times * share.tokens
        self.cost_usd += times * share.cost_usd
        self.notes += times * share.notes
        self.troubled += times * share.is_trouble
        self.unsettled += times * (not share.is_settled)

    def less(self, other: Sums) -> None:
        """Take a part out; what it was priced by stays."""
        for status, number in other.statuses.items():
            self.statuses[status] = self.statuses.get(status, 0) - number
        self.executions -= other.executions
        self.tokens -= other.tokens
        self.cost_usd -= other.cost_usd

    def copy(self) -> Sums:
        """The sums as they are now."""
        made = Sums(pricing=self.pricing)
        made.statuses, made.executions = dict(self.statuses), self.executions
        made.tokens, made.cost_usd = self.tokens, self.cost_usd
        return made


@dataclass(slots=True, eq=False)
class TreeNode:
    """One execution."""

    id: str
    parent: TreeNode | None
    agent: str
    born: float
    short: str = ""
    """Its short id: no other execution of the tree ends like this."""
    task: str = ""
    """What it is to do, on one line; empty where that is what its parent is to do."""
    position: int = 0
    """Its place among its siblings."""
    status: str = "pending"
    outcome: str | None = None
    reason: str | None = None
    error: str | None = None
    action: str = ""
    is_staged: bool = False
    """Whether its action names the stage of a chain, which says more than what it waits for."""
    calling: dict[str, str] = field(default_factory=dict)
    """The tools of its open calls, by call."""
    retried_since: float | None = None
    """When its model failed first, while it is being asked again."""
    said: str = ""
    """The newest text of its model, on one line."""
    began: float | None = None
    ended: float | None = None
    tokens: int = 0
    cost_usd: float = 0.0
    pricing: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    cancel_requested: bool = False
    asked: dict[str, str] = field(default_factory=dict)
    """The calls a person has to allow: their tools, by approval."""
    children: list[TreeNode] = field(default_factory=list)
    sums: Sums = field(default_factory=Sums)
    height: int = 0
    """Lines it takes with what is settled folded."""
    _below: int = 0
    _share: Share | None = None
    _rank: int | None = None
    _ranked: tuple[dict[TreeNode, None], ...] = field(default_factory=lambda: ({}, {}, {}, {}))

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.status in ENDED

    @property
    def is_folded(self) -> bool:
        """Whether nothing below it needs to be seen; the top always shows what it is made of."""
        return bool(self.children) and self.parent is not None and not self.sums.unsettled

    @property
    def path(self) -> str:
        """The agents from the top down to it."""
        return self.agent if self.parent is None else f"{self.parent.path} › {self.agent}"

    def elapsed(self, now: float) -> float:
        """Seconds since it began, or from its beginning to its end."""
        if self.began is None:
            return 0.0
        return max(0.0, (self.ended if self.ended is not None else now) - self.began)

    def lines(self, *, fold: bool) -> int:
        """Lines it takes with everything below it."""
        return self.height if fold else self.sums.executions + self.sums.notes

    def account(self) -> None:
        """Carry what changed up to the top."""
        share = Share(self.status, self.tokens, self.cost_usd, len(self.notes))
        if share == self._share and self.pricing <= self.sums.pricing:
            return
        before, self._share = self._share, share
        node: TreeNode | None = self
        while node is not None:
            if before is not None:
                node.sums.add(before, -1)
            node.sums.add(share)
            node.sums.pricing |= self.pricing
            node._take_place()
            node = node.parent

    def first_to_see(self, most: int) -> list[TreeNode]:
        """At most so many children, trouble first, then work, then the newest ends, then who waits; in their own order."""
        trouble, active, ended, waiting = self._ranked
        found = islice(chain(trouble, active, reversed(ended), waiting), most)
        return sorted(found, key=lambda child: child.position)

    def _take_place(self) -> None:
        """Let the parent know how high this subtree is and how much it deserves to be seen."""
        height = 1 + len(self.notes) + (0 if self.is_folded else self._below)
        if self.parent is not None:
            self.parent._below += height - self.height
            self._take_rank(self.parent._ranked)
        self.height = height

    def _take_rank(self, ranks: tuple[dict[TreeNode, None], ...]) -> None:
        rank = 0 if self.sums.troubled else 1 if self.sums.statuses.get("running") else 2 if self.is_over else 3
        if rank != self._rank:
            if self._rank is not None:
                del ranks[self._rank][self]
            ranks[rank][self] = None
            self._rank = rank
