"""The pure step: whatever a model says and whatever arrives, it ends, and never too early."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from runner.messages import Answer, Block, Message, ToolCall, tool_results
from runner.strategies.loop.step import (
    AskAgain,
    AskModel,
    Conclude,
    Continue,
    Drain,
    Finish,
    Mail,
    RunTools,
    SettleChildren,
    Wait,
    step,
)
from runner.strategies.loop.transcript import Transcript
from tests.support.requirement import requirement

STOPS = st.sampled_from(["end_turn"] * 4 + ["max_tokens", "pause_turn", "model_context_window_exceeded", "moon_phase"])


@dataclass
class Play:
    """A loop around `step` without a model, tools or rows: children are numbers, and replies are drawn."""

    transcript: Transcript
    pending: int = 0
    waiting: int = 0
    turns: int = 0
    wrap_up: str | None = None
    questions_with_open_calls: int = 0
    concluded: int = 0
    exhausted: bool = False

    def reply(self, kind: str, stop_reason: str) -> None:
        """The model says something."""
        assert not self.exhausted
        self.turns += 1
        self.questions_with_open_calls += bool(self.transcript.unanswered)
        asked: Block = {"type": "tool_use", "id": f"call-{self.turns}", "name": "dispatch_agent", "input": {}}
        contents: dict[str, list[Block]] = {"calls": [asked], "text": [{"type": "text", "text": "so"}], "empty": []}
        self.transcript.append(Message("assistant", contents[kind], "reply"), stop_reason)
        if stop_reason == "model_context_window_exceeded":
            self.transcript.unanswered = []
        self.exhausted = self.transcript.exhausted

    def act(self, action: object, draw: st.DataObject) -> None:
        """Carry out what `step` wants."""
        match action:
            case AskModel() | AskAgain() | Continue():
                if not isinstance(action, AskModel):
                    self.transcript.append(Message.of_text("user", "say something", "note"))
                self.reply(draw.draw(st.sampled_from(["calls", "text", "empty"])), draw.draw(STOPS))
            case RunTools(calls):
                self.transcript.append(tool_results(Answer(call, "done") for call in calls))
                self.pending += draw.draw(st.integers(0, 2))
            case Drain():
                assert self.waiting
                self.waiting = 0
                self.transcript.append(Message("user", [{"type": "text", "text": "arrived"}], "delivery"))
            case Wait():
                assert self.pending
                ended = draw.draw(st.integers(1, self.pending))
                self.pending, self.waiting = self.pending - ended, self.waiting + ended
            case SettleChildren():
                assert self.pending
                self.pending, self.waiting = 0, self.waiting + self.pending
            case Conclude():
                self.concluded += 1
                self.transcript.append(Message.of_text("user", "conclude", "conclude"))
                self.reply(draw.draw(st.sampled_from(["text", "empty"])), draw.draw(STOPS))

    def happen(self, draw: st.DataObject) -> None:
        """Something from outside, at any moment: a child ends, a message comes, it is time to wrap up."""
        what = draw.draw(st.sampled_from(["nothing"] * 5 + ["ends", "message", "wrap up"]))
        if what == "ends" and self.pending:
            self.pending, self.waiting = self.pending - 1, self.waiting + 1
        elif what == "message" and self.turns < 20:
            self.waiting += 1
        elif what == "wrap up":
            self.wrap_up = self.wrap_up or "time_budget"


@requirement("S2-CT-4", "S2-CT-5", "S2-CT-8", "S2-GR-8")
@given(draw=st.data(), cancel_on_finish=st.booleans(), ready=st.booleans(), most=st.integers(1, 20))
def test_a_loop_always_ends_and_never_with_something_open_or_unread(
    draw: st.DataObject, cancel_on_finish: bool, ready: bool, most: int
) -> None:
    play = Play(Transcript())
    play.transcript.append(Message.of_text("user", "do it", "task"))
    for _ in range(400):
        if play.turns >= most:
            play.wrap_up = play.wrap_up or "max_iterations"
        mail = Mail(play.waiting, play.pending, ready or not play.pending)
        action = step(play.transcript, mail, play.wrap_up, cancel_on_finish=cancel_on_finish)
        if isinstance(action, Finish):
            break
        play.act(action, draw)
        play.happen(draw)
    else:
        raise AssertionError("it does not end")

    assert play.pending == 0
    assert play.waiting == 0
    assert play.questions_with_open_calls == 0
    assert not play.transcript.unanswered


@given(
    waiting=st.integers(0, 3),
    pending=st.integers(0, 3),
    ready=st.booleans(),
    wrap_up=st.sampled_from([None, "time_budget"]),
    cancel_on_finish=st.booleans(),
    final=st.booleans(),
)
def test_open_tool_calls_come_first_whatever_else_there_is(
    waiting: int, pending: int, ready: bool, wrap_up: str | None, cancel_on_finish: bool, final: bool
) -> None:
    transcript = Transcript()
    transcript.append(Message.of_text("user", "do it", "task"))
    transcript.append(Message("assistant", [{"type": "tool_use", "id": "1", "name": "look", "input": {}}], "reply"))
    transcript.final = "reported" if final else None

    action = step(transcript, Mail(waiting, pending, ready), wrap_up, cancel_on_finish=cancel_on_finish)

    assert action == RunTools([ToolCall("1", "look", {})])
