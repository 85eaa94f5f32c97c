"""Marks: markup that only Outrider may write into a prompt, and how text from outside is escaped so that it holds none.

A mark is a tag of a block (`<report …>`, `</report>`), the handle of a call (`[call toolu_…]`) or a note on a shortened
text (`[cut after …]`, `[result of call … removed …]`, `[3 older left out …]`, `[rehearsed]`). In text from outside, a mark
or anything a lenient reader could take for one gets a `~` before its first letter: `</~report>`, `[~call toolu_1]`. Nothing
else changes, escaping is idempotent, and `restored` undoes it when a model passes text to a tool.
Labels of content without text (`[image image/png, 3 kB]`) are no marks: they claim no more than any text can.

A lenient reader skips invisible characters, confuses look-alikes, and decodes the escapes of HTML, JSON and URLs.
Invariant: the cost is linear in the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from html.entities import html5
from typing import Any

ANGLES = "<＜﹤‹〈〈⟨❮❬❰˂ᐸ⧼⦑≮\U0001d236"
"""Characters read as `<`; `≮` has a stroke through it and is read as `</`."""
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
"""First code points of letters in squares, circles and flags, which Unicode's tables do not map to plain letters."""
TAGS = range(0xE0020, 0xE007F)
"""Invisible doubles of ASCII, which some models read."""
_UNSEEN = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufffc\ufffd")
"""Letters and symbols that are displayed as nothing, and the replacement character."""

_SPELLED = re.compile(
    r"&(?:amp;)*+(?:#[xX]0*+(?P<hex>[0-9a-fA-F]{1,6});?|#0*+(?P<number>[0-9]{1,7});?|(?P<name>[A-Za-z]{2,31};|[lL][tT]))"
    r"|\\u(?:(?P<point>[0-9a-fA-F]{4})|\{0*+(?P<braced>[0-9a-fA-F]{1,6})\})|\\x(?P<byte>[0-9a-fA-F]{2})"
    r"|%(?P<percent>[2-7][0-9a-fA-F])|\\(?P<space>[nrt])|\\(?P<slash>/)"
)


def spellings(letters: str) -> str:
    r"""A pattern for the part after `&`, `\` or `%` of an escape for one of these characters."""
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
    """The text as a lenient reader reads it from `start`, and the index of each letter: at most `most` letters, up to the
    next bracket. With `tags` the invisible doubles of ASCII are read, otherwise skipped.
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
    """The plain lower-case form that a character is read as; empty for an invisible one."""
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
    """The character that an escape stands for."""
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
"""The names of all blocks in prompts."""

ESCAPE = "~"
LONGEST = 80
"""Letters read after a bracket: enough to recognise any mark."""

FEW = 6
"""Letters read first, to decide whether to read on."""

_SPACE = re.compile(r"\s+")
_ALIKE = {"i": "[il1]", "l": "[il1]", "o": "[o0]"}


def _spelled(words: str) -> str:
    return "".join(_ALIKE.get(letter, " ?" if letter == " " else re.escape(letter)) for letter in words)


_DECORATION = "\"'`*_"
"""Markdown and quote characters that may precede the words of a mark."""
_TAG = re.compile(
    rf"(?: ?(?:/ ?)+)?(?P<name>{'|'.join(map(_spelled, sorted(BLOCKS, key=len, reverse=True)))})(?![a-z0-9_])"
)
_HANDLE = r"""(?:[^\]]{0,24}?t[o0][o0][il1]u|[ :=#"'`*]+(?:(?=[\w-]*[\d_])[\w-]|[\w-]{12}))"""
_NOTE = re.compile(
    rf"[ {_DECORATION}]*+(?P<name>{_spelled('call')}{_HANDLE}|cut(?: after \d| here\b| ?\])|{_spelled('result of call')}\b|"
    rf"{_spelled('report removed')}\b|[\dilo]+ (?:{_spelled('more')}|{_spelled('older')}) {_spelled('left out')}\b|"
    rf"rehearsed ?\])"
)

# Speed: the text after a bracket is examined only if its first two letters may begin a mark or are not plain, and read
# letter by letter only if it contains a character that is not plain.
_SKIPPED = rf"[\s{re.escape(SLASHES)}{ESCAPE}{_DECORATION}]*+"
_ODD = r"[^ -$'-\[\]-~\t\n\r]"
"""Characters that may be read differently: not printable ASCII, or the beginning of an escape."""
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
"""Only plain characters up to the next bracket or the end of the part that is read."""
_MAY_BE = {
    _TAG: re.compile(rf"[ /]*+(?:{'|'.join(sorted({_spelled(name[:2]) for name in BLOCKS}))}|.?$)"),
    _NOTE: re.compile(rf"[ {_DECORATION}]*+(?:c[au]|re|[\dilo]++ ?(?:[m0o]|$)|.?$)"),
}
"""Patterns for the first few letters of a mark."""


def disarmed(text: str) -> str:
    """The text with every mark escaped."""
    tagged = not text.isascii() and _TAGGED.search(text) is not None
    places = [place for found in _OPENING.finditer(text) if (place := _mark(text, found, tagged=tagged)) is not None]
    return _with(text, places) if places else text


def restored(value: Any) -> Any:
    """A JSON value as it was before `disarmed`: text that a model copies from its prompt reaches a tool unescaped."""
    if isinstance(value, str):
        return _restored(value) if ESCAPE in value else value
    if isinstance(value, list):
        return [restored(each) for each in value]
    if isinstance(value, dict):
        return {restored(key): restored(each) for key, each in value.items()}
    return value


def _mark(text: str, bracket: re.Match[str], *, tagged: bool) -> int | None:
    """The index of the first letter of the mark that this bracket opens; None if it opens none."""
    marks, start = _NOTE if bracket["angle"] is None else _TAG, bracket.end()
    if (plain := _PLAIN.match(text, start)) is not None:
        letters = _SPACE.sub(" ", plain[0].lower().replace("|", "l"))
        mark = marks.match(letters)
        # If no white space was joined, indexes in `letters` are indexes in the text.
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
