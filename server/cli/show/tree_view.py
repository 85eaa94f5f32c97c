"""The live tree on stderr: a window that is redrawn on a terminal, plain lines anywhere else.

Owns when and how the tree is painted. Must not know: how executions run; it is told of them by events.
Invariant: painting never holds the work up: events are taken at once, frames are drawn at most eight times a second.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from server.cli.show.tree_model import TreeModel
from server.cli.show.tree_node import TreeNode
from server.cli.show.tree_rows import asked_of, rows_of, words_of
from server.cli.show.wording import duration, price, tokens
from server.cli.terminal.options import runnable
from server.cli.terminal.output import ask, note, one_line, say
from server.shapes import shape

if TYPE_CHECKING:
    from rich.console import Group

    from runner.service.dispatcher import Dispatcher
    from server.cli.terminal.console import TerminalConsole

FRAME_SECONDS = 1 / 8
FINAL_ROWS = 100
"""Rows of the last picture, which stays in the scroll-back."""

MOST_ASKED = 3
"""Lines below the tree for calls that wait for a person; `outrider approve` lists them all."""

LINE_WORDS = 120
"""Characters of an answer or an error that a plain line repeats."""

Event = Mapping[str, Any]


class Painter(Protocol):
    """Puts a tree before a person's eyes."""

    def changed(self, node: TreeNode, event: Event) -> None:
        """An event changed a node."""
        ...

    async def paint(self, model: TreeModel) -> None:
        """Keep painting until cancelled."""
        ...

    def finish(self, model: TreeModel) -> None:
        """The last picture."""
        ...

    def say(self, text: str) -> None:
        """A remark to the person."""
        ...

    def ask(self, shown: str, prompt: str) -> None:
        """Show a question, whole, and wait for an answer to it."""
        ...

    def answered(self, *, typed: bool) -> None:
        """The question is over; whether the person has `typed` a line."""
        ...


class TreeView:
    """Follows the events of one tree and shows it."""

    def __init__(self, painter: Painter) -> None:
        self.model = TreeModel()
        self.painter = painter
        self.over = anyio.Event()
        """The top of the tree has ended, and is shown so from the next picture on."""

    async def follow(self, service: Dispatcher, root: str) -> None:
        """Take the events of a tree until it has ended."""
        async with aclosing(service.events(root)) as events:
            async for event in events:
                self._take(event)

    def _take(self, event: Event) -> None:
        node = self.model.apply(event)
        if node is not None:
            self.painter.changed(node, event)
        if self.model.root is not None and self.model.root.is_over:
            self.over.set()

    async def paint(self) -> None:
        """Show the tree until cancelled."""
        await self.painter.paint(self.model)

    def finish(self) -> None:
        """Leave the last picture behind."""
        self.painter.finish(self.model)


class LinePainter:
    """One line per change of status: for logs, pipes and terminals that cannot redraw."""

    def __init__(self) -> None:
        self._begun = time.time()
        self._told: set[tuple[str, str]] = set()
        self._remarked: dict[str, int] = {}
        self._retrying: set[str] = set()
        """The executions of which it was told that they ask their model again."""

    def changed(self, node: TreeNode, event: Event) -> None:
        """Tell a change of status, a remark, or the top of a subtree that was asked to stop."""
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
        figures = [duration(node.elapsed(time.time())), tokens(node.tokens), price(node.cost_usd, node.pricing)]
        return f"{told or node.status} ({', '.join(figures) if node.pricing else figures[0]})"

    def _once(self, node: TreeNode, mark: str, words: str) -> None:
        if (node.id, words) not in self._told:
            self._told.add((node.id, words))
            since = duration(time.time() - self._begun)
            say(f"{since:>7}  {node.short}  {mark} {node.path}  {words}")


class WindowPainter:
    """A window on the tree, at most as high as the terminal, redrawn in place."""

    def __init__(self, console: TerminalConsole) -> None:
        from rich.live import Live

        self._console = console
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._remark = self._prompt = ""
        self._room = 0
        """Lines of the question that stands above the window."""

    def changed(self, node: TreeNode, event: Event) -> None:
        """The next frame shows it."""

    async def paint(self, model: TreeModel) -> None:
        """Draw frame after frame."""
        self._live.start()
        while True:
            if model.root is not None:
                self._live.update(self._picture(model, self._console.height - 2), refresh=True)
            await anyio.sleep(FRAME_SECONDS)

    def finish(self, model: TreeModel) -> None:
        """The whole tree stays on the screen; in one that is too long for that, finished subtrees stay folded."""
        self._remark = self._prompt = ""
        if model.root is not None and self._live.is_started:
            fold = model.root.lines(fold=False) > FINAL_ROWS
            self._live.vertical_overflow = "visible"
            self._live.update(self._picture(model, FINAL_ROWS, fold=fold), refresh=True)
        self._live.stop()

    def say(self, text: str) -> None:
        """A line below the tree, from the next frame on."""
        self._remark = runnable(text)

    def ask(self, shown: str, prompt: str) -> None:
        """The question stands above the window, whole however long it is, and the prompt is the last line of it."""
        self._console.draw(shown, soft_wrap=True)
        self._prompt, self._room = prompt, sum(1 + len(line) // self._console.width for line in shown.splitlines())

    def answered(self, *, typed: bool) -> None:
        """No prompt from the next frame on. What was typed has moved the cursor to the next line, and it goes back."""
        self._prompt, self._room = "", 0
        if typed:
            from rich.control import Control

            self._console.control(Control.move(0, -1))

    def _picture(self, model: TreeModel, most: int, *, fold: bool = True) -> Group:
        from rich.console import Group
        from rich.text import Text

        from server.cli.show.tree_columns import drawn

        assert model.root is not None
        asked = [f"{node.agent} {asked_of(node)}" for node in model.asking.values()]  # whole: it is to be typed
        below = [*asked[:MOST_ASKED], *([self._remark] if self._remark else [])]
        if self._prompt:
            below = [line for line in (self._remark, self._prompt) if line]
        rows = rows_of(model.root, time.time(), fold=fold, most=max(3, most - len(below) - self._room))
        lines = drawn(rows, self._console.width - 1)
        return Group(*lines, *(Text(line, "cyan", no_wrap=True) for line in below))


def tree_view() -> TreeView:
    """The view that suits stderr: a window on a terminal that can redraw, lines otherwise."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb" or os.environ.get("OUTRIDER_LOG"):
        return TreeView(LinePainter())
    from server.cli.terminal.console import terminal

    return TreeView(WindowPainter(terminal(stderr=True)))
