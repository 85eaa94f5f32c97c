"""Sources: texts that are given in the configuration or in a file beside it.

Owns: the three ways to give a text (the text itself, `{content: …}`, `{url: file}`), and reading and keeping such files.
Must not know: the purpose of a text. Invariant: a file is read once, when the configuration is loaded, and lies in its
folder; a snapshot keeps the texts it was made with.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ModelWrapValidatorHandler, PrivateAttr, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from registry.text.entry import Entry, Line, Text
from registry.text.errors import ConfigProblem, TreePath
from registry.text.findings import Findings
from registry.text.folder import Folder, UnreadableFile
from registry.text.template_syntax import TemplateFault
from registry.text.templates import Template, Unusable, beside, gathered
from registry.text.variables import Expanded, shown


class Texts:
    """The texts of files that a configuration names: read from its folder, or kept in its snapshot."""

    def __init__(self, folder: Path, kept: Mapping[str, str] | None = None) -> None:
        """Read from the folder, unless texts were kept: then only those exist."""
        self._folder, self._kept = Folder(folder), kept
        self.read: dict[str, str] = {}

    def text(self, name: str) -> str:
        """Return the text of a file; raises Unusable."""
        if name not in self.read:
            self.read[name] = self._fetch(name)
        return self.read[name]

    def _fetch(self, name: str) -> str:
        if self._kept is not None:
            if name not in self._kept:
                raise Unusable("it did not exist when the configuration was first loaded")
            return self._kept[name]
        try:
            return self._folder.read(name)
        except UnreadableFile as fault:
            missing = isinstance(fault.__cause__, FileNotFoundError | NotADirectoryError)
            raise Unusable("there is no such file" if missing else str(fault)) from fault


class SourceEntry(Entry):
    """A text as written: given inline, or by a file."""

    url: Line | None = Field(default=None, description="a file with the text; relative to this file, in its folder")
    content: Text | None = Field(default=None, description="the text itself")
    _text: str = PrivateAttr(default="")

    @property
    def text(self) -> str:
        """Return the text."""
        return self._text

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, written: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """Read the text. Messages show a file's name as written: it may come from a variable."""
        made = handler(written)
        if (made.url is None) == (made.content is None):
            context = {"hint": "write `url: file.md`, or `content:` and the text", "about": ("url", "content")}
            raise PydanticCustomError("one_source", "expected either `url` or `content`", context)
        texts = info.context if isinstance(info.context, Texts) else Texts(Path(), {})
        if made.url is not None:
            made._text = _of_file(made.url, shown(written["url"] if isinstance(written, Mapping) else made.url), texts)
        else:
            made._text = made.content or ""
        made._look(texts)
        return made

    def _look(self, texts: Texts) -> None:
        """Check the text that was read."""


class TemplateEntry(SourceEntry):
    """A template as written."""

    folder: Line | None = Field(
        default=None, description="the folder that a `content` includes from; absent: that of this file"
    )
    _template: Template = PrivateAttr(default=Template("", ""))
    _faults: tuple[TemplateFault, ...] = PrivateAttr(default=())

    @property
    def template(self) -> Template:
        """Return the template."""
        return self._template

    @property
    def faults(self) -> tuple[TemplateFault, ...]:
        """Return the faults of the template."""
        return self._faults

    def _look(self, texts: Texts) -> None:
        name = beside("", self.url) if self.url is not None else f"{self.folder}/" if self.folder else ""
        self._template, faults = gathered(name or "", self._text, texts.text)
        self._faults = tuple(faults)


def _long(value: object) -> object:
    return {"content": value} if isinstance(value, str) else value


Source = Annotated[SourceEntry, BeforeValidator(_long, json_schema_input_type=str | SourceEntry)]
TemplateSource = Annotated[TemplateEntry, BeforeValidator(_long, json_schema_input_type=str | TemplateEntry)]


def _of_file(url: str, written: str, texts: Texts) -> str:
    name = beside("", url)
    if name is None or "://" in url:
        hint = "write a path that is relative to this file, with `/` and inside of its folder"
        raise PydanticCustomError("leads_out", "leads out of the folder of the configuration", {"hint": hint, "at": "url"})
    try:
        return texts.text(name)
    except Unusable as fault:
        context = {"written": written, "why": str(fault), "hint": "paths are relative to this file", "at": "url"}
        raise PydanticCustomError("unusable", "{written} cannot be used: {why}", context) from fault


def check_templates(findings: Findings, document: Entry) -> None:
    """Report the faults of templates: in their files, or at their position in this one."""
    told: set[ConfigProblem] = set()
    for path, entry in _templates(document, ()):
        named_here = not isinstance(findings.located.value((*path, "url")), Expanded)
        for fault in entry.faults if findings.sound(*path) else ():
            if fault.file and not fault.file.endswith("/") and named_here:
                problem = ConfigProblem(fault.file, fault.line, 1, "", fault.message, fault.hint)
                findings.problems.extend({problem} - told)
                told.add(problem)
            else:
                findings.add(path, f"{fault.message} (line {fault.line} of the text)", fault.hint)


def _templates(value: Any, path: TreePath) -> Iterator[tuple[TreePath, TemplateEntry]]:
    if isinstance(value, TemplateEntry):
        yield path, value
    elif isinstance(value, Entry):
        for key in type(value).model_fields:
            yield from _templates(getattr(value, key), (*path, key))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _templates(each, (*path, key))
    elif isinstance(value, tuple):
        for index, each in enumerate(value):
            yield from _templates(each, (*path, index))
