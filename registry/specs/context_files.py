"""Context files: which files agents are shown, by their level and language.

Owns: the shape of the `context_files` section, its checks and ContextFiles. Must not know: how a prompt shows a file.
Invariant: a level sees the files of the levels below it; no pattern leads out of the configuration's folder.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from registry.specs.context import ContextEntry
from registry.text.entry import Entry, Line
from registry.text.errors import TreePath
from registry.text.findings import Findings
from registry.text.folder import Folder, UnreadableFile, leads_out
from registry.text.names import Directory, fold, listed, name_fault, suggestion

FILTERED, FULL = 2, 3
"""The levels that see more than the common files: those of a language, and all."""


def _inside(pattern: str) -> str:
    if leads_out(pattern):
        hint = "write a path that is relative to this file, without `..`"
        raise PydanticCustomError("leads_out", "leads out of the folder of this file", {"hint": hint})
    return pattern


Pattern = Annotated[Line, AfterValidator(_inside)]


class ContextFilesEntry(Entry):
    """The `context_files` section as written."""

    common: tuple[Pattern, ...] = Field(
        default=(), description="files for every agent with a level: paths or patterns (`*`, `**`), relative to this file"
    )
    languages: dict[str, tuple[Pattern, ...]] = Field(
        default={}, description="files by language, for agents of level 2 with this `language`, and of level 3"
    )
    full: tuple[Pattern, ...] = Field(default=(), description="files for agents of level 3, which see all others too")


@dataclass(frozen=True, slots=True)
class ContextFiles:
    """The files shown to agents, by level and language."""

    folder: Folder
    common: tuple[str, ...] = ()
    languages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    full: tuple[str, ...] = ()

    def patterns(self, level: int | None, language: str | None = None) -> tuple[str, ...]:
        """Return the patterns of a level, in order; for a language without files, the common ones."""
        if level is None:
            return ()
        if level >= FULL:
            chosen = [self.common, *self.languages.values(), self.full]
        else:
            own = Directory(self.languages).find(language) if level == FILTERED and language is not None else None
            chosen = [self.common, self.languages[own]] if own is not None else [self.common]
        return tuple(dict.fromkeys(pattern for patterns in chosen for pattern in patterns))


def context_files_spec(entry: ContextFilesEntry, folder: Path) -> ContextFiles:
    """Return the spec of a checked section."""
    return ContextFiles(Folder(folder), entry.common, MappingProxyType(dict(entry.languages)), entry.full)


def check_context_files(
    findings: Findings, section: ContextFilesEntry, agents: Mapping[str, ContextEntry], folder: Path
) -> None:
    """Check that the files exist, and that every level and language of an agent has an effect."""
    _check_languages(findings, section)
    for name, context in agents.items():
        path = ("agents", name, "context")
        if findings.sound(*path) and findings.sound("context_files"):
            _check_level(findings, path, context, section)
    if not findings.stored:  # a stored configuration resumes, whatever happened to its files
        for place, pattern in _patterns(section):
            if findings.sound(*place):
                _check_pattern(findings, place, pattern, Folder(folder))


def _check_languages(findings: Findings, section: ContextFilesEntry) -> None:
    first: dict[str, str] = {}
    for language in section.languages:
        path: TreePath = ("context_files", "languages", language)
        fault = name_fault(language)
        other = first.setdefault(fold(language), language)
        if fault is not None:
            findings.add(path, f"`{language}` cannot be a name here: {fault}", "rename it", key=True)
        elif other != language:
            findings.add(path, f"`{language}` is the same name as `{other}`", "put both lists together", key=True)


def _check_level(findings: Findings, path: TreePath, context: ContextEntry, section: ContextFilesEntry) -> None:
    level, language = context.level, context.language
    if level is not None and section == ContextFilesEntry():
        findings.add(
            (*path, "level"),
            "`level` has no effect: there are no `context_files`",
            "list files under `context_files`",
            key=True,
        )
    elif level == FILTERED and language is None:
        hint = f"add `language`; known: {listed(section.languages)}" if section.languages else "write `level: 1`"
        findings.add((*path, "level"), "level 2 adds the files of a language, and `language` is missing", hint)
    elif level != FILTERED and language is not None:
        findings.add((*path, "language"), "`language` has no effect without `level: 2`", "add the level, or remove it")
    elif language is not None and Directory(section.languages).find(language) is None:
        written = findings.written((*path, "language"), language)
        hint = suggestion(language, section.languages) if written == language else f"known: {listed(section.languages)}"
        findings.add((*path, "language"), f"no files for a language named `{written}`", hint)


def _patterns(section: ContextFilesEntry) -> Iterator[tuple[TreePath, str]]:
    lists: list[tuple[TreePath, tuple[str, ...]]] = [
        (("common",), section.common),
        *((("languages", name), patterns) for name, patterns in section.languages.items()),
        (("full",), section.full),
    ]
    for path, patterns in lists:
        yield from ((("context_files", *path, index), pattern) for index, pattern in enumerate(patterns))


def _check_pattern(findings: Findings, path: TreePath, pattern: str, folder: Folder) -> None:
    """Report the first fault of a pattern's files."""
    written = findings.written(path, pattern)
    name = ""
    try:
        found = folder.find(pattern)
        if not found:
            hint = "paths are relative to this file, and links to folders elsewhere are not followed"
            findings.add(path, f"no file matches `{written}`", hint)
        for name in found:
            folder.read(name)
    except UnreadableFile as fault:
        which = f" (`{name}`)" if name.isprintable() and name and written == pattern else ""
        subject = f"a file that `{written}` matches{which} cannot be shown" if name else f"`{written}` matches too much"
        findings.add(path, f"{subject}: {fault}", "make the pattern narrower")
