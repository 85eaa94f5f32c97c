"""What the word before the cursor may become: commands, options, agents, chains, executions.

Owns: the walk over the words and the candidates at its end. Must not know: shells, but for the form of a line each wants.
Invariant: a shell gets candidates or nothing, never an error; names and ids come from the files the words themselves name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

LONGEST = 70
"""Characters of a description: it shares its line with the candidate."""


class Candidate(NamedTuple):
    """A word, and what it is."""

    word: str
    about: str = ""


class Place(NamedTuple):
    """Where the cursor stands: at the end of which word, in which command, after which options, at which parameter."""

    unfinished: str
    command: Any
    given: Mapping[str, str]
    parameter: Any
    """Whose value is being typed; None where a command or nothing at all is expected."""


def answer(shell: str, program: Any, words: Sequence[str]) -> list[str]:
    """The lines a shell gets for the words so far, the last of them unfinished."""
    *before, unfinished = words or [""]
    try:
        found = [each for each in _candidates(_place(program, before, unfinished)) if each.word.startswith(unfinished)]
    except Exception:  # a broken file is no reason to disturb somebody who types; the command itself will tell
        return []
    return [_line(shell, each) for each in found]


def _line(shell: str, candidate: Candidate) -> str:
    about = " ".join(candidate.about.split())
    about = about if len(about) <= LONGEST else about[: LONGEST - 1] + "…"
    if shell == "zsh":
        return candidate.word.replace(":", "\\:") + (f":{about}" if about else "")
    return f"{candidate.word}\t{about}" if shell == "fish" else candidate.word


def _place(program: Any, words: Sequence[str], unfinished: str) -> Place:
    """Follow the words from the program down."""
    command, given, position, expecting = program, dict[str, str](), 0, None
    for word in words:
        if expecting is not None:
            given[expecting.name], expecting = word, None
        elif word.startswith("-"):
            option = next((each for each in command.params if word in each.opts), None)
            expecting = None if option is None or option.is_flag else option
        elif hasattr(command, "commands"):
            command = command.commands[word]  # a word that is no command has nothing to follow it
        else:
            position += 1
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    at = expecting or (arguments[position] if position < len(arguments) else None)
    return Place(unfinished, command, given, at)


def _candidates(place: Place) -> Iterator[Candidate]:
    if place.parameter is not None and place.parameter.param_type_name == "option":
        return
    if place.unfinished.startswith("-"):
        for option in place.command.params:
            if option.param_type_name == "option":
                yield Candidate(max(option.opts, key=len), option.help or "")
        yield Candidate("--help", "Show how it is used.")
        return
    for name, command in getattr(place.command, "commands", {}).items():
        yield Candidate(name, command.get_short_help_str(limit=LONGEST))
    if place.parameter is not None and place.parameter.metavar in _KINDS:
        yield from _KINDS[place.parameter.metavar](place)


def _names(place: Place) -> Iterator[Candidate]:
    """Chains and agents of the configuration."""
    from server.cli.options import chosen_settings

    given = place.given.get("config")
    settings = chosen_settings(Path(given) if given else None)
    yield from (Candidate(chain.name, chain.description) for chain in settings.chains.values())
    yield from (Candidate(agent.name, agent.description) for agent in settings.agents.values())


def _executions(place: Place) -> Iterator[Candidate]:
    """Recent executions; to be cancelled, approved or spoken to, only those that are open."""
    from db.ids import shortened
    from db.query.query import recent
    from server.cli.options import chosen_database

    config = place.given.get("config")
    path = chosen_database(place.given.get("db"), Path(config) if config else None)
    found = recent(path, place.unfinished, only_open=place.command.name in ("cancel", "approve", "message"))
    for each in found:
        short = shortened(each.id, (other.id for other in found))
        about = f"{each.agent} ({each.status}) {each.task}"
        yield Candidate(short if short.startswith(place.unfinished) else each.id, about)


def _shells(_: Place) -> Iterator[Candidate]:
    from server.cli.completion import SCRIPTS

    yield from map(Candidate, SCRIPTS)


def _clients(_: Place) -> Iterator[Candidate]:
    from server.cli.clients import CLIENTS

    yield from (Candidate(client.name, client.title) for client in CLIENTS.values())


_KINDS: Mapping[str, Callable[[Place], Iterator[Candidate]]] = {
    "AGENT|CHAIN": _names,
    "CLIENT": _clients,
    "ID": _executions,
    "SHELL": _shells,
}
"""What an argument holds, by the name its help gives it."""
