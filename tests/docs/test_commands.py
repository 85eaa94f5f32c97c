"""Every command that a page, a message or the configuration names exists, with the options it is given there."""

import re
from typing import Any

import typer.main

from server.cli.main import app
from tests.support.sources import PACKAGES, relative, repository_files, text_of

NAMED = re.compile(r"(?:`|\$ |^|\()outrider (?P<words>[a-z-][^`\n)]*)", re.MULTILINE)
ASIDE = re.compile(r"\"[^\"]*\"|'[^']*'|\{[^}]*\}|#.*|>.*|…")
"""Arguments in quotes, pieces of templates, remarks and what output goes into."""


def test_every_command_that_is_named_exists() -> None:
    told = {relative(file): text_of(file) or "" for file in repository_files() if is_read_by_users(relative(file))}

    wrong = [
        f"{place}: outrider {named['words']}: `{word}`"
        for place, text in told.items()
        for named in NAMED.finditer(text)
        if (word := missing(ASIDE.sub("", named["words"]).rstrip("`:;,.").split())) is not None
    ]

    assert not wrong, wrong


def is_read_by_users(place: str) -> bool:
    """Whether a file speaks to users: pages, the configuration, and the code with its messages."""
    return place.endswith(".md") or (place.endswith((".py", ".yaml")) and place.split("/")[0] in (*PACKAGES, "config.yaml"))


def missing(words: list[str]) -> str | None:
    """What in a command line does not exist: a command or an option."""
    command: Any = typer.main.get_command(app)
    for word in words:
        if word.startswith("--"):
            options = {name for each in command.params for name in each.opts}
            if word.partition("=")[0] not in options | {"--help"}:
                return word
        elif hasattr(command, "commands") and word.isalpha() and word.islower():
            if word not in command.commands:
                return word
            command = command.commands[word]
    return None


def test_what_does_not_exist_would_be_noticed() -> None:
    assert missing(["frobnicate", "ID"]) == "frobnicate"
    assert missing(["config", "chek"]) == "chek"
    assert missing(["run", "AGENT|CHAIN", "--nonsense"]) == "--nonsense"
    assert missing(["show", "ID", "--tree"]) is None
