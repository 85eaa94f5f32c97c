"""Composing one answer from results: the digest of the results and the message to the composer, for a plan and a route.

Pure. Owns how far each text is cut, and the mark that says so. Invariant: without elements and marks a digest is no longer
than its budget, whatever the texts hold; no text opens or closes an element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from db.status import ExecutionStatus
from runner.messages import clean
from runner.result import Outcome, Result
from runner.text import (
    BYTES_PER_TOKEN,
    cut_mark,
    escape_blocks,
    fitting,
    label,
    limit_of,
    tokens_of,
)


@dataclass(frozen=True, slots=True)
class StepTask:
    """A step as prompts and results describe it."""

    id: str
    agent: str
    task: str


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step, or its state while there is none."""

    step: StepTask
    standing: StepState

    @property
    def succeeded(self) -> bool:
        return self.standing.succeeded

    @property
    def status(self) -> str:
        """Its status as prompts show it: a step that completed without success is `failed`."""
        return "failed" if self.standing.failed and self.standing.status == "completed" else self.standing.status

    @property
    def text(self) -> str:
        """Its result; for a step that did not succeed, the reason."""
        result = self.standing.result
        if self.standing.status == ExecutionStatus.SKIPPED:
            why = f" ({result.errors[0].message})" if result is not None and result.errors else ""
            return f"not done{why}: {self.step.task}"
        if result is None:
            return f"({self.status})"
        return result.text if self.succeeded else result.why

    @property
    def opening(self) -> str:
        """The opening tag of its element."""
        return f'<step id="{self.step.id}" agent="{label(self.step.agent)}" status="{self.status}">'

    def shown(self) -> dict[str, Any]:
        """The step as data, for answers that no composer words."""
        output = self.standing.result.output if self.standing.result is not None and self.succeeded else None
        shown = {"id": self.step.id, "agent": self.step.agent, "status": self.status, "output": output}
        return shown if self.succeeded else {**shown, "error": self.text}


@dataclass(frozen=True, slots=True)
class Digest:
    """Results of steps as elements, and the ids of those whose text was cut."""

    text: str
    budget: int
    cut: tuple[str, ...] = ()
    frame: int = 0
    """Tokens of the elements and marks, without the texts in them."""

    @property
    def tokens(self) -> int:
        """Its length, elements and marks included."""
        return tokens_of(len(self.text.encode()))

    def told(self, reader: str) -> dict[str, Any]:
        """The data of its event."""
        return {"step_id": reader, "cut": list(self.cut), "budget": self.budget}


def digest_of(brought: Sequence[StepResult], budget: int, *, readable: bool = True) -> Digest:
    """Build a digest; the longest results are cut so that all fit. `readable`: the reader can fetch the rest by id."""
    texts = [clean(each.text) for each in brought]
    lengths = [len(escape_blocks(text).encode()) for text in texts]
    over = sum(lengths) - budget * BYTES_PER_TOKEN
    most = limit_of(lengths, over) if over > 0 else max(lengths, default=0)
    elements: list[str] = []
    cut: list[str] = []
    texts_size = 0
    for each, text, length in zip(brought, texts, lengths, strict=True):
        kept = text if length <= most else fitting(text, most)
        mark = ""
        if len(kept) < len(text):
            mark = cut_mark(len(kept), len(text), each.step.id if readable else None)
            cut.append(each.step.id)
        shown = escape_blocks(kept)
        texts_size += len(shown.encode())
        elements.append(f"{each.opening}\n{shown}{mark}\n</step>")
    whole = "\n".join(elements)
    return Digest(whole, budget, tuple(cut), tokens_of(len(whole.encode()) - texts_size))


def wording_of(request: str, agent: str, result: Result, budget: int) -> str:
    """The message to a composer that puts one agent's data into words."""
    step = StepTask("result", agent, request)
    digest = digest_of([StepResult(step, StepState("completed", result))], budget, readable=False)
    return composer_message(request, digest, "", "chat")


@dataclass(frozen=True, slots=True)
class StepState:
    """The state of one step."""

    status: str = ExecutionStatus.PENDING
    result: Result | None = None

    @property
    def succeeded(self) -> bool:
        """Whether later steps may build on it; decided by status and outcome, never by text."""
        fit = self.result is None or self.result.outcome in (Outcome.COMPLETED, Outcome.PARTIAL)
        return self.status == ExecutionStatus.COMPLETED and fit

    @property
    def over(self) -> bool:
        """Whether its status is terminal."""
        return self.status not in (ExecutionStatus.PENDING, ExecutionStatus.RUNNING)

    @property
    def failed(self) -> bool:
        """Whether it started and did not succeed, or was blocked."""
        return self.over and not self.succeeded and self.status != ExecutionStatus.SKIPPED


NOT_BEGUN = StepState()

STYLES = {
    "chat": "",
    "sms": "The answer is read as a text message: a few short sentences, no headings, no tables.",
    "report": "The answer is read as a report: headings, and details where they matter.",
}


def composer_message(request: str, brought: Digest, hint: str, channel: str) -> str:
    """The first message of a composer."""
    parts = [request]
    if brought.text:
        parts.append(f"<results>\n{brought.text}\n</results>")
    if hint:
        parts.append(f"<presentation>{escape_blocks(hint)}</presentation>")
    return "\n\n".join([*parts, *filter(None, [STYLES[channel]])])
