"""Asking in place: the person who watches a tree decides about its calls as they come up.

Owns which question is before the person, and what a typed line means. Must not know: how the tree is painted.
Invariant: an answer counts for the call that was shown, and only if it was typed after that; whatever is not a clear yes or
no leaves the question open.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import anyio

from db.errors import StoreError
from server.cli.approve import as_text, is_yes
from server.cli.terminal.keyboard import forget_typed, is_in_foreground
from server.cli.terminal.options import person

if TYPE_CHECKING:
    from runner.approvals.approvals import Approvals
    from runner.snapshot import Question
    from server.cli.show.tree_view import Painter

LOOK_SECONDS = 1.0
"""Between looks at whether the question was answered elsewhere meanwhile, or has expired."""
MOST = 65_536
"""Bytes read at once."""
PROMPT = "Allow? [y]es, [n]o and why, anything else leaves it open: "


def can_ask_here() -> bool:
    """Whether a person sits before this process who sees the tree and can type."""
    return os.name == "posix" and sys.stdin.isatty() and sys.stderr.isatty()


class ApprovalPrompt:
    """Puts the questions of one tree to the person at this terminal, one after the other."""

    def __init__(self, approvals: Approvals, painter: Painter) -> None:
        self._approvals, self._painter = approvals, painter
        self._left: set[str] = set()
        """The questions that the person leaves open."""

    async def run(self, root: str) -> None:
        """Ask as long as the person can answer."""
        while True:
            news = self._approvals.news
            question = next((each for each in await self._approvals.open(root) if each.id not in self._left), None)
            if question is None:
                await news.wait()
                continue
            forget_typed()
            self._painter.ask(as_text(question, digest=True), PROMPT)
            line = await self._line(root, question.id)
            self._painter.answered(typed=line is not None)
            if line == "":
                return  # the terminal is gone
            if line is not None:
                await self._take(question, line)

    async def _line(self, root: str, approval: str) -> str | None:
        """What the person types, with the end of the line; None when it is not asked any more."""
        while True:
            with anyio.move_on_after(LOOK_SECONDS):
                return await _typed()
            if approval not in {each.id for each in await self._approvals.open(root)}:
                return None

    async def _take(self, question: Question, line: str) -> None:
        from runner.approvals.approvals import ApprovalAnswer

        first, _, reason = line.strip().partition(" ")
        if is_yes(line):
            word = ApprovalAnswer(approved=True, by=person())
        elif first.casefold() in ("n", "no"):
            word = ApprovalAnswer(approved=False, by=person(), reason=reason.strip())
        else:
            self._left.add(question.id)
            return
        try:
            if not await self._approvals.decide(question, word):
                self._painter.say(f"approval `{question.id}` was decided elsewhere, or has expired")
        except StoreError as error:
            self._painter.say(f"not decided: {error}")


async def _typed() -> str:
    """A line from the terminal, without a thread: who stops waiting has taken nothing. Empty when the terminal is gone."""
    descriptor = sys.stdin.fileno()
    while True:
        await anyio.wait_readable(descriptor)
        if is_in_foreground():
            break
        await anyio.sleep(LOOK_SECONDS)
    try:
        return os.read(descriptor, MOST).decode(sys.stdin.encoding or "utf-8", errors="replace")
    except OSError:
        return ""
