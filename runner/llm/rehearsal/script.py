"""The script of a rehearsal: YAML text becomes turns, or an error that names file and line.

Owns the format: which keys a turn has and what they mean. Knows nothing of requests or replies.
Invariant: a script that loads is complete; only a template can still fail, on data that was not there.

    agents:
      Investigator:                        # an agent's name, or "*" for every agent without an entry; `Lead/Investigator`
                                           # is one that works for `Lead`, and comes before
        - when: start                      # the situation this turn answers, see `Situation`
          if: "input.severity == 'page'"   # optional expression
          once: true                       # optional: at most once in an execution
          let: {service: "{{ input.labels.service }}"}  # optional names for the templates below
          say: "looking at {{ service }}"
          call:
            - {tool: logs.query, with: {service: "{{ service }}", limit: 50}}
            - {for: "input.pods", if: "item.ready", tool: k8s.describe, with: {pod: "{{ item.name }}"}}
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from runner.llm.protocol import ModelError
from runner.llm.rehearsal.template import Rendering, expression, sequence, text, value

SITUATIONS = ("start", "after_tool", "delivered", "message", "conclude", "any")


@dataclass(frozen=True, slots=True)
class Situation:
    """The kind of the newest messages in a transcript.

    `start`: nothing was answered yet. `after_tool`: they answer a call of one of `names` (`*`: any tool).
    `delivered`: they hold results of sub-agents (of one of `names`, if given). `message`: a later message.
    `conclude`: no tools are offered. `any`: always.
    """

    kind: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A tool call, or one for each item of `each`."""

    tool: str
    arguments: Rendering
    each: Rendering | None
    condition: Rendering | None


@dataclass(frozen=True, slots=True, eq=False)
class ScriptedTurn:
    """One answer and when it is given; a turn equals only itself."""

    when: Situation
    where: str
    condition: Rendering | None
    once: bool
    let: Mapping[str, Rendering]
    say: Rendering | None
    calls: tuple[ScriptedCall, ...]


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A whole script: the turns of each agent in the order they are tried."""

    name: str
    agents: Mapping[str, tuple[ScriptedTurn, ...]]

    def turns_of(self, agent: str, caller: str = "") -> tuple[ScriptedTurn, ...]:
        """The turns of an agent for this caller, else for any caller, else those of `*`."""
        return self.agents.get(f"{caller}/{agent}") or self.agents.get(agent) or self.agents.get("*", ())


def load_rehearsal(path: Path) -> Rehearsal:
    """Read a script from a file. Raises ModelError with file and line."""
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = "is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else "cannot be read"
        raise ModelError("rehearsal", f"the rehearsal `{path}` {reason}", "check the path under `rehearsal:`") from error
    return parse_rehearsal(source, path.name)


def parse_rehearsal(source: str, file: str = "rehearsal.yaml") -> Rehearsal:
    """Parse a script; `file` is its name in errors and, without its suffix, the rehearsal's name."""
    return Rehearsal(Path(file).stem, _ScriptReader(source, file).agents())


def tool_name(name: str) -> str:
    """A tool's sent name: `logs.query` and `logs__query` are the same tool."""
    return name.replace(".", "__", 1)


class _Loader(yaml.SafeLoader):
    """YAML in which a time stays text and `on` is a word: tool arguments are JSON."""


_BOOLEAN, _TIME = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"
_Loader.yaml_implicit_resolvers = {
    first: [resolver for resolver in resolvers if resolver[0] not in (_BOOLEAN, _TIME)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOLEAN, re.compile("^(?:true|false)$"), ["t", "f"])


class _ScriptReader:
    """One pass over the nodes of a script, which have line numbers."""

    def __init__(self, source: str, file: str) -> None:
        self._file = file
        self._loader = _Loader(source)
        try:
            self._root = self._loader.get_single_node()
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise ModelError("rehearsal", f"{file}:{line}: {error.problem}", "the file must be valid YAML") from error

    def agents(self) -> dict[str, tuple[ScriptedTurn, ...]]:
        if self._root is None:
            raise ModelError("rehearsal", f"{self._file}:1: the rehearsal is empty", "begin with `agents:`")
        fields = self._fields(self._root, ("agents",), "a rehearsal")
        if "agents" not in fields:
            raise self._error(self._root, "`agents` is missing", "begin with `agents:`")
        entries = self._fields(fields["agents"], None, "`agents`")
        return {name: tuple(self._turn(node) for node in self._items(entry)) for name, entry in entries.items()}

    def _turn(self, node: yaml.Node) -> ScriptedTurn:
        fields = self._fields(node, ("when", "if", "once", "let", "say", "call"), "a turn")
        if "when" not in fields:
            raise self._error(node, "a turn needs `when`", f"one of {', '.join(SITUATIONS)}")
        if "say" not in fields and "call" not in fields:
            raise self._error(node, "a turn needs `say` or `call`", "give it text or a call")
        once = self._plain(fields["once"]) if "once" in fields else False
        if not isinstance(once, bool):
            raise self._error(fields["once"], "`once` is `true` or `false`")
        let = self._fields(fields["let"], None, "`let`") if "let" in fields else {}
        return ScriptedTurn(
            when=self._situation(fields["when"]),
            where=self._where(node),
            condition=self._compiled(fields, "if", expression),
            once=once,
            let={name: value(self._plain(item), self._where(item, f"let.{name}")) for name, item in let.items()},
            say=self._compiled(fields, "say", text),
            calls=tuple(self._call(item) for item in self._items(fields["call"])) if "call" in fields else (),
        )

    def _situation(self, node: yaml.Node) -> Situation:
        plain = self._plain(node)
        kind, names = next(iter(plain.items())) if isinstance(plain, dict) and len(plain) == 1 else (plain, ())
        if kind not in SITUATIONS:
            raise self._error(node, f"`when` cannot be `{kind}`", f"one of {', '.join(SITUATIONS)}")
        names = names if isinstance(names, list | tuple) else [names]
        if not all(isinstance(name, str) for name in names) or (names and kind not in ("after_tool", "delivered")):
            raise self._error(node, f"`when: {kind}` cannot be narrowed like this", "write `{after_tool: server.tool}`")
        if kind == "after_tool" and not names:
            raise self._error(node, "`after_tool` needs a tool", "write `{after_tool: server.tool}` or `{after_tool: '*'}`")
        return Situation(kind, tuple(tool_name(name) if kind == "after_tool" else name for name in names))

    def _call(self, node: yaml.Node) -> ScriptedCall:
        fields = self._fields(node, ("tool", "with", "for", "if"), "a call")
        if "tool" not in fields:
            raise self._error(node, "a call needs `tool`", "write `{tool: server.tool, with: {…}}`")
        tool = self._string(fields["tool"], "`tool`")
        arguments = self._plain(fields["with"]) if "with" in fields else {}
        if not isinstance(arguments, dict):
            raise self._error(fields["with"], "`with` must be a mapping of argument names to values")
        where = self._where(fields.get("with", node), f"with ({tool})")
        return ScriptedCall(
            tool=tool_name(tool),
            arguments=value(arguments, where),
            each=self._compiled(fields, "for", sequence),
            condition=self._compiled(fields, "if", expression),
        )

    def _compiled(
        self, fields: Mapping[str, yaml.Node], key: str, compile_: Callable[[str, str], Rendering]
    ) -> Rendering | None:
        if key not in fields:
            return None
        return compile_(self._string(fields[key], f"`{key}`"), self._where(fields[key], key))

    def _fields(self, node: yaml.Node, known: tuple[str, ...] | None, what: str) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, f"{what} must be a mapping")
        written = [key.value for key, _ in node.value]
        for key, _ in node.value:
            if written.count(key.value) > 1:
                raise self._error(key, f"`{key.value}` is given twice in {what}")
        self._loader.flatten_mapping(node)
        fields: dict[str, yaml.Node] = {}
        for key_node, item in node.value:
            key = self._string(key_node, "a key")
            if known is not None and key not in known:
                near = difflib.get_close_matches(key, known, 1)
                hint = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(known)}"
                raise self._error(key_node, f"unknown key `{key}` in {what}", hint)
            fields[key] = item
        return fields

    def _items(self, node: yaml.Node) -> list[yaml.Node]:
        if not isinstance(node, yaml.SequenceNode):
            raise self._error(node, "a list is required here", "begin each entry with `- `")
        return list(node.value)

    def _string(self, node: yaml.Node, what: str) -> str:
        plain = self._plain(node)
        if not isinstance(plain, str):
            raise self._error(node, f"{what} must be text", "put it in quotes")
        return plain

    def _plain(self, node: yaml.Node) -> Any:
        try:
            return self._loader.construct_object(node, deep=True)
        except yaml.MarkedYAMLError as error:
            raise self._error(node, str(error.problem)) from error

    def _where(self, node: yaml.Node, what: str = "") -> str:
        place = f"{self._file}:{node.start_mark.line + 1}"
        return f"{place}: {what}" if what else place

    def _error(self, node: yaml.Node, message: str, hint: str = "") -> ModelError:
        return ModelError("rehearsal", self._where(node, message), hint)
