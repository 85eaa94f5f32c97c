"""A window on a terminal: lines that are redrawn in place, with a remark or a question below them.

Owns when a frame is drawn, and which lines of the screen it takes. Must not know: what the lines show. Invariants: at most
eight frames a second, and none while nothing changes; a frame is never higher or wider than the terminal, whatever its size
has become since the one before; what was on the screen before the window stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import anyio
from rich.cells import cell_len
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from server.cli.terminal.console import TerminalConsole
from server.cli.terminal.options import runnable

FRAME_SECONDS = 1 / 8
LEAST_ROWS = 3
"""Lines a picture has, however little room a question leaves it."""


class Picture(Protocol):
    """What a window shows."""

    def lines(self, width: int, height: int) -> Sequence[Text] | None:
        """At most `height` lines; None as long as there is nothing to show."""
        ...

    def asks(self) -> Sequence[str]:
        """What a person is to type, whole, below the lines."""
        ...


class ScreenWindow:
    """Redraws one picture in place."""

    def __init__(self, console: TerminalConsole, picture: Picture) -> None:
        self._console, self._picture = console, picture
        self._remark = self._prompt = ""
        self._room = 0
        """Lines of the question that stands above the window."""
        self._shown: list[Text] = []
        """The frame on the screen; the cursor stands at its end."""
        self._width = 0
        """Columns of the terminal when that frame was drawn."""
        self.is_open = False
        """Whether it is being drawn."""

    async def paint(self) -> None:
        """Draw frame after frame, until cancelled."""
        self._console.show_cursor(False)
        self.is_open = True
        while True:
            self._frame()
            await anyio.sleep(FRAME_SECONDS)

    def say(self, text: str) -> None:
        """A line below the picture, from the next frame on, until another replaces it."""
        self._remark = runnable(text)

    def ask(self, shown: str, prompt: str) -> None:
        """The question stands above the window, whole however long it is, and the prompt is the last line of it."""
        self._erase()
        self._console.draw(shown, soft_wrap=True)
        self._prompt, self._room = prompt, sum(1 + len(line) // self._console.width for line in shown.splitlines())

    def answered(self, *, typed: bool) -> None:
        """No prompt from the next frame on. What was typed has moved the cursor to the next line, and it goes back."""
        self._prompt, self._room = "", 0
        if typed:
            self._console.control(Control.move(0, -1))

    def close(self, last: Sequence[Text]) -> None:
        """The last picture, which may be longer than the terminal, stays on the screen."""
        width = self._console.width - 1
        with self._console:  # written in one piece
            self._erase()
            for line in last:
                self._console.draw(_within(line, width))
            if self.is_open:
                self._console.show_cursor(True)
        self._remark = self._prompt = ""
        self.is_open = False

    def _frame(self) -> None:
        width, height = self._console.size
        below = [Text(line, "cyan") for text in self._below() for line in _wrapped(text, width - 1)]
        below = below[: max(0, height - LEAST_ROWS)]
        lines = self._picture.lines(width - 1, max(LEAST_ROWS, height - 1 - len(below) - self._room))
        if lines is None:
            return
        frame = [_within(line, width - 1) for line in (*lines, *below)][-max(1, height - 1) :]
        if frame == self._shown and width == self._width:
            return
        with self._console:  # written in one piece, so that nothing flickers
            self._erase()
            self._console.draw(Text("\n").join(frame), end="")
        self._shown, self._width = frame, width

    def _below(self) -> Iterable[str]:
        if self._prompt:
            return [line for line in (self._remark, self._prompt) if line]
        return [*self._picture.asks(), *([self._remark] if self._remark else [])]

    def _erase(self) -> None:
        """Take the frame off the screen. A terminal that became narrower has broken the lines that were wider.

        Line by line: tmux takes all that is erased from the first character of the screen on into its scroll-back.
        """
        if not self._shown:
            return
        width = self._console.width
        above = sum(max(1, -(-cell_len(line.plain) // width)) for line in self._shown) - 1
        if above:
            line = (_ERASE_LINE, (ControlType.CURSOR_DOWN, 1))
            up = (ControlType.CURSOR_UP, above)
            self._console.control(Control(ControlType.CARRIAGE_RETURN, up, *line * above), _ERASE_BELOW, Control(up))
        else:
            self._console.control(Control(ControlType.CARRIAGE_RETURN, _ERASE_LINE))
        self._shown = []


_ERASE_LINE = (ControlType.ERASE_IN_LINE, 2)
_ERASE_BELOW = Control((ControlType.ERASE_IN_LINE, 0))
_ERASE_BELOW.segment = _ERASE_BELOW.segment._replace(text="\x1b[J")  # rich has no name for it


def _within(line: Text, width: int) -> Text:
    """The line, cut to the width of the screen."""
    if cell_len(line.plain) <= width:
        return line
    cut = line.copy()
    cut.truncate(max(1, width), overflow="crop")
    return cut


def _wrapped(text: str, width: int) -> list[str]:
    """A text that is to be typed, whole, in lines of the screen."""
    size = max(1, width)
    return [text[begin : begin + size] for begin in range(0, len(text), size)] or [""]
