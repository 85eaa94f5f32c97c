"""The live tree on stderr: a window that is redrawn on a terminal, plain lines anywhere else.

Owns how a tree gets before a person's eyes. Must not know: how executions run; it is told of them by events.
Invariant: painting never holds the work up: events are taken at once, and a frame costs what the terminal's lines cost.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import anyio

from server.cli.show.tree_lines import LinePainter
from server.cli.show.tree_model import TreeModel
from server.cli.show.tree_node import TreeNode
from server.cli.show.tree_rows import asked_of, rows_of

if TYPE_CHECKING:
    from rich.text import Text

    from server.cli.terminal.console import TerminalConsole

FINAL_ROWS = 100
"""Rows of the last picture, which stays in the scroll-back."""

MOST_ASKED = 3
"""Lines below the tree for calls that wait for a person; `outrider approve` lists them all."""

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

    async def follow(self, events: AsyncGenerator[Event]) -> None:
        """Take the events of a tree until there are no more."""
        async with aclosing(events):
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


class TreeWindow:
    """A window on the tree, redrawn in place."""

    def __init__(self, console: TerminalConsole) -> None:
        from server.cli.terminal.window import ScreenWindow

        self._console, self._window = console, ScreenWindow(console, self)
        self._model = TreeModel()

    def changed(self, node: TreeNode, event: Event) -> None:
        """The next frame shows it."""

    async def paint(self, model: TreeModel) -> None:
        """Draw frame after frame."""
        self._model = model
        await self._window.paint()

    def lines(self, width: int, height: int) -> Sequence[Text] | None:
        """The frame."""
        return self._drawn(width, height) if self._model.root is not None else None

    def asks(self) -> Sequence[str]:
        """The calls that wait for a person."""
        return [f"{node.agent} {asked_of(node)}" for node in self._model.asking.values()][:MOST_ASKED]

    def finish(self, model: TreeModel) -> None:
        """The whole tree stays on the screen; in one that is too long for that, finished subtrees stay folded."""
        self._model = model
        shown = model.root is not None and self._window.is_open
        fold = model.root is not None and model.root.lines(fold=False) > FINAL_ROWS
        self._window.close(self._last(fold=fold) if shown else ())

    def say(self, text: str) -> None:
        """A line below the tree."""
        self._window.say(text)

    def ask(self, shown: str, prompt: str) -> None:
        """Above the tree and below it."""
        self._window.ask(shown, prompt)

    def answered(self, *, typed: bool) -> None:
        """The prompt goes."""
        self._window.answered(typed=typed)

    def _last(self, *, fold: bool) -> Sequence[Text]:
        from rich.text import Text

        return [*self._drawn(self._console.width - 1, FINAL_ROWS, fold=fold), *(Text(each, "cyan") for each in self.asks())]

    def _drawn(self, width: int, height: int, *, fold: bool = True) -> Sequence[Text]:
        from server.cli.show.tree_columns import drawn

        assert self._model.root is not None
        return drawn(rows_of(self._model.root, time.time(), fold=fold, most=height), width)


def can_redraw(stream: TextIO) -> bool:
    """Whether a window can be drawn there: on a terminal that is no log."""
    return stream.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("OUTRIDER_LOG")


def tree_view() -> TreeView:
    """The view that suits stderr: a window on a terminal that can redraw, lines otherwise."""
    if not can_redraw(sys.stderr):
        return TreeView(LinePainter())
    from server.cli.terminal.console import terminal

    return TreeView(TreeWindow(terminal(stderr=True)))
