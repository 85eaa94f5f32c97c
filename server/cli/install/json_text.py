"""JSON as people keep it in files: one value is put into the text, and everything else stays as it was typed.

Owns: reading JSON with or without comments and trailing commas, finding a value in the text, placing one there.
Must not know: what the file is for. Invariant: the new text says what the old one said and the new value, nothing else;
a text for which that cannot be had is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

TreePath = tuple[str, ...]

_TEXT = r'"(?:[^"\\]|\\.)*"'
_COMMENT = re.compile(rf"{_TEXT}|(?P<comment>//[^\r\n]*|/\*.*?\*/)", re.DOTALL)
_LOOSE_COMMA = re.compile(rf"{_TEXT}|,(?=\s*[}}\]])")
_SPACE = re.compile(r"\s*")
_INDENTATION = "  "


class UnreadableJson(ValueError):
    """The text is not what it should be; says where."""


class CannotKeep(ValueError):
    """The value cannot be put there without losing something a person wrote."""


class Member(NamedTuple):
    """A key with its value: where the key begins, where the value begins and ends."""

    key: str
    start: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class JsonText:
    """A text that holds one JSON object, or nothing yet."""

    text: str
    comments: bool = False
    """Whether comments and trailing commas are part of the format."""
    bare: str = field(init=False)
    """The text with blanks for comments, so that positions are the same."""
    plain: str = field(init=False)
    """The same without trailing commas: strict JSON."""
    tree: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        """Read it, or refuse it."""
        bare = _COMMENT.sub(_blank, self.text) if self.comments else self.text
        plain = _LOOSE_COMMA.sub(lambda found: " " if found[0] == "," else found[0], bare) if self.comments else bare
        object.__setattr__(self, "bare", bare)
        object.__setattr__(self, "plain", plain)
        object.__setattr__(self, "tree", _parsed(plain))

    def put(self, path: TreePath, value: Any) -> str:
        """The text with the value at the path; steps that are not there yet are made. Raises CannotKeep."""
        if not self.plain.strip():
            said = self.text.rstrip() + "\n" if self.text.strip() else ""  # comments alone
            made = said + json.dumps(_nested(path, value), indent=_INDENTATION, ensure_ascii=False) + "\n"
        else:
            made = self._placed(path, value)
        if JsonText(made, self.comments).tree != _replaced(self.tree, path, value):
            raise CannotKeep("the rest of the file could not be kept as it is")
        return made

    def _placed(self, path: TreePath, value: Any) -> str:
        opening = _after_space(self.plain, 0)
        for depth, step in enumerate(path):
            found = next((member for member in _members(self.plain, opening)[0] if member.key == step), None)
            if found is None:
                return self._added(opening, step, _nested(path[depth + 1 :], value))
            if depth == len(path) - 1:
                return self._exchanged(found, value)
            opening = found.value
        raise AssertionError("a path has at least one step")

    def _exchanged(self, member: Member, value: Any) -> str:
        if self.bare[member.value : member.end] != self.text[member.value : member.end]:
            raise CannotKeep(f"the comments inside `{member.key}` would be lost")
        made = self._rendered(value, self._indentation(member.start))
        return self.text[: member.value] + made + self.text[member.end :]

    def _added(self, opening: int, key: str, value: Any) -> str:
        """The text with one more member, behind the last one and whatever is said about it."""
        members, closing = _members(self.plain, opening)
        last = members[-1].end if members else opening + 1
        behind = last + len(self.text[last:closing].rstrip())
        if members:
            indentation = self._indentation(members[-1].start) if self._begins_line(members[-1].start) else None
            comma = "" if "," in self.bare[last:closing] else ","
            ending = self.text[behind:]
        else:
            indentation = self._indentation(opening) + self._unit()
            comma = ""
            ending = self._newline() + self._indentation(opening) + self.text[closing:]
        separator = " " if indentation is None else self._newline() + indentation
        made = f"{json.dumps(key, ensure_ascii=False)}: {self._rendered(value, indentation)}"
        return self.text[:last] + comma + self.text[last:behind] + separator + made + ending

    def _rendered(self, value: Any, indentation: str | None) -> str:
        if indentation is None:
            return json.dumps(value, ensure_ascii=False)
        lines = json.dumps(value, indent=self._unit(), ensure_ascii=False).split("\n")
        return (self._newline() + indentation).join(lines)

    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    def _unit(self) -> str:
        """By how much this file indents."""
        members, _ = _members(self.plain, _after_space(self.plain, 0))
        if members and self._begins_line(members[0].start):
            return self._indentation(members[0].start) or _INDENTATION
        return _INDENTATION

    def _indentation(self, position: int) -> str:
        """The white space at the beginning of the line of a position."""
        line = self.text[self.text.rfind("\n", 0, position) + 1 :]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _begins_line(self, position: int) -> bool:
        return not self.text[self.text.rfind("\n", 0, position) + 1 : position].strip() and "\n" in self.text[:position]

    def veiled(self, hidden: Callable[[TreePath, str], bool], mask: str) -> str:
        """The text with a mask for every comment, and for every text value of which `hidden` says so by path and value."""
        spans = [
            (start, end, json.dumps(mask))
            for path, start, end in (_texts(self.plain, _after_space(self.plain, 0), ()) if self.plain.strip() else ())
            if hidden(path, json.loads(self.plain[start:end]))
        ]
        if self.comments:
            found = (each for each in _COMMENT.finditer(self.text) if each["comment"])
            spans += [(each.start(), each.end(), f"/* {mask} */") for each in found]
        made = self.text
        for start, end, instead in sorted(spans, reverse=True):
            made = made[:start] + instead + made[end:]
        return made


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\r\n]", " ", found[0]) if found["comment"] else found[0]


def _parsed(plain: str) -> dict[str, Any]:
    if not plain.strip():
        return {}
    try:
        tree = json.loads(plain, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise UnreadableJson(
            f"line {error.lineno}, column {error.colno}: {error.msg[:1].lower() + error.msg[1:]}"
        ) from error
    except RecursionError as error:
        raise UnreadableJson("it is nested too deeply") from error
    if not isinstance(tree, dict):
        raise UnreadableJson("it is not an object")
    return tree


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) < len(pairs):
        keys = [key for key, _ in pairs]
        raise UnreadableJson(f"`{next(key for key in keys if keys.count(key) > 1)}` is given twice")
    return tree


def _no_constant(name: str) -> Any:
    raise UnreadableJson(f"`{name}` is not JSON")


def _nested(path: TreePath, value: Any) -> Any:
    return {path[0]: _nested(path[1:], value)} if path else value


def _replaced(tree: dict[str, Any], path: TreePath, value: Any) -> dict[str, Any]:
    return {**tree, path[0]: _replaced(tree.get(path[0], {}), path[1:], value) if len(path) > 1 else value}


def _after_space(plain: str, position: int) -> int:
    found = _SPACE.match(plain, position)
    return found.end() if found else position


def _end_of(plain: str, value: int) -> int:
    return json.JSONDecoder().raw_decode(plain, value)[1]


def _members(plain: str, opening: int) -> tuple[list[Member], int]:
    """The members of the object that begins there, and where its closing brace is. The text is known to be sound."""
    members: list[Member] = []
    at = _after_space(plain, opening + 1)
    while plain[at] != "}":
        key, end = json.JSONDecoder().raw_decode(plain, at)
        value = _after_space(plain, _after_space(plain, end) + 1)
        members.append(Member(key, at, value, _end_of(plain, value)))
        at = _next(plain, members[-1].end)
    return members, at


def _next(plain: str, end: int) -> int:
    """The next thing behind a value: the following element, or the closing bracket."""
    at = _after_space(plain, end)
    return _after_space(plain, at + 1) if plain[at] == "," else at


def _texts(plain: str, at: int, path: TreePath) -> Iterator[tuple[TreePath, int, int]]:
    """Every value that is a text, with its path and where it begins and ends; elements of a list have the list's path."""
    if plain[at] == '"':
        yield path, at, _end_of(plain, at)
    elif plain[at] == "{":
        for member in _members(plain, at)[0]:
            yield from _texts(plain, member.value, (*path, member.key))
    elif plain[at] == "[":
        at = _after_space(plain, at + 1)
        while plain[at] != "]":
            yield from _texts(plain, at, path)
            at = _next(plain, _end_of(plain, at))
