"""step: from transcript, inbox and allowance to the next action. Pure, so every case can be tested.

The order of the rules is the policy of the loop. Tool calls are answered first. Once it has to wrap up, children are
settled, their results are read, and it concludes. Otherwise the inbox is drained before every model call, and the loop
waits instead of calling a model that has nothing to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runner.messages import ToolCall
from runner.strategies.loop.transcript import Transcript

EMPTY_ANSWERS = 2
"""How often a model is asked again after an empty reply."""
CONTINUATIONS = 2
"""How often an answer that was cut at its length limit is continued."""


@dataclass(frozen=True, slots=True)
class Mail:
    """The state of an inbox: deliveries, open children, and whether a waiting parent should wake."""

    waiting: int = 0
    pending: int = 0
    ready: bool = True
    spoken: int = 0
    """Messages among the deliveries: an answer given before them does not count."""


@dataclass(frozen=True, slots=True)
class AskModel:
    """Call the model, with its tools."""


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run the calls of the last reply, all in parallel."""

    calls: Sequence[ToolCall]


@dataclass(frozen=True, slots=True)
class Drain:
    """Show the model its deliveries."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for children, without a model call."""


@dataclass(frozen=True, slots=True)
class AskAgain:
    """The reply was empty."""


@dataclass(frozen=True, slots=True)
class Continue:
    """The answer was cut at its length limit."""


@dataclass(frozen=True, slots=True)
class SettleChildren:
    """No more children: pending ones are cancelled, running ones wrap up, or are cancelled too."""

    cancel: bool = False


@dataclass(frozen=True, slots=True)
class Conclude:
    """One last model call, without tools."""

    reason: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The last text is the answer."""


Action = AskModel | RunTools | Drain | Wait | AskAgain | Continue | SettleChildren | Conclude | Finish


def step(transcript: Transcript, mail: Mail, wrap_up: str | None, *, cancel_on_finish: bool = False) -> Action:
    """Decide the next action."""
    if transcript.unanswered:
        return RunTools(transcript.unanswered)
    if transcript.exhausted:
        return _close(mail)
    if transcript.concluding and transcript.resting and not mail.waiting:
        return Finish()
    if (action := _rest(transcript, mail, cancel_on_finish)) is not None:
        cut = isinstance(action, Finish) and transcript.final is None and transcript.shortfall is not None
        return Continue() if cut and wrap_up is None and transcript.continuations < CONTINUATIONS else action
    if wrap_up is not None:
        return _wrap_up(mail, wrap_up)
    if mail.waiting and (mail.ready or not transcript.resting):
        return Drain()
    if not transcript.resting:
        return AskModel()
    if mail.pending:
        return Wait()
    return AskAgain() if transcript.empty_answers <= EMPTY_ANSWERS else Conclude("empty_answers")


def _rest(transcript: Transcript, mail: Mail, cancel_on_finish: bool) -> Action | None:
    """If the model gave an answer: it counts once nothing is open or unread."""
    if not transcript.resting or transcript.empty_answers:
        return None
    if not mail.pending and not mail.waiting:
        return Finish()
    if transcript.final is None and not cancel_on_finish:
        return None
    if mail.spoken:
        return Drain()
    return SettleChildren(cancel=True) if mail.pending else Drain()


def _close(mail: Mail) -> Action:
    """Nothing can be asked any more: settle and store everything open, then finish with the last text."""
    if mail.pending:
        return SettleChildren()
    return Drain() if mail.waiting else Finish()


def _wrap_up(mail: Mail, reason: str) -> Action:
    if mail.pending:
        return SettleChildren()
    return Drain() if mail.waiting else Conclude(reason)
