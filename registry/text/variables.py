"""References to environment variables in the configuration: `${NAME}`, `${NAME:-default}`, and `$${` for a literal `${`.

Owns: the grammar of a reference, its expansion, and `Expanded`, a text that keeps its source.
Must not know: which settings exist. Invariant: the value of a variable never enters a message; `shown` gives its source.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from registry.text.locate import plain

_TOKEN = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|\$\{")
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Expanded(str):
    """The text of a scalar after expansion, with its source."""

    __slots__ = ("source",)

    source: str

    def __new__(cls, text: str, source: str) -> "Expanded":
        """Keep the source beside the text."""
        made = super().__new__(cls, text)
        made.source = source
        return made

    def __deepcopy__(self, memo: object) -> "Expanded":
        """Return itself: like any text it is immutable."""
        return self


class VariableFault(Exception):
    """A reference cannot be expanded: it is malformed, or names a variable that is not set."""

    def __init__(self, message: str, hint: str) -> None:
        """Carry the message and the hint."""
        super().__init__(message)
        self.hint = hint


def built_in_variables(config_folder: Path) -> dict[str, str]:
    """Return the built-in variables: the interpreter and the two folders a command may need."""
    return {
        "OUTRIDER_PYTHON": sys.executable,
        "OUTRIDER_CONFIG_DIR": str(config_folder),
        "OUTRIDER_HOME": str(Path(__file__).resolve().parents[2]),
    }


def expand(source: str, environ: Mapping[str, str]) -> str:
    """Return `source` with its references replaced, as `Expanded` when there were any."""
    if "${" not in source:
        return source

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        if match[0] == "$${":
            return "${"
        if name is None:
            raise VariableFault(
                "`${` begins a reference to an environment variable, and this is not a valid one",
                "write `${NAME}` or `${NAME:-default}`, or `$${` for a literal `${`",
            )
        value = environ.get(name)
        default = match["default"]
        if not value and default is not None:
            return default
        if value is None:
            raise VariableFault(
                f"environment variable `{name}` is not set",
                f"set `{name}`, or give a default: `${{{name}:-value}}`",
            )
        return value

    return Expanded(_TOKEN.sub(replace, source), source)


def needed(source: str) -> list[str]:
    """Return the variables that a text refers to without a default."""
    return [match["name"] for match in _TOKEN.finditer(source) if match["name"] and match["default"] is None]


def names_in(source: str) -> list[str]:
    """Return the variables that a text refers to."""
    return [match["name"] for match in _TOKEN.finditer(source) if match["name"]]


def referenced(text: str) -> str | None:
    """Return the variable's name when the text is exactly one reference without default, else None."""
    match = _REFERENCE.fullmatch(text)
    return match[1] if match else None


def typed(value: object) -> object:
    """Return an expanded text as the number or flag it spells, as unquoted YAML would."""
    if not isinstance(value, Expanded):
        return value
    spelt = plain(value)
    return value if spelt is None or isinstance(spelt, str) else spelt


def shown(value: object) -> str:
    """Return a value for a message: in backticks, an expanded one as its source, a long one truncated."""
    text = value.source if isinstance(value, Expanded) else str(value)
    return f"`{text if len(text) <= 60 else text[:57] + '...'}`"
