"""The executions of a big database: which trees there are, what each execution was, and how much each has done.

Owns the mix and its scale. Must not know: how a row looks or is written. Invariant: the same size, seed and moment give
the same trees, and a parent comes before its children.

The scale: a million executions of a real service have some 50 million events, eleven turns each. Here an execution has
1.4 turns and 7 events, so that the database has gigabytes instead of tens of gigabytes. The number of executions, which
lists, ids and sums depend on, is not scaled. What depends on the length of one execution, a transcript or the events of a
tree, is asked of executions of a hundred turns, of which each 5,000 executions have one. An index of seven times as many
events is a fraction of a level deeper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from db.ids import ALPHABET, RANDOM_DIGITS, TIME_DIGITS

LARGE, HUGE = 1_000, 10_000
"""The executions of a large tree, and of a huge one."""
LONG_EVERY, LONG_TURNS = 5_000, 100
"""Each execution of this many has as many turns."""
OPEN_EVERY = 5_000
"""There is an open tree for each executions of this many: two hundred in a database of a million."""
DAYS = 90
"""The days over which the executions are spread."""

KINDS = ((1, 1, 0.25), (2, 10, 0.45), (11, 100, 0.15), (LARGE, LARGE, 0.13), (HUGE, HUGE, 0.02))
"""Trees: the least and the most executions of a tree, and the share of all executions that are in such trees."""
ENDS = {"completed": 0.88, "failed": 0.06, "cancelled": 0.03, "timed_out": 0.02, "skipped": 0.007, "blocked": 0.003}
TURNS = {1: 0.7, 2: 0.2, 3: 0.1}
AGENTS = tuple(f"agent-{number:02}" for number in range(30))
TOP_AGENTS = 20
"""The first agents may be top-level; the others only work for them."""
MODELS = ("model-large", "model-medium", "model-small")
PRINCIPALS = (None, *(f"principal-{number:02}" for number in range(20)))
TREES_OF_SESSION = 8
STAGES = 3
"""The stages of a chain; one root in twenty is a chain."""
CHAINS = 0.05
MOST_CHILDREN = 30

Choice = TypeVar("Choice")


def identifier(microseconds: int, dice: Random) -> str:
    """An id as `db.ids.new_id` makes it, of a given moment and given dice."""
    digits, number = [], microseconds << 5 * RANDOM_DIGITS | dice.getrandbits(128)
    for _ in range(TIME_DIGITS + RANDOM_DIGITS):
        digits.append(ALPHABET[number & 31])
        number >>= 5
    return "".join(reversed(digits))


@dataclass(slots=True)
class Member:
    """One execution of a tree; times are microseconds since 1970."""

    id: str
    parent: Member | None
    position: int
    agent: str
    strategy: str
    stage: str | None
    status: str
    turns: int
    created: int
    seconds: float
    depth: int = 0
    children: int = 0

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.status in ("pending", "running")

    @property
    def path(self) -> str:
        """The agents above it and its own."""
        return f"{self.parent.path}/{self.agent}" if self.parent is not None else self.agent


@dataclass(slots=True)
class Tree:
    """One tree, parents before children."""

    principal: str | None
    session: str
    members: list[Member] = field(default_factory=list)

    @property
    def root(self) -> Member:
        """Its top-level execution."""
        return self.members[0]


class Population:
    """The trees of one database."""

    def __init__(self, executions: int, seed: int, until: int, open_roots: int = 0) -> None:
        self.executions, self.until = executions, until
        self.open_roots = open_roots or max(20, executions // OPEN_EVERY)
        """The newest trees are open."""
        self._dice = Random(seed)
        self._made = 0
        self._sessions: list[str] = []

    def trees(self) -> Iterator[Tree]:
        """All trees, older ones first."""
        sizes = self._sizes()
        began = self.until - DAYS * 86_400_000_000
        step = (self.until - began) // (len(sizes) + 1)
        for number, size in enumerate(sizes):
            left = len(sizes) - number
            at = self.until - left * 5_000_000 if left <= self.open_roots else began + number * step
            yield self._tree(size, at, is_open=left <= self.open_roots)

    def _sizes(self) -> list[int]:
        sizes = []
        for least, most, share in KINDS:
            left = int(self.executions * share)
            while left > 0:
                sizes.append(min(left, self._dice.randint(least, most)))
                left -= sizes[-1]
        self._dice.shuffle(sizes)
        return sizes

    def _tree(self, size: int, at: int, *, is_open: bool) -> Tree:
        dice = self._dice
        if not self._sessions or dice.random() < 1 / TREES_OF_SESSION:
            self._sessions = [*self._sessions[-20:], f"sess_{at // 1_000_000}_{dice.getrandbits(30):06x}"]
        whose = PRINCIPALS[min(int(dice.paretovariate(1.0)) - 1, len(PRINCIPALS) - 1)]
        tree = Tree(whose, dice.choice(self._sessions))
        is_chain = size > STAGES and dice.random() < CHAINS
        wide: list[Member] = []
        """Those that may have another child."""
        for number in range(size):
            parent = dice.choice(wide) if wide else None
            stage = None
            if is_chain and 0 < number <= STAGES:
                parent, stage = tree.root, f"stage-{number}"
            member = self._member(parent, at + number * 20_000, stage, is_open=is_open)
            if number == 0 and is_chain:
                member.strategy, member.agent = "chain", "chain-review"
            tree.members.append(member)
            if member.depth < 5:
                wide.append(member)
            if parent is not None and parent.children >= MOST_CHILDREN and parent in wide:
                wide.remove(parent)
        return tree

    def _member(self, parent: Member | None, at: int, stage: str | None, *, is_open: bool) -> Member:
        dice = self._dice
        self._made += 1
        if parent is not None:
            parent.children += 1
        status = _one_of(ENDS, dice)
        if is_open and (parent is None or (parent.is_open and dice.random() < 0.5)):
            status = "running" if parent is None or dice.random() < 0.8 else "pending"
        turns = 0 if status in ("pending", "skipped", "blocked") else _one_of(TURNS, dice)
        long = self._made % LONG_EVERY == LONG_EVERY // 2
        return Member(
            id=identifier(at, dice),
            parent=parent,
            position=parent.children if parent is not None else 1,
            agent=AGENTS[min(int(dice.expovariate(0.15)), (TOP_AGENTS if parent is None else len(AGENTS)) - 1)],
            strategy="loop",
            stage=stage,
            status=status,
            turns=LONG_TURNS if long and turns else turns,
            created=at,
            seconds=dice.expovariate(1 / 20) + 0.2,
            depth=parent.depth + 1 if parent is not None else 0,
        )


def _one_of(shares: Mapping[Choice, float], dice: Random) -> Choice:
    return dice.choices(list(shares), list(shares.values()))[0]
