"""A tree as plain lines, one for each thing that happens: for logs, pipes and terminals that cannot redraw.

Owns which events are worth a line, and its form. Must not know: where the events come from. Invariant: a line is told once,
with the time since the tree began, also when its event is read long afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio

from db.clock import moment
from server.cli.show.tree_model import TreeModel
from server.cli.show.tree_node import TreeNode
from server.cli.show.tree_rows import asked_of, words_of
from server.cli.terminal.output import ask, note, one_line, say
from server.shapes import shape
from server.wording import duration, price, tokens

LINE_WORDS = 120
"""Characters of an answer or an error that a line repeats."""

Event = Mapping[str, Any]


class LinePainter:
    """One line per change of status: for logs, pipes and terminals that cannot redraw."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._now = 0.0
        """When the tree began, and when what is told happened."""
        self._told: set[tuple[str, str]] = set()
        self._remarked: dict[str, int] = {}
        self._retrying: set[str] = set()
        """The executions of which it was told that they ask their model again."""

    def changed(self, node: TreeNode, event: Event) -> None:
        """Tell a change of status, a remark, or the top of a subtree that was asked to stop."""
        self._now = moment(event["at"]).timestamp()
        self._began = self._now if self._began is None else self._began
        for remark in node.notes[self._remarked.get(node.id, 0) :]:
            self._once(node, "!", remark)
        if node.notes:
            self._remarked[node.id] = len(node.notes)
        self._tell_retries(node, event)
        if event["type"] == "execution.status":
            self._once(node, shape(node.status, node.outcome), self._words(node))
        elif event["type"] == "approval.requested" and node.asked:
            self._once(node, "?", asked_of(node))
        elif event["type"] == "execution.progress" and "stage" in json.loads(event["payload"]):
            self._once(node, shape(node.status), node.action)
        elif node.cancel_requested and not (node.parent is not None and node.parent.cancel_requested):
            self._once(node, shape(node.status), "cancel requested")

    def _tell_retries(self, node: TreeNode, event: Event) -> None:
        """Tell each wait for a failing model API, and its end."""
        waits = event["type"] == "execution.progress" and json.loads(event["payload"]).get("waiting_for") == "model"
        if waits:
            self._retrying.add(node.id)
            self._once(node, "~", node.action)
        elif node.retried_since is None and node.id in self._retrying and not node.is_over:
            self._retrying.discard(node.id)
            self._once(node, "~", node.action)

    async def paint(self, model: TreeModel) -> None:
        """Nothing to redraw."""
        await anyio.sleep_forever()

    def finish(self, model: TreeModel) -> None:
        """The lines were the picture."""

    def say(self, text: str) -> None:
        """A note among the lines."""
        note(text)

    def ask(self, shown: str, prompt: str) -> None:
        """Among the lines."""
        say(shown)
        ask(prompt)

    def answered(self, *, typed: bool) -> None:
        """The next line is a new one."""
        if not typed:
            say("")

    def _words(self, node: TreeNode) -> str:
        if node.status == "pending" and node.task:
            return f"pending: {one_line(node.task, LINE_WORDS)}"
        if not node.is_over:
            return node.status
        words = one_line(words_of(node), LINE_WORDS)
        told = words if words.startswith((node.status.replace("_", " "), "partial")) or not words else f"completed: {words}"
        figures = [duration(node.elapsed(self._now)), tokens(node.tokens), price(node.cost_usd, node.pricing)]
        return f"{told or node.status} ({', '.join(figures) if node.pricing else figures[0]})"

    def _once(self, node: TreeNode, mark: str, words: str) -> None:
        if (node.id, words) not in self._told:
            self._told.add((node.id, words))
            since = duration(self._now - (self._began or self._now))
            say(f"{since:>7}  {node.short}  {mark} {node.path}  {words}")
