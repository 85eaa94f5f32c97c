"""The live tree: what events make of it, what is folded, and that no picture is larger than its window."""

import gc
import json
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from rich.cells import cell_len

from server.cli.show.tree_columns import drawn
from server.cli.show.tree_model import TreeModel
from server.cli.show.tree_node import TreeNode
from server.cli.show.tree_rows import Row, rows_of
from server.shapes import shape
from server.wording import duration, happening, price, tokens

START = "2026-01-01T00:00:00.000000Z"
NOW = 1767225610.0
"""Ten seconds after START."""


class Story:
    """Events as the recorder makes them."""

    def __init__(self) -> None:
        self.model = TreeModel()
        self.told: list[dict[str, Any]] = []
        self.at = START

    def event(
        self, execution: str, name: str, /, *, parent: str | None = None, stored: bool = True, **payload: Any
    ) -> None:
        """Something happened."""
        self.told.append(
            {
                "seq": len(self.told) + 1 if stored else None,
                "execution_id": execution,
                "parent_execution_id": parent,
                "root_execution_id": "root",
                "type": name,
                "payload": json.dumps(payload),
                "at": self.at,
            }
        )
        self.model.apply(self.told[-1])

    def begin(self, execution: str, parent: str | None = None, agent: str = "", **more: Any) -> None:
        """An execution is born and starts."""
        self.born(execution, parent, agent, **more)
        self.event(execution, "execution.status", parent=parent, status="running", agent=agent or execution)

    def born(self, execution: str, parent: str | None = None, agent: str = "", **more: Any) -> None:
        """An execution is born."""
        self.event(execution, "execution.status", parent=parent, status="pending", agent=agent or execution, **more)

    def think(self, execution: str, text: str = "", **more: Any) -> None:
        """A model answered."""
        call = {"kind": "model", "text": text, "tokens": 100, "cost_usd": 0.5, "pricing": "priced", **more}
        self.event(execution, "timeline_event.completed", **call)

    def end(self, execution: str, status: str = "completed", **more: Any) -> None:
        """An execution ended."""
        self.event(execution, "execution.status", status=status, agent=execution, outcome=status, **more)

    @property
    def root(self) -> TreeNode:
        """The top."""
        assert self.model.root is not None
        return self.model.root

    def rows(self, **look: Any) -> list[Row]:
        """The rows of the picture."""
        return rows_of(self.root, NOW, **{"fold": True, **look})

    def lines(self, width: int = 100, **look: Any) -> list[str]:
        """The lines of the picture."""
        return [line.plain for line in drawn(self.rows(**look), width)]


@pytest.fixture
def story() -> Story:
    """A root with nothing below it yet."""
    made = Story()
    made.begin("root", agent="Lead")
    return made


def test_the_time_of_a_resumed_execution_counts_from_its_first_start() -> None:
    story = Story()
    story.begin("root")
    story.at = START.replace("00:00:00", "00:00:07")
    story.event("root", "execution.status", status="running", agent="root")

    assert story.root.elapsed(NOW) == 10


def test_a_row_has_shape_agent_action_time_tokens_and_price(story: Story) -> None:
    story.think("root")
    story.event("root", "execution.progress", stored=False, action="calling logs.query")

    first, total = story.lines()

    assert first.split() == ["◐", "Lead", "root", "calling", "logs.query", "10.0s", "100", "tok", "~$0.5000"]
    assert total.split() == ["total", "1", "execution", "·", "1", "running", "10.0s", "100", "tok", "~$0.5000"]


def test_what_was_rehearsed_shows_that_instead_of_a_price(story: Story) -> None:
    story.think("root", pricing="rehearsed", cost_usd=0.0)

    assert all(line.endswith("rehearsed") for line in story.lines())


def test_a_finished_subtree_folds_to_one_line_with_its_sums(story: Story) -> None:
    story.begin("middle", "root")
    story.begin("leaf", "middle")
    for execution in ("middle", "leaf", "leaf"):
        story.think(execution, "## Finding\n\n**it was** the disk")
    story.end("leaf", tokens=200, cost_usd=1.0)
    story.end("middle", tokens=100, cost_usd=0.5)

    folded, whole = story.lines(), story.lines(fold=False)

    assert " ".join(folded[1].split()) == "└─ ● middle middle with 1 agent · it was the disk 0.0s 300 tok ~$1.50"
    assert len(whole) == len(folded) + 1
    assert whole[2].startswith("   └─ ● leaf")


def test_failures_stay_open(story: Story) -> None:
    story.begin("middle", "root")
    story.begin("leaf", "middle")
    story.end("leaf", "failed", error="no disk")
    story.end("middle")

    lines = story.lines()

    assert lines[1].startswith("└─ ● middle")
    assert lines[2].startswith("   └─ ✕ leaf")
    assert "failed: no disk" in lines[2]
    assert "1 failed" in lines[-1]


def test_an_upstream_that_is_missing_stands_below_its_agent_once(story: Story) -> None:
    for _ in range(2):
        story.event("root", "upstream.unavailable", server="loki", message="cannot be reached\nhint: check it")

    assert story.lines()[1] == "! upstream loki unavailable: cannot be reached"
    assert len(story.lines()) == 3


def test_a_refused_dispatch_stands_below_its_agent(story: Story) -> None:
    story.event(
        "root", "timeline_event.completed", kind="dispatch", agent="Nobody", refused="unknown_agent", reason="no such agent"
    )

    assert story.lines()[1] == "! dispatch of Nobody refused: no such agent"


def test_a_cancel_is_shown_as_asked_for_and_then_as_done(story: Story) -> None:
    story.event("root", "execution.progress", action="cancel requested", by="somebody", reason="enough")
    asked = story.lines()[0]
    story.end("root", "cancelled")

    assert asked.startswith("◐ Lead  root  cancelling")
    assert story.lines()[0].startswith("⊘ Lead  root  cancelled")


def test_partial_has_a_shape_of_its_own(story: Story) -> None:
    story.event("root", "execution.status", status="completed", agent="Lead", outcome="partial", reason="time_budget")

    assert story.lines()[0].startswith("◕ Lead  root  partial (time_budget)")


def test_a_row_has_the_short_id_the_first_words_of_the_task_and_the_stage() -> None:
    story = Story()
    top, ann, bob = "0" * 31 + "1aaaaa", "1" * 31 + "222222", "2" * 31 + "333333"
    story.begin(top, agent="look", role="root", task="Why is checkout slow?\n\nSince noon.")
    story.event(top, "execution.progress", action="stage 2 of 3: weigh", stage="weigh", number=2, of=3)
    story.begin(ann, top, agent="Ann", role="stage", stage="weigh", task="Why is checkout slow?")
    story.begin(bob, ann, agent="Bob", role="sub_agent", stage="weigh", task="Read the logs")

    lines = [" ".join(line.split()) for line in story.lines(140)]

    assert lines[0] == "◐ look 1aaaaa Why is checkout slow? stage 2 of 3: weigh 10.0s"
    assert lines[1] == "└─ ◐ Ann (weigh) 222222 starting 10.0s", "it has its parent's task"
    assert lines[2] == "└─ ◐ Bob 333333 Read the logs starting 10.0s"


def test_short_ids_differ_within_a_tree(story: Story) -> None:
    ends = ["a1xxxxxx", "b1xxxxxx", "c2xxxxxx"]
    for end in ends:
        story.begin("0" * 29 + end, "root")

    assert [node.short for node in story.root.children] == ["a1xxxxxx", "b1xxxxxx", "2xxxxxx"]


@pytest.mark.parametrize("width", [20, 39, 60, 79, 99, 100, 200])
def test_no_line_with_tasks_and_ids_is_wider_than_the_terminal(story: Story, width: int) -> None:
    for number in range(3):
        story.begin(f"{number:037}", "root", agent=f"Agent {number}", task="検査員 " * 20, role="stage", stage="a stage")
        story.think(f"{number:037}", "検査員 " * 20)

    lines = story.lines(width)

    assert max(cell_len(line) for line in lines) <= width
    assert ("000001" in lines[2]) == (width >= 40)
    assert "4 running" in lines[-1] or width < 60


@pytest.mark.parametrize("height", [3, 5, 10, 24])
def test_a_window_is_never_higher_than_asked_and_keeps_what_failed(story: Story, height: int) -> None:
    story.begin("bad", "root")
    story.end("bad", "failed", error="no disk")
    for number in range(300):
        (story.begin if number < 200 else story.born)(f"child {number}", "root")
        if number < 190:
            story.end(f"child {number}")

    lines = story.lines(most=height)

    assert len(lines) <= height
    assert lines[-1].startswith("total")
    if height > 4:
        assert any("✕ bad" in line for line in lines)
    assert any("more" in line for line in lines)
    if height == 24:
        assert sum("◐ child" in line for line in lines) == 10
        more = next(line for line in lines if "more" in line)
        assert " ".join(more.split()) == "└─ … 280 more 100 pending, 180 completed"


def test_room_is_shared_by_those_that_need_it(story: Story) -> None:
    for team in "abcd":
        story.begin(f"team {team}", "root")
        for number in range(50):
            story.begin(f"{team}{number}", f"team {team}")

    lines = story.lines(most=20)

    assert len(lines) == 20
    seen = [sum(f" ◐ {team}" in line for line in lines) for team in "abcd"]
    assert seen == [2, 2, 3, 3]
    assert sum("more" in line for line in lines) == 4


def test_what_is_not_shown_is_counted_with_its_tokens_and_price(story: Story) -> None:
    for number in range(100):
        story.begin(f"child {number}", "root")
        story.think(f"child {number}")
        if number % 3:
            story.end(f"child {number}", tokens=100, cost_usd=0.5)

    more = next(line for line in story.lines(most=12) if "more" in line)

    assert " ".join(more.split()) == "└─ … 91 more 25 running, 66 completed 9,100 tok ~$45.50"


def calls_in(work: Callable[[], object]) -> int:
    """How many functions are called meanwhile: the work done, whatever the machine does besides."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    gc.collect()
    gc.disable()  # what it calls is not of this work
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


def crowd(size: int, team: int = 200) -> Story:
    """Teams in which a tenth is at work, some are in trouble, some still wait, and the rest are done."""
    story = Story()
    story.begin("root", agent="Lead")
    for number in range(size):
        parent = f"team {number // team}"
        if number % team == 0:
            story.begin(parent, "root")
        name = f"child {number}"
        (story.born if number % 10 == 9 else story.begin)(name, parent)
        if number % 10 < 8:
            story.think(name)
            story.end(name, "failed" if number % 100 == 0 else "completed", tokens=100, cost_usd=0.5)
    return story


@pytest.mark.parametrize("team", [200, 10_000])
def test_a_picture_costs_what_its_rows_cost_however_many_executions_there_are(team: int) -> None:
    """Ten times the executions, the same work: 1,000 and 10,000, in many teams and in one."""
    small, large = crowd(1_000, team), crowd(10_000, team)

    def frame(story: Story) -> list[str]:
        return story.lines(80, most=24)

    assert len(frame(small)) == len(frame(large)) == 24
    assert calls_in(lambda: frame(large)) <= calls_in(lambda: frame(small)) * 1.2


def test_an_event_costs_the_same_however_many_executions_there_are() -> None:
    def one_life(story: Story) -> int:
        def live() -> None:
            story.begin("newcomer", "team 0")
            story.think("newcomer", "a finding")
            story.event("newcomer", "upstream.lost", server="loki", message="gone")
            story.end("newcomer", tokens=100, cost_usd=0.5)

        return calls_in(live)

    assert one_life(crowd(10_000, team=10_000)) == one_life(crowd(1_000, team=10_000))


def test_the_sums_that_are_kept_are_those_of_the_tree() -> None:
    story = crowd(1_000)
    nodes = list(story.model.nodes.values())

    assert story.root.sums.executions == len(nodes)
    assert story.root.sums.tokens == sum(node.tokens for node in nodes)
    assert story.root.sums.statuses == {**Counter(node.status for node in nodes)}
    assert len(story.rows(fold=False)) == len(nodes) + 1
    assert len(story.rows()) == story.root.height + 1


@pytest.mark.parametrize("width", [20, 40, 71, 72, 100, 200])
def test_no_line_is_wider_than_the_terminal(story: Story, width: int) -> None:
    story.begin("child", "root", agent="a name that is much longer than any column 検査員検査員検査員検査員検査員")
    story.event("child", "execution.progress", stored=False, action="calling " + "a very long tool name " * 20)
    story.event("root", "upstream.lost", server="loki", message="gone " * 100)

    assert max(cell_len(line) for line in story.lines(width)) <= width


def test_text_from_outside_cannot_move_the_cursor(story: Story) -> None:
    story.think("root", "\x1b[2Jgone\x07 \u202e")
    story.end("root")

    assert "�[2Jgone� �" in story.lines()[0]


def test_events_that_come_again_change_nothing(story: Story) -> None:
    story.think("root")
    before = story.lines()

    for event in story.told:
        assert story.model.apply(event) is None

    assert story.lines() == before


def test_an_event_of_an_unknown_execution_is_left_aside(story: Story) -> None:
    story.event("stranger", "execution.progress", stored=False, action="lurking")

    assert list(story.model.nodes) == ["root"]


def test_figures_are_short() -> None:
    assert [duration(each) for each in (0.04, 59.9, 65, 3700, 90_000)] == ["0.0s", "59.9s", "1m 05s", "1h 01m", "1d 1h"]
    assert [tokens(each) for each in (987, 12_345, 4_560_000)] == ["987 tok", "12.3k tok", "4.56M tok"]
    assert price(0.01234, ["priced"]) == "~$0.0123"
    assert price(12.5, ["priced", "unpriced"]) == "≥$12.50"
    assert price(0, ["unpriced"]) == "unpriced"
    assert price(0, []) == "-"


def test_every_status_has_a_shape_of_its_own() -> None:
    from db.status import ExecutionStatus

    shapes = [shape(status.value) for status in ExecutionStatus] + [shape("completed", "partial")]
    assert len(set(shapes)) == len(shapes)
    assert "?" not in shapes


@pytest.mark.parametrize(
    ("kind", "payload", "words"),
    [
        ("timeline_event.created", {"kind": "tool", "tool": "logs.query"}, "calling logs.query"),
        ("timeline_event.completed", {"kind": "tool", "tool": "logs.query"}, "logs.query answered"),
        ("timeline_event.completed", {"kind": "tool", "tool": "logs.query", "is_error": True}, "logs.query failed"),
        ("timeline_event.completed", {"kind": "dispatch", "agent": "Left"}, "dispatch of Left done"),
        ("timeline_event.completed", {"kind": "model"}, "thinking"),
        ("execution.progress", {"waiting_for": "children"}, "waiting for children"),
        ("delivery.consumed", {}, "reading results"),
        ("upstream.lost", {"server": "loki"}, "upstream loki lost"),
        (
            "context.compacted",
            {"stage": "results", "before_tokens": 160_000, "after_tokens": 9_000},
            "conversation shortened from 160.0k tok to 9,000 tok",
        ),
    ],
)
def test_events_are_told_in_words(kind: str, payload: dict[str, Any], words: str) -> None:
    assert happening(kind, payload) == words


def test_of_agents_who_carry_out_steps_or_tasks_the_tree_says_which() -> None:
    story = Story()
    for number, (role, step) in enumerate([("root", None), ("planner", "plan.1"), ("step", "s1"), ("worker", "task.2")]):
        parent = "e0" if number else None
        story.event(f"e{number}", "execution.status", parent=parent, status="pending", agent="A", role=role, step_id=step)

    assert [node.agent for node in story.model.nodes.values()] == ["A", "A", "A (s1)", "A (task.2)"]
