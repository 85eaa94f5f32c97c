"""The terminal as rich draws on it. Importing this module imports rich, so commands that draw nothing do not.

Owns the console. Invariant: no drawn text reaches the terminal with characters it would obey; styles and cursor movements
of a live view come from rich and pass.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from server.cli.terminal.output import coloured, safe


class TerminalConsole(Console):
    """A console whose texts are made safe at the last moment."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What rich would write: its own control sequences, and text that is only shown."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=safe(segment.text))

    def draw(self, renderable: RenderableType, *, end: str = "\n", soft_wrap: bool = False) -> None:
        """Put something on the screen, below what is there; nothing in a text is taken for mark-up."""
        self.print(renderable, end=end, soft_wrap=soft_wrap, markup=False)


def terminal(*, stderr: bool = False) -> TerminalConsole:
    """The console of stdout or stderr."""
    stream = sys.stderr if stderr else sys.stdout
    return TerminalConsole(stderr=stderr, no_color=not coloured(stream), highlight=False)
