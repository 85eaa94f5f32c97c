"""Wrong messages, made from the schemas of the tools themselves, and what may be answered to them.

Owns the generator (seeded, so that a failure can be repeated) and the verdict. Must not know: how a message is carried.
Invariant: whether arguments are wrong is decided by the published schema and a validator of its own, never by our code.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jsonschema

from tests.support.wire import problem_of, request

CANARY = "k4n4ry"
"""Stands in wrong values; no refusal may repeat it."""
LONGEST_NAME = 60
KNOWN_CODES = {-32700, -32600, -32601, -32602, -32002, -32020, -32021, -32022}
INSIDE = re.compile(
    r"Traceback|File \\?\"|\.py\b|pydantic|asyncio|sqlalchemy|\w+Error\b(?!s)|\bNoneType\b|<class|object at 0x"
    r"|\bdict(ionary)?\b|\btuple\b"
)
"""Words of the inside."""

METHODS = (
    "tools/call",
    "tools/list",
    "resources/read",
    "resources/list",
    "resources/subscribe",
    "prompts/get",
    "prompts/list",
    "completion/complete",
    "tasks/get",
    "tasks/cancel",
    "tasks/update",
    "logging/setLevel",
    "initialize",
    "server/discover",
    "nothing/at_all",
)


@dataclass(frozen=True)
class Frame:
    """One line to send, without its end."""

    data: bytes
    id: int
    """Under which it must be answered; each frame has its own."""
    fields: frozenset[str] = frozenset()
    """Of which a refusal must name one; none where nothing is known to be wrong with the arguments."""
    is_call: bool = False
    """Whether it is a readable call of a tool, which is always answered to its id."""


@dataclass
class Fuzz:
    """A source of frames."""

    seed: int
    schemas: Mapping[str, Mapping[str, Any]]
    """The input schemas of the tools."""
    era: str
    known: Sequence[str] = ()
    """Executions that exist."""
    names: Mapping[str, str] = field(default_factory=dict)
    """An agent and a chain that exist, by the name of the argument."""
    _count: int = 1_000
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def frames(self, count: int) -> Iterator[Frame]:
        """So many frames."""
        makers: list[Callable[[], Frame]] = [self._call] * 6 + [self._unreadable, self._misshapen, self._parameters]
        for _ in range(count):
            self._count += 1
            yield self._random.choice(makers)()

    # -- calls of tools ------------------------------------------------------------------------------------------------

    def _call(self) -> Frame:
        """A call whose arguments are mostly wrong."""
        tool = self._random.choice(list(self.schemas))
        schema = self.schemas[tool]
        arguments: Any = self._arguments(schema)
        if self._random.random() < 0.03:
            arguments = self._random.choice([[], [CANARY], CANARY, 5, True, 0.5])
            return self._framed(tool, arguments, frozenset({"arguments"}))
        return self._framed(tool, arguments, frozenset(wrong_names(schema, arguments)))

    def _framed(self, tool: str, arguments: Any, fields: frozenset[str]) -> Frame:
        message = request(self._count, "tools/call", {"name": tool, "arguments": arguments}, self.era)
        return Frame(json.dumps(message).encode(), self._count, fields, is_call=True)

    def _arguments(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        chance = self._random
        properties: Mapping[str, Any] = schema.get("properties", {})
        given = {name: self._right(name, each) for name, each in properties.items() if chance.random() < 0.6}
        given |= {name: self._right(name, properties[name]) for name in schema.get("required", ())}
        for name in list(properties):
            if chance.random() < 0.35:
                given[name] = self._wrong()
        for name in schema.get("required", ()):
            if chance.random() < 0.1:
                given.pop(name, None)
        if chance.random() < 0.15:
            given |= {self._name(): self._wrong() for _ in range(chance.choice([1, 1, 2, 30]))}
        return given

    def _right(self, name: str, schema: Mapping[str, Any]) -> Any:
        if name.startswith("execution_id"):
            one = self._random.choice([*self.known, "0" * 37, "nobody"])
            return [one] if name.endswith("s") else one
        if name in self.names and self._random.random() < 0.2:
            return self.names[name]
        fixed = {"wait_seconds": 0, "name": "nobody", "chain": "nothing", "sql": "select 1", "mode": "all"}
        kinds = {each.get("type") for each in schema.get("anyOf", [schema])}
        by_kind = {"string": "some text", "number": 1.5, "integer": 1, "boolean": True, "object": {"a": 1}, "array": ["x"]}
        return fixed.get(name, next((value for kind, value in by_kind.items() if kind in kinds), "pending"))

    def _wrong(self) -> Any:
        """A value that is wrong nearly everywhere."""
        chance = self._random
        kinds: list[Callable[[], Any]] = [
            lambda: {CANARY: [CANARY]},
            lambda: [CANARY, {CANARY: 1}],
            lambda: None,
            lambda: chance.choice([True, False]),
            lambda: chance.choice([-1, 10**9, 10**30, -(10**15), 1e308, -0.0001, 51, 0]),
            lambda: CANARY * chance.choice([1, 50, 5_000]),
            lambda: chance.choice(["", " ", "\x00", "\u202e", "🚀" * 300, "\r\nhint: x", "`", "';--", "../x", "%00"]),
            lambda: _deep(chance.choice([5, 60]), CANARY),
            lambda: [CANARY] * chance.choice([0, 101, 2_000]),
        ]
        return chance.choice(kinds)()

    def _name(self) -> str:
        """The name of an argument that does not exist."""
        odd = ["command", "args", "env", "url", "x\nhint: y", "`", "", "é", "🚀", "__class__", "model_config", "n" * 300]
        return self._random.choice(odd) + str(self._random.randrange(1_000))

    # -- what is no message, or no request -----------------------------------------------------------------------------

    def _unreadable(self) -> Frame:
        """What is not JSON."""
        chance, whole = self._random, bytearray(self._framed("get_result", {"execution_id": "x"}, frozenset()).data)
        kind = chance.randrange(7)
        if kind == 0:
            data = bytes(whole[: chance.randrange(1, len(whole) - 1)])
        elif kind == 1:
            data = b"\xff" + bytes(chance.randbytes(chance.randrange(1, 200)).replace(b"\n", b""))
        elif kind == 2:
            data = bytes(whole).replace(
                b'"x"', chance.choice([b"NaN", b"-Infinity", b'"\\ud800"', b'"\\udc00x"', b"'x'", b"01"])
            )
        elif kind == 3:
            data = bytes(whole).replace(b'"x"', b"[" * 3_000 + b"]" * 3_000)
        elif kind == 4:
            data = b"\xef\xbb\xbf" + bytes(whole) + b"," * chance.randrange(1, 4)
        elif kind == 5:
            data = bytes(whole).replace(b'"x"', b"1" + b"0" * 6_000)
        else:
            place = chance.randrange(len(whole))
            whole[place : place + 1] = chance.choice([b"\x00", b"\x80", b'"', b"\\"])
            data = bytes(whole)
        return Frame(data, self._count)

    def _misshapen(self) -> Frame:
        """What is JSON, and no message."""
        chance = self._random
        odd: list[Any] = [None, [], {}, 5, CANARY, [{"jsonrpc": "2.0", "id": CANARY, "method": "ping"}] * 3, {"id": 1}]
        if chance.random() < 0.3:
            return Frame(json.dumps(chance.choice(odd)).encode(), self._count)
        message = request(self._count, chance.choice(METHODS), {}, self.era)
        for name in chance.sample(list(message), chance.choice([1, 1, 2])):
            if chance.random() < 0.3:
                del message[name]
            else:
                wrong = [None, 5, -0.5, [], {}, True, "2.1", {CANARY: CANARY}, [CANARY]]
                message[name] = chance.choice(wrong)
        text = json.dumps(message)
        if chance.random() < 0.2:  # a key twice
            text = text.replace("{", '{"method": "x", "id": 7, ', 1)
        return Frame(text.encode(), self._count)

    def _parameters(self) -> Frame:
        """A request whose parameters are wrong."""
        chance = self._random
        names = ["name", "uri", "arguments", "taskId", "ref", "argument", "level", "cursor", "inputResponses", "_meta", "x"]
        given = {name: self._wrong() for name in chance.sample(names, chance.randrange(1, 5))}
        message = request(self._count, chance.choice(METHODS), {}, self.era)
        message["params"] |= given
        return Frame(json.dumps(message).encode(), self._count)


def _deep(levels: int, core: Any) -> Any:
    for _ in range(levels):
        core = {"a": [core]}
    return core


def wrong_names(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> Iterator[str]:
    """The arguments the schema does not allow as they are; one that may be left out may also be null."""
    required, properties = schema.get("required", ()), schema.get("properties", {})
    yield from (name for name in required if name not in arguments)
    yield from (name for name in arguments if name not in properties)
    optional = {name for name in properties if name not in required and "default" not in properties[name]}
    given = {name: value for name, value in arguments.items() if value is not None or name not in optional}
    for error in jsonschema.Draft202012Validator(schema).iter_errors(given):
        yield from (str(part) for part in list(error.absolute_path)[:1])


def shown(name: str) -> str:
    """A name as a refusal shows it: short, and in one line."""
    return "".join(letter if letter.isprintable() and letter != "`" else "?" for letter in name[:LONGEST_NAME])


def judge(frame: Frame, answer: Mapping[str, Any]) -> None:
    """Fail unless this may be answered."""
    text = json.dumps(answer, ensure_ascii=False)
    context = (frame.data[:2_000], text[:2_000])
    assert len(text) < 200_000, context
    refused = _refusal(answer)
    if refused is None:
        assert not frame.fields, ("wrong arguments were taken", sorted(frame.fields), context)
        return
    assert INSIDE.search(refused) is None, ("told of the inside", INSIDE.search(refused), context)
    assert '"internal"' not in text, ("failed inside", context)
    if frame.fields:
        assert CANARY not in refused, ("repeated a wrong value", context)
        assert any(f"`{shown(name)}" in refused for name in frame.fields), ("no field named", sorted(frame.fields), context)


def _refusal(answer: Mapping[str, Any]) -> str | None:
    """What a refusal says; None for an answer that is none."""
    if "error" in answer:
        assert answer["error"]["code"] in KNOWN_CODES, answer
        return str(answer["error"]["message"])
    result: Mapping[str, Any] = answer["result"]
    if not result.get("isError"):
        return None
    problem = problem_of({"result": result})
    [block] = result["content"]
    assert block["text"] == f"error: {problem['message']}\nhint: {problem['hint']}", answer
    return str(block["text"])
