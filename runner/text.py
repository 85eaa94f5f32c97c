"""Text from outside, read and shown safely: JSON in a model's answer, the language of a message, excerpts, escaping.

Pure. Invariants: reading takes linear time and gives storable values; text from outside cannot open or close a block of a
prompt; an excerpt says how much is missing.
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
"""Maximum nesting of a value that is read."""
PASSES = 3
"""Bound on the search for values, as a multiple of the text's length: it keeps unmatched brackets from costing more."""

_BEGINS = re.compile(r'\{(?=\s*+["}])|\[(?=\s*+[\[\]{"\-0-9tfn])')
"""Brackets that may begin a value; others are prose."""
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)|[{}\[\]]', re.DOTALL)
"""A string inside a value (the group is empty if it is unterminated) or a bracket."""
_MENDED = ("\\u", "NaN", "Infinity")
"""Contents that some libraries write as JSON but that are invalid or cannot be stored."""
_CLOSES = {"{": "}", "[": "]"}


def json_of(text: str) -> Any:
    """The JSON value that an answer consists of, as a whole or in its fence; raises ValueError with the reason."""
    lines = text.split("\n")  # not `splitlines`: other line separators may stand inside JSON strings
    fences = [number for number, line in enumerate(lines) if line.lstrip().startswith(FENCE)]
    if len(fences) == 2:  # its first and last line
        text = "\n".join(lines[fences[0] + 1 : fences[1]])
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        meant = text.lstrip().startswith(("{", "[", '"'))  # if JSON was attempted, the parser's position helps
        raise ValueError(f"it is not JSON: {error}" if meant else "it is not JSON") from None


def read_json(text: str, fits: Callable[[Any], bool] = lambda _: True) -> Any:
    """The value that fits: the one an answer consists of, else the longest object or array in its prose; else None."""
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
    """The objects and arrays in a text, with their lengths. Unreadable brackets are searched for readable ones inside."""
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
    """Where the bracket at `start` is closed, and the nesting depth; negative if it is not, up to where was searched."""
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
    """The JSON value of a text, or None. Unstorable contents are replaced: lone surrogates, and NaN by null."""
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
"""The languages written in a script; the first is assumed unless the user's own is among them."""
_ADDRESS = re.compile(r"(?<!\S)\S*(?:://|@|www\.)\S*")
"""Links and addresses, which use Latin letters in every language."""
_LETTERS = 2_000
"""Characters examined."""


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
    """How much is shown; None sets no limit."""

    max_age: timedelta | None = None
    max_entries: int | None = None
    max_tokens: int | None = None
    min_keep: int = 0
    """Number of newest entries that always stay."""


HISTORY = Window(timedelta(hours=24), max_entries=20, max_tokens=4000)
"""The part of a conversation with a user that an assistant sees."""


def windowed(
    entries: Sequence[Entry],
    window: Window,
    tokens: Callable[[Entry], int] = lambda _: 0,
    age: Callable[[Entry], timedelta] = lambda _: timedelta(),
) -> Sequence[Entry]:
    """The entries within a window, from entries given oldest first: drop those too old, then all beyond the newest
    `max_entries`, then the oldest until the rest fits the tokens.
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
"""Bytes of the output of a stage or phase that later ones are shown."""


def first_bytes(text: str, most: int) -> str:
    """The beginning of a text, at most `most` bytes; a character is never split."""
    return text[:most].encode()[:most].decode("utf-8", "ignore")


def size_in_bytes(text: str) -> int:
    """The bytes of a text; ASCII text is measured without a copy."""
    return len(text) if text.isascii() else len(text.encode())


def fitting(text: str, most: int) -> str:
    """The beginning of a text that fits into `most` bytes after escaping."""
    kept = first_bytes(text, most)
    while (over := len(escape_blocks(kept).encode()) - most) > 0:
        kept = kept[: -max(1, over // 4)]  # a character has at most four bytes
    return kept


def excerpt(text: str, most: int, source: str | None) -> str:
    """A text, or its beginning within `most` bytes with a mark; `source` as in `cut_mark`."""
    kept = fitting(text, most)
    return text if len(kept) == len(text) else Excerpt(escape_blocks(kept) + cut_mark(len(kept), len(text), source))


CUT = "cut after {kept} of {length} characters"
_CUT_MARK = re.compile(r"\n\[" + CUT.format(kept=r"\d+", length=r"(\d+)") + r"[^\n]*\]\Z")


def length_before_cut(text: str) -> int:
    """The characters of a text before it was cut, from the mark at its end; its length if it has none."""
    mark = _CUT_MARK.search(text)
    return int(mark[1]) if mark is not None else len(text)


def cut_mark(kept: int, length: int, source: str | None) -> str:
    """The mark for a cut text: its length, and how to read the rest if `source`, its id, is given."""
    rest = f"; read_result(execution_id={source!r}, offset={kept}) continues" if source is not None else ""
    return f"\n[{CUT.format(kept=kept, length=length)}{rest}]"


__all__ = ["BLOCKS", "Excerpt", "beside", "escape_blocks", "escape_blocks_in", "label"]


class Excerpt(str):
    """Text from outside that is already escaped and ends with our mark."""

    __slots__ = ()


def escape_blocks(text: str) -> str:
    """Text from outside, escaped for a prompt."""
    return text if isinstance(text, Excerpt) else disarmed(clean(text))


def escape_blocks_in(value: Any) -> Any:
    """A JSON value with every text escaped."""
    if isinstance(value, str):
        return escape_blocks(value)
    if isinstance(value, list | tuple):
        return [escape_blocks_in(each) for each in value]
    if isinstance(value, Mapping):
        return {escape_blocks(str(key)): escape_blocks_in(each) for key, each in value.items()}
    return value


def label(text: str) -> str:
    """Text for an attribute of a tag or a name: one line, with quotes and brackets escaped."""
    return escape_blocks(escape(" ".join(text.split())))


def beside(task: str, *blocks: str) -> str:
    """A task followed by blocks."""
    return "\n\n".join(part for part in (escape_blocks(task), *blocks) if part) if blocks else escape_blocks(task)


SHOWN_BYTES = 32_000
"""Bytes shown of one child's text; the rest is read with `read_result`."""
SHOWN_TOGETHER = 200_000
"""Bytes of the texts of all children in one message."""


def cut(text: str, handle: str, limit: int = SHOWN_BYTES) -> str:
    """Text up to `limit` bytes, with a mark that says how to read the rest."""
    if size_in_bytes(text) <= limit:
        return text
    kept = first_bytes(text, limit)
    return kept + cut_mark(len(kept), len(text), handle)


def shares(texts: Sequence[str], together: int) -> int:
    """The maximum bytes per text for all texts to fit `together`; short ones are not cut."""
    lengths = [min(size_in_bytes(text), SHOWN_BYTES) for text in texts]
    over = sum(lengths) - together
    return SHOWN_BYTES if over <= 0 else limit_of(lengths, over)


MARK = "\n[cut here: the budget does not pay for more of it]"


def limit_of(lengths: list[int], size: int) -> int:
    """The maximum length per text for all texts together to lose `size` bytes, marks included; never negative."""
    wanted = sum(lengths) - size
    rest = len(lengths)
    for length in sorted(lengths):
        share = max(0, wanted) // rest
        if length > share:
            return max(0, share - len(MARK))
        wanted, rest = wanted - length, rest - 1
    return max(lengths, default=0)


BYTES_PER_TOKEN = 3
"""Estimate before a provider has counted. English prose and JSON have about four, so it overestimates tokens."""


def tokens_of(size: int) -> int:
    """The estimated tokens of `size` bytes."""
    return -(-size // BYTES_PER_TOKEN)


def folded_keys(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The object with keys folded, so that `camelCase` and `snake_case` are equal."""
    return {str(key).replace("_", "").replace("-", "").lower(): value for key, value in entry.items()}


def is_raw(text: str) -> bool:
    """Whether a text is JSON data, not words for a person. Code and notes that begin with a bracket are words."""
    begins = text.lstrip()
    if begins.startswith("{"):
        return read_json(begins, lambda value: isinstance(value, dict)) is not None
    if not begins.startswith(("[", FENCE)):
        return False
    try:
        return isinstance(json_of(begins), dict | list)
    except ValueError:
        return False
