"""Text from outside, read and shown safely: JSON in a model's answer, the language of a message, excerpts, escaping.

Pure. Invariants: reading takes time in proportion to the length of a text, and its outcome can be stored; a text of outside
cannot open or close a block of a prompt; an excerpt says what is missing.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from html import escape
from typing import Any, TypeVar

from pydantic_core import from_json

from runner.marks import BLOCKS, disarmed
from runner.messages import clean

FENCE = "```"

DEEPEST = 200
"""Brackets in brackets: what is nested deeper is not read."""
PASSES = 3
"""How often the length of a text is looked through for values, at most: brackets that lead nowhere are given up."""

_BEGINS = re.compile(r'\{(?=\s*+["}])|\[(?=\s*+[\[\]{"\-0-9tfn])')
"""Where a value may begin; other brackets are prose."""
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)|[{}\[\]]', re.DOTALL)
"""A string inside a value, without its last quote where it never ends, or a bracket."""
_MENDED = ("\\u", "NaN", "Infinity")
"""What JSON of some libraries holds that is none, or that cannot be stored."""
_CLOSES = {"{": "}", "[": "]"}


def json_of(text: str) -> Any:
    """The value an answer spells as a whole or in its fence; raises ValueError with the reason when it spells none."""
    lines = text.split("\n")  # and nowhere else: no other line break can stand inside a JSON text and be left out
    fences = [number for number, line in enumerate(lines) if line.lstrip().startswith(FENCE)]
    if len(fences) == 2:  # where one begins, and where it ends
        text = "\n".join(lines[fences[0] + 1 : fences[1]])
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        meant = text.lstrip().startswith(("{", "[", '"'))  # where JSON was tried, the place helps
        raise ValueError(f"it is not JSON: {error}" if meant else "it is not JSON") from None


def read_json(text: str, fits: Callable[[Any], bool] = lambda _: True) -> Any:
    """The value that fits: the one an answer spells, else the longest object or array in its prose; None without one."""
    try:
        value = json_of(text)
    except ValueError:
        value = None
    if value is not None and fits(value):
        return value
    found: Any = None
    longest = 0
    for value, length in _values(text):
        if length > longest and fits(value):
            found, longest = value, length
    return found


def _values(text: str) -> Iterator[tuple[Any, int]]:
    """The objects and arrays in a text, and how long each is written. What cannot be read may hold some that can."""
    left, at = PASSES * len(text), 0
    while left > 0 and (begins := _BEGINS.search(text, at)) is not None:
        start = begins.start()
        end, depth = _end_of(text, start)
        left -= max(1, abs(end) - start)
        if depth > DEEPEST:
            return
        value = _decoded(text[start:end]) if end > 0 else None
        at = start + 1 if value is None else end
        if value is not None:
            yield value, end - start


def _end_of(text: str, start: int) -> tuple[int, int]:
    """Where the bracket at a place is closed, and how deep others stand in it; below zero how far was looked in vain."""
    waiting: list[str] = []
    deepest = 0
    for token in _TOKEN.finditer(text, start):
        mark = token[0]
        if mark in _CLOSES:
            waiting.append(_CLOSES[mark])
            deepest = max(deepest, len(waiting))
        elif mark[0] == '"':
            if not token[1]:
                break
            continue
        elif mark != waiting.pop():
            return -token.end(), deepest
        if not waiting:
            return token.end(), deepest
        if deepest > DEEPEST:
            return -token.end(), deepest
    return -len(text), deepest


def _decoded(text: str) -> Any:
    """The value of a text; None where it is none. What no store takes is replaced: half a character, no number by null."""
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        if not any(each in text for each in _MENDED):
            return None
    try:
        return json.loads(clean(json.dumps(json.loads(text, parse_constant=lambda _: None), ensure_ascii=False)))
    except (ValueError, RecursionError):
        return None


_SCRIPTS: dict[str, tuple[str, ...]] = {
    "HEBREW": ("he", "yi"),
    "ARABIC": ("ar", "fa", "ur", "ps", "ckb", "sd", "ug"),
    "CYRILLIC": ("ru", "uk", "be", "bg", "mk", "sr", "kk", "ky", "mn", "tg"),
    "GREEK": ("el",),
    "ARMENIAN": ("hy",),
    "GEORGIAN": ("ka",),
    "DEVANAGARI": ("hi", "mr", "ne"),
    "BENGALI": ("bn", "as"),
    "TAMIL": ("ta",),
    "THAI": ("th",),
    "HANGUL": ("ko",),
    "HIRAGANA": ("ja",),
    "KATAKANA": ("ja",),
    "CJK": ("zh", "ja"),
}
"""The languages that are written in a script; the first is meant unless the user's own is among them."""
_ADDRESS = re.compile(r"(?<!\S)\S*(?:://|@|www\.)\S*")
"""Links and addresses: they are in Latin letters in whatever language somebody writes."""
_LETTERS = 2_000
"""Characters that are looked at."""


def language_of(text: str, otherwise: str = "en") -> str:
    """The language of a text by the script of most of its letters, else that of the user's locale."""
    known = otherwise.partition("-")[0].lower() or "en"
    scripts: Counter[str] = Counter()
    for letter, times in Counter(_ADDRESS.sub(" ", text[:_LETTERS])).items():
        if letter.isalpha():
            scripts[unicodedata.name(letter, "").partition(" ")[0]] += times
    if not scripts:
        return known
    script = "HIRAGANA" if scripts["HIRAGANA"] and scripts["CJK"] else max(scripts, key=lambda each: scripts[each])
    if script == "LATIN":
        elsewhere = any(known in languages for languages in _SCRIPTS.values()) and "-latn" not in otherwise.lower()
        return "en" if elsewhere else known
    languages = _SCRIPTS.get(script, (known,))
    return known if known in languages else languages[0]


Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Window:
    """How much is shown; what is None does not matter."""

    max_age: timedelta | None = None
    max_entries: int | None = None
    max_tokens: int | None = None
    min_keep: int = 0
    """As many of the newest stay, whatever the other rules say."""


HISTORY = Window(timedelta(hours=24), max_entries=20, max_tokens=4000)
"""What an assistant is shown of its conversation with a user."""


def windowed(
    entries: Sequence[Entry],
    window: Window,
    tokens: Callable[[Entry], int] = lambda _: 0,
    age: Callable[[Entry], timedelta] = lambda _: timedelta(),
) -> Sequence[Entry]:
    """The entries of a window, of entries given oldest first: what is too old goes, then all but the newest, then the
    oldest until the rest fits the tokens.
    """
    kept = [entry for entry in entries if window.max_age is None or age(entry) <= window.max_age]
    if window.max_entries is not None:
        kept = kept[max(0, len(kept) - window.max_entries) :]
    if window.max_tokens is not None:
        sizes = [tokens(entry) for entry in kept]
        while sum(sizes) > window.max_tokens:
            del kept[0], sizes[0]
    return kept if len(kept) >= window.min_keep else entries[-window.min_keep :]


EARLIER_BYTES = 50_000
"""Of what a stage or a phase brought that those after it are shown."""


def first_bytes(text: str, most: int) -> str:
    """The beginning of a text that has at most so many bytes; a character is never split."""
    return text[:most].encode()[:most].decode("utf-8", "ignore")


def size_in_bytes(text: str) -> int:
    """The bytes of a text; most are ASCII, where characters are bytes, and a long one is not copied to be measured."""
    return len(text) if text.isascii() else len(text.encode())


def fitting(text: str, most: int) -> str:
    """As much of a text as fits into so many bytes once it is inert."""
    kept = text.encode()[:most].decode(errors="ignore")
    while (over := len(inert(kept).encode()) - most) > 0:
        kept = kept[: -max(1, over // 4)]  # a letter has four bytes at most
    return kept


def excerpt(text: str, most: int, source: str | None) -> str:
    """A text, or as much of it as fits into so many bytes, with the mark; `source` as in `cut_mark`."""
    kept = fitting(text, most)
    return text if len(kept) == len(text) else Excerpt(inert(kept) + cut_mark(len(kept), len(text), source))


CUT = "cut after {kept} of {length} characters"
_CUT_MARK = re.compile(r"\n\[" + CUT.format(kept=r"\d+", length=r"(\d+)") + r"[^\n]*\]\Z")


def length_before_cut(text: str) -> int:
    """The characters of a text before it was cut, by the mark it ends with; its own length where it has none."""
    mark = _CUT_MARK.search(text)
    return int(mark[1]) if mark is not None else len(text)


def cut_mark(kept: int, length: int, source: str | None) -> str:
    """Says after how many characters a text was cut, and how to read on; `source` is its id, where that is possible."""
    rest = f"; read_result(execution_id={source!r}, offset={kept}) continues" if source is not None else ""
    return f"\n[{CUT.format(kept=kept, length=length)}{rest}]"


__all__ = ["BLOCKS", "Excerpt", "beside", "inert", "inert_data", "label"]


class Excerpt(str):
    """Text from outside that is inert already, and ends with a mark of ours."""

    __slots__ = ()


def inert(text: str) -> str:
    """Text from outside as a model may read it."""
    return text if isinstance(text, Excerpt) else disarmed(clean(text))


def inert_data(value: Any) -> Any:
    """A JSON value in which every text is inert."""
    if isinstance(value, str):
        return inert(value)
    if isinstance(value, list | tuple):
        return [inert_data(each) for each in value]
    if isinstance(value, Mapping):
        return {inert(str(key)): inert_data(each) for key, each in value.items()}
    return value


def label(text: str) -> str:
    """Text as it stands in a tag, or as the name of somebody: on one line, and without quotes or brackets of its own."""
    return inert(escape(" ".join(text.split())))


def beside(task: str, *blocks: str) -> str:
    """A task and the blocks that stand beside it."""
    return "\n\n".join(part for part in (inert(task), *blocks) if part) if blocks else inert(task)


SHOWN_BYTES = 32_000
"""Of one child's text; the rest is read with `read_result`."""
SHOWN_TOGETHER = 200_000
"""Bytes of the texts of all children in one message."""


def cut(text: str, handle: str, limit: int = SHOWN_BYTES) -> str:
    """Text up to so many bytes, with a visible mark and the way to the rest."""
    if size_in_bytes(text) <= limit:
        return text
    kept = first_bytes(text, limit)
    return kept + cut_mark(len(kept), len(text), handle)


def shares(texts: Sequence[str], together: int) -> int:
    """The bytes each text may have so that all of them are no more than so many; the short ones are not cut."""
    lengths = [min(size_in_bytes(text), SHOWN_BYTES) for text in texts]
    over = sum(lengths) - together
    return SHOWN_BYTES if over <= 0 else limit_of(lengths, over)


MARK = "\n[cut here: the budget does not pay for more of it]"


def limit_of(lengths: list[int], size: int) -> int:
    """The length that texts may have so that all of them together lose `size` bytes, marks included; at least none."""
    wanted = sum(lengths) - size
    rest = len(lengths)
    for length in sorted(lengths):
        share = max(0, wanted) // rest
        if length > share:
            return max(0, share - len(MARK))
        wanted, rest = wanted - length, rest - 1
    return max(lengths, default=0)


BYTES_PER_TOKEN = 3
"""Of what no provider has counted yet. English prose and JSON have about four: this estimate errs on the long side."""


def tokens_of(size: int) -> int:
    """The tokens that so many bytes may be."""
    return -(-size // BYTES_PER_TOKEN)


def folded_keys(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An object whose keys may be written in `camelCase`, `snake_case` or any other way."""
    return {str(key).replace("_", "").replace("-", "").lower(): value for key, value in entry.items()}


def is_raw(text: str) -> bool:
    """Whether a text is data and no words: nothing to show a person. Code and notes that begin with a bracket are words."""
    begins = text.lstrip()
    if begins.startswith("{"):
        return read_json(begins, lambda value: isinstance(value, dict)) is not None
    if not begins.startswith(("[", FENCE)):
        return False
    try:
        return isinstance(json_of(begins), dict | list)
    except ValueError:
        return False
