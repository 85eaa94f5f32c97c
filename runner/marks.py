"""Marks: what Outrider alone writes into what a model reads, and the one way in which text from outside loses them.

A mark is a tag of a block (`<report …>`, `</report>`), the handle of a call (`[call toolu_…]`) or a remark on a text that
was shortened (`[cut after …]`, `[result of call … removed …]`, `[3 older left out …]`, `[rehearsed]`). Text from outside
that holds one, or what a lenient reader takes for one, gets a `~` before its first letter: `</~report>`, `[~call toolu_1]`.
That is all that changes, it changes nothing the second time, and `restored` undoes it where a model hands text to a tool.
Labels of content that has no text (`[image image/png, 3 kB]`) are no marks: they say no more than any text can.

A lenient reader skips invisible characters, takes look-alikes for each other, and decodes the spellings of HTML, JSON and
URLs. Invariant: the cost grows with the text alone.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from html.entities import html5
from typing import Any

ANGLES = "<＜﹤‹〈〈⟨❮❬❰˂ᐸ⧼⦑≮\U0001d236"
"""What is taken for `<`; `≮` is one with a stroke through it, which is taken for `</`."""
SQUARES = "[［﹇〔【⟦❲﹝⁅〚⦋⌈⌊⎡⎣"
SLASHES = "/／⁄∕⧸╱⟋"

_LETTERS = {
    "a": "аαɑ⍺ᴀꭺᎪΑ",
    "b": "ЬьвВβΒʙƄ",
    "c": "сϲᴄꮯⲥСϹ",
    "d": "ԁɗᴅꭰᎠ",
    "e": "еєҽ℮ᴇεΕЕꭼ",
    "f": "ғꜰƒϝքꞙ",
    "g": "ɡɢցԍ",
    "h": "һнНհʜΗ",
    "i": "іІıιΙɪꭵ",
    "j": "јЈϳᴊյ",
    "k": "кКκΚᴋ",
    "l": "ӏӀʟɩ|∣ǀ",
    "m": "мМΜᴍ",
    "n": "ոɴηΝп",
    "o": "оОοΟօᴏჿഠסⲟѳ",
    "p": "рРρΡᴘⲣꮲ",
    "q": "ԛզ",
    "r": "гʀᴦꭇꭈⲅꮢ",
    "s": "ѕЅꜱʂՏꮪ",
    "t": "тТτΤᴛⲧꭲ",
    "u": "υսᴜʋꭎц",
    "v": "ѵνᴠט",
    "w": "ԝѡᴡաω",
    "x": "хХχΧ×",
    "y": "уУγΥүʏყ",
    "z": "ᴢΖζ",
    "_": "‿ˍ",
    "<": ANGLES,
    "[": SQUARES,
    "]": "］﹈〕】⟧❳﹞⁆〛⦌⌉⌋⎤⎦",
    "/": SLASHES,
}
_TAKEN_FOR = {each: letter for letter, likes in _LETTERS.items() for each in likes}
_ALPHABETS = (0x1F130, 0x1F150, 0x1F170, 0x1F1E6)
"""Where letters in squares, circles and flags begin, which have no plain form in Unicode's own tables."""
TAGS = range(0xE0020, 0xE007F)
"""Invisible doubles of ASCII, which some models read nevertheless."""
_UNSEEN = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufffc\ufffd")
"""Letters and symbols that leave no trace on paper; also the mark that stands for what could not be kept."""

_SPELLED = re.compile(
    r"&(?:amp;)*+(?:#[xX]0*+(?P<hex>[0-9a-fA-F]{1,6});?|#0*+(?P<number>[0-9]{1,7});?|(?P<name>[A-Za-z]{2,31};|[lL][tT]))"
    r"|\\u(?:(?P<point>[0-9a-fA-F]{4})|\{0*+(?P<braced>[0-9a-fA-F]{1,6})\})|\\x(?P<byte>[0-9a-fA-F]{2})"
    r"|%(?P<percent>[2-7][0-9a-fA-F])|\\(?P<space>[nrt])|\\(?P<slash>/)"
)


def spellings(letters: str) -> str:
    r"""A pattern of what follows `&`, `\` or `%` where one of these characters is spelled."""
    numbers, codes = "|".join(str(ord(each)) for each in letters), "|".join(_hex(f"{ord(each):x}") for each in letters)
    four = "|".join(_hex(f"{ord(each):04x}") for each in letters if ord(each) < 0x10000)
    byte = "|".join(_hex(f"{ord(each):02x}") for each in letters if each.isascii())
    names = "|".join(sorted((name for name, meant in html5.items() if meant in letters and name.endswith(";")), key=len))
    short = "[lL][tT]" if "<" in letters else "(?!)"  # which needs no `;`
    entity = rf"(?<=&)(?:amp;)*+(?:(?:#0*+(?:{numbers})|#[xX]0*+(?:{codes})|{short});?+|{names})"
    return rf"{entity}|(?<=\\)(?:u(?:{four})|u\{{0*+(?:{codes})\}}|x(?:{byte}))|(?<=%)(?:{byte})"


def _hex(digits: str) -> str:
    return "".join(f"[{each}{each.upper()}]" if each.isalpha() else each for each in digits)


def reading(text: str, start: int, most: int, *, tags: bool = False) -> tuple[str, list[int]]:
    """What is read from a place on, and where each letter of it begins: `most` letters, and not beyond the next bracket.

    With `tags` the invisible doubles of ASCII are read, without they are overlooked.
    """
    letters: list[str] = []
    places: list[int] = []
    at = start
    while at < len(text) and len(letters) < most:
        begun, letter = at, text[at]
        at += 1
        if letter in "&\\%" and (spelled := _SPELLED.match(text, begun)) is not None:
            letter, at = _meant(spelled) or letter, spelled.end()
        read = chr(ord(letter) - TAGS.start + 32).lower() if tags and ord(letter) in TAGS else folded(letter)
        if read in ("<", "["):
            break
        if read == " " and letters and letters[-1] == " ":
            continue
        letters += read
        places += [begun] * len(read)
    return "".join(letters), places


@lru_cache(2048)
def folded(letter: str) -> str:
    """A character as what it is taken for: small, plain and without marks; nothing for one that cannot be seen."""
    if letter in " \t\n\r\x0b\x0c":
        return " "
    if (known := _TAKEN_FOR.get(letter)) is not None:
        return known
    if letter.isascii():
        return letter.lower() if letter.isprintable() else ""
    if letter.isspace() and letter != "\x85":
        return " "
    for first in _ALPHABETS:
        if first <= ord(letter) < first + 26:
            return chr(ord("a") + ord(letter) - first)
    plain = (each for each in unicodedata.normalize("NFKD", letter).casefold() if not _unseen(each))
    return "".join(_TAKEN_FOR.get(each, each) for each in plain)


def _unseen(letter: str) -> bool:
    return letter in _UNSEEN or unicodedata.category(letter) in ("Cc", "Cf", "Cn", "Me", "Mn")


def _meant(spelled: re.Match[str]) -> str:
    """The character that a spelling stands for."""
    if spelled["space"] or spelled["slash"]:
        return spelled["slash"] or " "
    if spelled["name"]:
        found = html5.get(spelled["name"]) or html5.get(spelled["name"].lower(), "")
        return found[:1]
    digits = spelled["hex"] or spelled["point"] or spelled["braced"] or spelled["byte"] or spelled["percent"]
    number = int(digits, 16) if digits else int(spelled["number"])
    return chr(number) if 0 < number <= 0x10FFFF and not 0xD800 <= number < 0xE000 else ""


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
