"""An answer before a person's eyes: on a terminal its Markdown is drawn and its lines broken between words; anywhere else
it is written as it is.

Owns how Markdown looks here. Must not know: whose answer it is. Invariant: no word of an answer is lost by drawing it;
where it is folded to fit, a line says how many items are left out, and which command shows them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from server.cli.terminal.output import put

if TYPE_CHECKING:
    from markdown_it.token import Token
    from rich.markdown import Markdown
    from rich.segment import Segment

    from server.cli.terminal.console import TerminalConsole

LONGEST = 100_000
"""Characters of an answer that is drawn; a longer one would keep its reader waiting."""

STYLES = {"markdown.code": "cyan", "markdown.code_block": "cyan", "markdown.h1": "bold underline", "markdown.h2": "bold"}
"""Where rich's own would need a dark background, or be too loud."""


RESERVED = 6
"""Lines of the terminal that are left for what is said after an answer."""


def put_answer(text: str, whole: str = "") -> None:
    """Write an answer to stdout; with `whole`, the command that shows all of it, it is folded to fit a terminal."""
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb" or len(text) > LONGEST:
        put(text)
        return
    from rich.segment import Segment, Segments
    from rich.theme import Theme

    from server.cli.terminal.console import terminal

    console = terminal()
    with console.use_theme(Theme(STYLES)):
        answer = markdown(text)
        if whole:
            _fold(answer, console, whole)
        lines = list(map(_trimmed, Segment.split_lines(console.render(answer))))
        console.draw(Segments(segment for line in lines for segment in (*line, Segment.line())), end="")


def _fold(answer: Markdown, console: TerminalConsole, whole: str) -> None:
    from server.cli.show.folding import folded

    def height(tokens: Sequence[Token]) -> int:
        part = markdown("")
        part.parsed = list(tokens)
        lines = console.render_lines(part)
        return len(lines) - (bool(lines) and not any(segment.text.strip() for segment in lines[0]))  # a list has it above

    def more(number: int) -> Sequence[Token]:
        return markdown(f"… {number} more; `{whole}` shows all").parsed

    answer.parsed = list(folded(answer.parsed, console.height - RESERVED, height, more))


def _trimmed(line: list[Segment]) -> list[Segment]:
    """A line without what only fills it up: that would be copied with it."""
    kept = list(line)
    while kept and not kept[-1].text.strip():
        kept.pop()
    return [*kept[:-1], kept[-1]._replace(text=kept[-1].text.rstrip())] if kept else []


def markdown(text: str) -> Markdown:
    """A text as rich draws it: line breaks stay, what looks like HTML is text, addresses are shown and not hidden."""
    from markdown_it import MarkdownIt
    from rich.markdown import Heading, Markdown

    class LeftHeading(Heading):
        LEVEL_ALIGN = dict.fromkeys(Heading.LEVEL_ALIGN, "left")

    class Answer(Markdown):
        elements = {**Markdown.elements, "heading_open": LeftHeading}  # noqa: RUF012 - as it is declared there

    drawn = Answer("", code_theme="ansi_dark", hyperlinks=False)
    drawn.parsed = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table").parse(text)
    for token in drawn.parsed:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
    return drawn
