"""Marks: what Outrider alone writes into what a model reads, and the one way in which text from outside loses them.

A mark is a tag of a block (`<report …>`, `</report>`), the handle of a call (`[call toolu_…]`) or a remark on a text that
was shortened (`[cut after …]`, `[result of call … removed …]`, `[3 older left out …]`, `[rehearsed]`). Text from outside
that holds one, or what a lenient reader takes for one, gets a `~` before its first letter: `</~report>`, `[~call toolu_1]`.
That is all that changes, it changes nothing the second time, and `restored` undoes it where a model hands text to a tool.
Labels of content that has no text (`[image image/png, 3 kB]`) are no marks: they say no more than any text can.
Must not know: where text comes from. Invariant: the cost grows with the text alone.
"""

from __future__ import annotations

import re
from typing import Any

from runner.look_alikes import ANGLES, SLASHES, SQUARES, TAGS, reading, spellings

BLOCKS = (
    *("agents", "agent", "available_agents", "instructions", "server", "unavailable", "input", "earlier", "stage"),
    *("output_schema", "step", "results", "plan", "errors", "error", "reason", "context_from_previous_steps"),
    *("presentation", "attempt", "current_time", "user_context", "user_memory", "fact", "conversation", "said", "language"),
    *("report", "message", "summary", "files", "file", "objective", "skills", "task", "execution_state"),
    *("workspaces", "workspace", "return_format", "background"),
)
"""The names of all blocks that prompts are made of."""

ESCAPE = "~"
LONGEST = 80
"""Letters that are read after a bracket: more than any mark needs to be known."""

FEW = 6
"""Letters that are read first, to see whether it is worth reading on."""

_SPACE = re.compile(r"\s+")
_ALIKE = {"i": "[il1]", "l": "[il1]", "o": "[o0]"}


def _spelled(words: str) -> str:
    return "".join(_ALIKE.get(letter, " ?" if letter == " " else re.escape(letter)) for letter in words)


_DECORATION = "\"'`*_"
"""What Markdown or quotes put before the words of a mark."""
_TAG = re.compile(
    rf"(?: ?(?:/ ?)+)?(?P<name>{'|'.join(map(_spelled, sorted(BLOCKS, key=len, reverse=True)))})(?![a-z0-9_])"
)
_HANDLE = r"""(?:[^\]]{0,24}?t[o0][o0][il1]u|[ :=#"'`*]+(?:(?=[\w-]*[\d_])[\w-]|[\w-]{12}))"""
_NOTE = re.compile(
    rf"[ {_DECORATION}]*+(?P<name>{_spelled('call')}{_HANDLE}|cut(?: after \d| here\b| ?\])|{_spelled('result of call')}\b|"
    rf"{_spelled('report removed')}\b|[\dilo]+ (?:{_spelled('more')}|{_spelled('older')}) {_spelled('left out')}\b|"
    rf"rehearsed ?\])"
)

# What follows a bracket is looked at only where its first two letters fit, or are no plain letters; it is read letter by
# letter only where something in it is no plain letter.
_SKIPPED = rf"[\s{re.escape(SLASHES)}{ESCAPE}{_DECORATION}]*+"
_ODD = r"[^ -$'-\[\]-~\t\n\r]"
"""What may be more, or less, than it seems: no printable ASCII, or the beginning of a spelling."""
_TAG_ANGLE, _TAG_SQUARE = (chr(TAGS.start + ord(each) - 32) for each in "<[")


def _both(letters: str) -> str:
    return f"[{letters}{letters.upper()}]"


def _starts() -> str:
    first = sorted({name[0] for name in BLOCKS})
    seconds = {each: "".join(sorted({name[1] for name in BLOCKS if name[0] == each})) for each in first}
    return "|".join(f"{_both(each)}{_both(seconds[each])}" for each in first)


_OPENING = re.compile(
    rf"[{re.escape(ANGLES + SQUARES)}{_TAG_ANGLE}{_TAG_SQUARE}&\\%](?:"
    rf"(?P<angle>(?<=[{ANGLES}{_TAG_ANGLE}])|{spellings(ANGLES)})(?={_SKIPPED}(?:{_starts()}|[a-zA-Z]?(?:{_ODD}|[01|])))"
    rf"|(?P<square>(?<=[{re.escape(SQUARES)}{_TAG_SQUARE}])|{spellings(SQUARES)})"
    rf"(?={_SKIPPED}(?:[cC][aAuU]|[rR][eE]|[cCrR]?{_ODD}|\d{{1,12}}+{_SKIPPED}(?:[moMO]|{_ODD}))))"
)
_TAGGED = re.compile(f"[{chr(TAGS.start)}-{chr(TAGS.stop - 1)}]")
_PLAIN = re.compile(rf"[ -$'-;=-Z\]-~\t\n\r]{{0,{LONGEST}}}+(?!{_ODD})")
"""Nothing odd up to the next bracket, or as far as is read."""
_MAY_BE = {
    _TAG: re.compile(rf"[ /]*+(?:{'|'.join(sorted({_spelled(name[:2]) for name in BLOCKS}))}|.?$)"),
    _NOTE: re.compile(rf"[ {_DECORATION}]*+(?:c[au]|re|[\dilo]++ ?(?:[m0o]|$)|.?$)"),
}
"""What the first few letters of a mark are like."""


def disarmed(text: str) -> str:
    """Text without a mark of ours."""
    tagged = not text.isascii() and _TAGGED.search(text) is not None
    places = [place for found in _OPENING.finditer(text) if (place := _mark(text, found, tagged=tagged)) is not None]
    return _with(text, places) if places else text


def restored(value: Any) -> Any:
    """A JSON value as it was before `disarmed`: what a model copies from what it was shown goes to a tool as it was."""
    if isinstance(value, str):
        return _restored(value) if ESCAPE in value else value
    if isinstance(value, list):
        return [restored(each) for each in value]
    if isinstance(value, dict):
        return {restored(key): restored(each) for key, each in value.items()}
    return value


def _mark(text: str, bracket: re.Match[str], *, tagged: bool) -> int | None:
    """Where the first letter of a mark is that this bracket opens; None for any other bracket."""
    marks, start = _NOTE if bracket["angle"] is None else _TAG, bracket.end()
    if (plain := _PLAIN.match(text, start)) is not None:
        letters = _SPACE.sub(" ", plain[0].lower().replace("|", "l"))
        mark = marks.match(letters)
        # Where white space was not joined, each letter stands where it stood.
        if mark is None or len(letters) == len(plain[0]):
            return start + mark.start("name") if mark is not None else None
    for tags in (False, True) if tagged else (False,):
        if not tags and bracket[0] in (_TAG_ANGLE, _TAG_SQUARE):
            continue
        if _MAY_BE[marks].match(reading(text, start, FEW, tags=tags)[0]) is None:
            continue
        letters, places = reading(text, start, LONGEST, tags=tags)
        if (mark := marks.match(letters)) is not None:
            return places[mark.start("name")]
    return None


def _with(text: str, places: list[int]) -> str:
    parts, last = [], 0
    for place in places:
        parts += [text[last:place], ESCAPE]
        last = place
    return "".join([*parts, text[last:]])


def _restored(text: str) -> str:
    parts, last = [], 0
    for found in _OPENING.finditer(text):
        letters, places = reading(text, found.end(), LONGEST)
        escape = letters.find(ESCAPE)
        if escape < 0 or letters[:escape].strip(f" /{_DECORATION}"):
            continue
        marks = _NOTE if found["angle"] is None else _TAG
        if marks.match(letters[:escape] + letters[escape + 1 :]) is not None:
            parts.append(text[last : places[escape]])
            last = places[escape] + 1
    return "".join([*parts, text[last:]]) if parts else text
