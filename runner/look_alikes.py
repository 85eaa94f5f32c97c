"""Look-alikes: text as a lenient reader takes it, letter by letter, whatever it is spelled with.

Owns: which characters cannot be seen, which are taken for others, and the spellings of a character in HTML, JSON and
addresses. Must not know: what is looked for. Invariant: the cost of a reading grows with what is read.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from html.entities import html5

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
