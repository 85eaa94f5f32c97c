"""Rules about commands: required settings, and settings without effect.

Owns: these checks. Must not know: how a command is carried out. Invariant: as in `registry.checks.dispatch_rules`, a
setting without effect is a problem, never ignored.
"""

from collections.abc import Mapping

from registry.specs.commands import TOLD, ArgumentEntry, CommandEntry, RuleEntry, WhenEntry, argument_entries
from registry.text.errors import TreePath
from registry.text.findings import Findings
from registry.text.names import Directories, fold, name_fault, suggestion

_WORK = ("prompt", "timeout", "complexity", "artifact", "sets")
"""Settings that need agents."""


def check_commands(findings: Findings, path: TreePath, commands: Mapping[str, CommandEntry], names: Directories) -> None:
    """Check every command of one agent; `path` leads to its `commands`."""
    first: dict[str, str] = {}
    for name, entry in commands.items():
        here = (*path, name)
        fault = name_fault(name)
        other = first.setdefault(fold(name), name)
        if fault is not None:
            findings.add(here, f"`{name}` cannot be a name here: {fault}", "rename it", key=True)
        elif other != name:
            findings.add(here, f"`{name}` is the same name as `{other}`", "rename one", key=True)
        elif findings.sound(*here):
            _check_command(findings, here, entry, names)


def _check_command(findings: Findings, path: TreePath, entry: CommandEntry, names: Directories) -> None:
    if bool(entry.agents) is (entry.answer is not None):
        hint = "add `agents`" if entry.answer is None else "remove one of the two"
        findings.add(path, "a command needs either `agents` or an `answer`", hint, key=True)
    for key in _WORK if entry.answer is not None else ():
        if getattr(entry, key) is not None:
            message = f"`{key}` has no effect here: no agent carries out a command with an `answer`"
            findings.add((*path, key), message, f"remove `{key}`", key=True)
    _check_arguments(findings, path, argument_entries(entry))
    _check_argument_names(findings, (*path, "arguments"), entry)
    numbered = any(each.kind in ("item", "items") for each in argument_entries(entry))
    if entry.sets is not None and not numbered:
        findings.add(
            (*path, "sets"), "`sets` has no effect without a work item", "add an argument of kind `item`", key=True
        )
    _check_rules(findings, (*path, "agents"), entry.agents, names)


def _check_arguments(findings: Findings, path: TreePath, arguments: tuple[ArgumentEntry, ...]) -> None:
    items = [index for index, each in enumerate(arguments) if each.kind in ("item", "items")]
    if len(items) > 1:
        findings.add(
            (*path, "arguments", items[1]), "a command may have only one argument of work items", "use the kind `items`"
        )
    for index, each in enumerate(arguments):
        here = (*path, "arguments", index)
        if each.kind == "text" and index < len(arguments) - 1:
            findings.add(here, "no argument can follow a `text`, which takes all the rest", "put it last")
        if bool(each.choices) is (each.kind != "choice"):
            hint = "add `choices`" if each.kind == "choice" else "remove them, or write `kind: choice`"
            findings.add(here, "`choices` and the kind `choice` need each other", hint)
        elif each.choices and each.default is not None and each.default not in each.choices:
            findings.add((*here, "default"), "`default` is not one of the `choices`", "add it to them")
        if each.kind in ("item", "items") and each.default is not None:
            findings.add(
                (*here, "default"),
                "`default` has no effect on work items: a call must name them",
                "remove `default`",
                key=True,
            )


def _check_argument_names(findings: Findings, path: TreePath, entry: CommandEntry) -> None:
    taken: list[str] = ["items"] if entry.answer is not None else [*TOLD]
    for index, each in enumerate(argument_entries(entry)):
        if each.name in taken:
            findings.add((*path, index, "name"), f"`{each.name}` is a reserved name here", "call it something else")
        taken.append(each.name)


def _check_rules(findings: Findings, path: TreePath, rules: tuple[RuleEntry, ...], names: Directories) -> None:
    for index, rule in enumerate(rules):
        here = (*path, index)
        written: list[tuple[TreePath, str]] = [(("agent",), rule.agent)] if rule.agent is not None else []
        written += [(("agents", number), phase.agent) for number, phase in enumerate(rule.agents)]
        for place, name in written:
            if names.agents.find(name) is None:
                shown = findings.written((*here, *place, "agent"), name)
                findings.add((*here, *place), f"no agent named `{shown}`", suggestion(name, names.agents))
        if rule.when == WhenEntry() and index < len(rules) - 1:
            findings.add(
                here, "this rule always matches, so the rules after it have no effect", "put it last, or give it a `when`"
            )
