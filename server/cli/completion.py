"""`outrider completion`: the scripts that let a shell complete words, and the candidates they ask for.

Owns the three scripts, the walk over the typed words, and the candidates at its end: commands, options, agents, chains,
executions. Invariants: a script decides nothing; a shell gets candidates or nothing, never an error; names and ids come
from the files that the words themselves name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from server.cli.terminal.exits import CommandError
from server.cli.terminal.output import note, one_line, put

QUESTION = "OUTRIDER_COMPLETE"
"""Set to a shell's name by its script: the words are to be completed instead of obeyed."""

SCRIPTS = {
    "bash": """\
_outrider() {
    local IFS=$'\\n'
    COMPREPLY=($(OUTRIDER_COMPLETE=bash "$1" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _outrider outrider
""",
    "zsh": """\
#compdef outrider
_outrider() {
    local -a found
    found=("${(@f)$(OUTRIDER_COMPLETE=zsh ${words[1]} "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n $found[1] ]]; then _describe -V outrider found; else _files; fi
}
compdef _outrider outrider
""",
    "fish": """\
function __outrider
    set -l words (commandline -opc) (commandline -ct)
    set -l found (OUTRIDER_COMPLETE=fish $words[1] $words[2..-1] 2>/dev/null)
    if set -q found[1]
        string join \\n -- $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete --command outrider --no-files --keep-order --arguments '(__outrider)'
""",
}

LONGEST = 70
"""Characters of a description: it shares its line with the candidate."""


USE = {
    "bash": "`outrider completion bash >> ~/.bashrc`",
    "zsh": "`outrider completion zsh >> ~/.zshrc`, below `compinit`",
    "fish": "`outrider completion fish > ~/.config/fish/completions/outrider.fish`",
}


def completion(shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> int:
    """Print the script that completes commands, agents and ids in a shell.

    For example: outrider completion bash >> ~/.bashrc
    """
    import sys

    script = SCRIPTS.get(shell)
    if script is None:
        raise CommandError(f"no completion for the shell `{shell}`", "there is one for `bash`, `zsh` and `fish`")
    put(script)
    if sys.stdout.isatty():
        note(f"keep it: {USE[shell]}; then open a new shell")
    return 0


class Completion(NamedTuple):
    """A word, and what it is."""

    word: str
    about: str = ""


class CursorPosition(NamedTuple):
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
    except Exception:  # a broken file must not disturb typing; the command itself reports it
        return []
    return [_line(shell, each) for each in found]


def _line(shell: str, candidate: Completion) -> str:
    about = one_line(candidate.about, LONGEST)
    if shell == "zsh":
        return candidate.word.replace(":", "\\:") + (f":{about}" if about else "")
    return f"{candidate.word}\t{about}" if shell == "fish" else candidate.word


def _place(program: Any, words: Sequence[str], unfinished: str) -> CursorPosition:
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
    return CursorPosition(unfinished, command, given, at)


def _candidates(place: CursorPosition) -> Iterator[Completion]:
    if place.parameter is not None and place.parameter.param_type_name == "option":
        return
    if place.unfinished.startswith("-"):
        for option in place.command.params:
            if option.param_type_name == "option":
                yield Completion(max(option.opts, key=len), option.help or "")
        yield Completion("--help", "Show how it is used.")
        return
    for name, command in getattr(place.command, "commands", {}).items():
        yield Completion(name, command.get_short_help_str(limit=LONGEST))
    if place.parameter is not None and place.parameter.metavar in _KINDS:
        yield from _KINDS[place.parameter.metavar](place)


def _names(place: CursorPosition) -> Iterator[Completion]:
    """Chains and agents of the configuration."""
    from server.cli.terminal.options import chosen_settings

    given = place.given.get("config")
    settings = chosen_settings(Path(given) if given else None)
    yield from (Completion(chain.name, chain.description) for chain in settings.chains.values())
    yield from (Completion(agent.name, agent.description) for agent in settings.agents.values())


def _executions(place: CursorPosition) -> Iterator[Completion]:
    """Recent executions; to be cancelled, approved or spoken to, only those that are open."""
    from db.ids import shortened
    from db.query.query import recent
    from server.cli.terminal.options import chosen_database

    config = place.given.get("config")
    path = chosen_database(place.given.get("db"), Path(config) if config else None)
    found = recent(path, place.unfinished, only_open=place.command.name in ("cancel", "approve", "message"))
    for each in found:
        short = shortened(each.id, (other.id for other in found))
        about = f"{each.agent} ({each.status}) {each.task}"
        yield Completion(short if short.startswith(place.unfinished) else each.id, about)


def _shells(_: CursorPosition) -> Iterator[Completion]:

    yield from map(Completion, SCRIPTS)


def _clients(_: CursorPosition) -> Iterator[Completion]:
    from server.cli.install.clients import CLIENTS

    yield from (Completion(client.name, client.title) for client in CLIENTS.values())


_KINDS: Mapping[str, Callable[[CursorPosition], Iterator[Completion]]] = {
    "AGENT|CHAIN": _names,
    "CLIENT": _clients,
    "ID": _executions,
    "SHELL": _shells,
}
"""What an argument holds, by the name its help gives it."""
