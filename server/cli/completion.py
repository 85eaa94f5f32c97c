"""`outrider completion`: the script that lets a shell complete commands, names and ids.

Owns: the three scripts. Must not know: what there is to complete (`server/cli/candidates.py` does).
Invariant: a script hands the words over as they were typed and shows what comes back; it decides nothing.
"""

from __future__ import annotations

from typing import Annotated

import typer

from server.cli.exits import CommandError

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

    from server.cli.messages import note, put

    script = SCRIPTS.get(shell)
    if script is None:
        raise CommandError(f"no completion for the shell `{shell}`", "there is one for `bash`, `zsh` and `fish`")
    put(script)
    if sys.stdout.isatty():
        note(f"keep it: {USE[shell]}; then open a new shell")
    return 0
