"""The trees that are killed: a Lead sends Captains, each Captain sends Scouts and Strikers, who look and strike in the
field; a campaign, a chain of two stages, whose first one is merged and whose second one is a Captain; an expedition; and a
voyage.

Owns: the configuration, and what the model of each agent answers, chosen by the agent and by what its transcript shows, so
that a resumed execution gets the answer it would have got. Must not know: processes and rows.
Invariant: what an agent says in the end depends on what its tools and its children returned, and on nothing else.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from tests.faults.crash import expedition, voyage
from tests.faults.crash.expedition import COURIER, MARSHAL
from tests.faults.crash.ledger import Ledger
from tests.faults.crash.voyage import ADMIRAL
from tests.support.messages_api import Answer, Received, reply, text, tool_use
from tests.support.pairing import objections

FIELD_SERVER = Path(__file__).with_name("field_server.py")
CAPTAINS = 3
SQUAD = ("Scout", "Scout", "Striker")
ROOT = "root"
"""The task of the Lead; its children are called `root.1`, theirs `root.1.1` …, and those of a chain `root.Scout` …"""

LEAD, CAMPAIGN, PATROL, HOLDER = "Lead", "campaign", "Patrol", "Holder"
"""What is dispatched, each with the task of the root."""

_AGENTS = ("Lead", "Captain", "Patrol", "Watch", "Scout", "Striker", "Holder", "Synthesizer")


def _models(*names: str) -> str:
    return "\n".join(f"  {name}: {{model: {name}}}" for name in names)


CONFIG = f"""\
defaults: {{model: Lead, limits: {{timeout: 120s, agent_timeout: 100s, max_concurrent_agents: 10}}}}
models:
{_models(*_AGENTS)}
mcp_servers:
  field:
    command: ['{sys.executable}', '-I', '-S', '{FIELD_SERVER}', '${{FIELD}}']
    effects: {{look: read_only, strike: at_most_once, hold: at_most_once}}
    timeout: 60s
agents:
  Lead: {{description: sends captains, model: Lead, sub_agents: [Captain]}}
  Captain: {{description: sends a squad, model: Captain, sub_agents: [Scout, Striker]}}
  Patrol: {{description: sends watches, model: Patrol, sub_agents: [Watch], max_concurrent_agents: 1}}
  Watch: {{description: sends scouts only, model: Watch, sub_agents: [Scout], max_concurrent_agents: 1}}
  Scout: {{description: looks, model: Scout, mcp_servers: [field]}}
  Striker: {{description: strikes, model: Striker, mcp_servers: [field]}}
  Holder: {{description: strikes without end, model: Holder, mcp_servers: [field]}}
  Synthesizer: {{model: Synthesizer}}
agent_chains:
  campaign: {{stages: [{{name: reconnoitre, agents: [Scout, Striker]}}, {{name: attack, agents: [Captain]}}]}}
"""


def _with(names: Collection[str], agents: str) -> str:
    more = CONFIG.replace("mcp_servers:\n", f"{_models(*names)}\nmcp_servers:\n", 1)
    return more.replace("agent_chains:\n", f"{agents}agent_chains:\n")


CONFIGS = {
    **dict.fromkeys((MARSHAL, COURIER), _with(expedition.NAMES, expedition.AGENTS)),
    ADMIRAL: _with(voyage.NAMES, voyage.AGENTS).replace("limits: {", "limits: {max_depth: 4, ", 1),
}
"""The same, with an expedition or a voyage, by what is dispatched."""

EXECUTIONS = 1 + CAPTAINS * (1 + len(SQUAD))
HAPPENINGS = {
    LEAD: 3 + CAPTAINS * (3 + 3 * len(SQUAD)),
    CAMPAIGN: 3 + 3 + 1 + 3 + 3 * len(SQUAD),
    **dict.fromkeys((MARSHAL, COURIER), expedition.HAPPENINGS),
    ADMIRAL: voyage.HAPPENINGS,
}
"""Requests and tool calls of an undisturbed tree."""
ALONE = {**HAPPENINGS, **dict.fromkeys((MARSHAL, COURIER), expedition.UNANSWERED)}
"""The same, while its client does not wait for it: then nobody is there to be asked."""

_REPORT = re.compile(
    r'<report agent="\w+" execution_id="(?P<id>[^"]+)" state="(?P<state>[^"]+)".*?>\n(?P<body>.*?)\n</report>', re.S
)


_FINDING = re.compile(r"root\.\w+ (?:look|strike|unknown)")


@dataclass(frozen=True)
class Seen:
    """A request as an agent's model would read it."""

    agent: str
    label: str
    turns: int
    """How often the model has spoken before, in earlier attempts, too."""
    attempt: int
    calls: tuple[tuple[str, str], ...]
    """The ids of the calls it has made, and their tools."""
    results: Mapping[str, str]
    """What these returned, as text, by id."""
    reports: tuple[str, ...]
    """What its children said in the end, however it heard of it."""
    said: tuple[str, ...]
    """What we said to it."""
    marks: tuple[str, ...]
    """A mark for each message: of two requests of one execution, the later one begins as the earlier one does."""
    concluding: bool

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Seen:
        """Read a request."""
        blocks = [(message["role"], block) for message in body["messages"] for block in message["content"]]
        said = [block["text"] for role, block in blocks if role == "user" and block["type"] == "text"]
        results = {block["tool_use_id"]: _text(block["content"]) for _, block in blocks if block["type"] == "tool_result"}
        before = expedition.turns_before(said[0])
        spoken = sum(1 for message in body["messages"] if message["role"] == "assistant")
        reports = {match["id"]: match["body"] for match in map(_REPORT.search, said) if match is not None}
        for result in results.values():  # one that came by itself, before it was asked for, is the same report
            reports |= _output(result)
        return cls(
            agent=body["model"],
            label=_label(body["model"], said[0]),
            turns=before + spoken,
            attempt=2 if before else 1,
            calls=tuple((block["id"], block["name"]) for _, block in blocks if block["type"] == "tool_use"),
            results=results,
            reports=tuple(reports.values()),
            said=tuple(said),
            marks=tuple(hashlib.blake2s(json.dumps(each).encode(), digest_size=6).hexdigest() for each in body["messages"]),
            concluding=body.get("tool_choice") == {"type": "none"},
        )

    def called(self, tool: str) -> list[str]:
        """The ids of its calls of a tool."""
        return [identifier for identifier, name in self.calls if name == tool]


def _label(agent: str, first: str) -> str:
    """The agents of a chain all have its task, as the staff of a plan has; the one that merges has none of its own."""
    if (seat := expedition.seat_of(agent, first) or voyage.seat_of(agent, first)) is not None:
        return f"{ROOT}.{seat}"
    word = first.split()[0]
    return f"{ROOT}.{agent}" if word == "Merge" or (word == ROOT and agent in ("Scout", "Striker", "Captain")) else word


def label_of(row: Mapping[str, Any]) -> str:
    """The same, from the row of an execution."""
    if (seat := voyage.seat_of_row(row["agent"], row["step_id"])) is not None:
        return f"{ROOT}.{seat}"
    if row["role"] in ("classifier", "plan", "planner", "composer"):
        return f"{ROOT}.{row['step_id']}"
    return f"{ROOT}.{row['agent']}" if row["role"] in ("stage", "synthesis") else str(row["task"])


def _text(content: Any) -> str:
    return content if isinstance(content, str) else " ".join(block.get("text", "") for block in content)


def _output(result: str) -> dict[str, str]:
    """What `get_result` handed over, by the execution it is of; nothing if it was another tool's, or there was none yet."""
    if not result.startswith('{"execution_id"'):
        return {}
    told = json.loads(result)
    return {told["execution_id"]: str(told["result"]["output"])} if told.get("result") is not None else {}


class Brigade:
    """The model server's side of one trial: answers, and what it saw of the tree."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._numbers = count(1)

    def answer(self, received: Received) -> Answer:
        """What the model of the agent that asks says now."""
        seen, serial = Seen.of(received.body), next(self._numbers)
        told: dict[str, Any] = {"calls": [each for each, _ in seen.calls], "results": seen.results}
        told |= {"marks": list(seen.marks), "attempt": seen.attempt}
        wrong = objections(received.body)
        self._ledger.add("turn", "invoke", seen.label, turn=seen.turns + 1, serial=serial, wrong=wrong, **told)
        answer = reply(*self._blocks(seen, serial))
        return replace(answer, headers={"request-id": f"{seen.label}/{seen.turns + 1}/{serial}"})

    def _blocks(self, seen: Seen, serial: int) -> Iterator[dict[str, Any]]:
        if seen.concluding:
            yield text(f"{seen.label} had to conclude")
            return
        match seen.agent:
            case "Lead" | "Captain" | "Patrol" | "Watch" | "Novice":
                yield from self._command(seen, serial)
            case "Synthesizer":
                yield text(_merged(_FINDING.findall(seen.said[0])))
            case "Classifier" | "Planner" | "Composer":
                yield text(expedition.staff_says(seen.agent, seen.said[0]))
            case "Pilot" | "Chart" | "Log" | "Compass" | "Herald":
                yield text(voyage.staff_says(seen.agent, seen.said[0]))
            case _:
                yield from self._act(seen, serial)

    @staticmethod
    def _command(seen: Seen, serial: int) -> Iterator[dict[str, Any]]:
        """Send, and hear: the second Captain asks for results, the others are told; the third one reports by `finish`."""
        sent = seen.called("dispatch_agent")
        if not sent:
            for number, name in enumerate(_sent_by(seen.agent), start=seen.attempt):
                task = {"name": name, "task": f"{seen.label}.{number}"}
                yield tool_use("dispatch_agent", task, f"toolu_{serial}_{number}")
        elif len(seen.reports) == len(sent):
            last = _report(seen.label, seen.reports, "".join(re.findall(r"merged\(.*?\)", seen.said[0])))
            report = {"status": "completed", "summary": "done", "output": last} if seen.label.endswith(".3") else None
            yield _last(seen, serial, last, report)
        elif seen.label.endswith(".2") and not seen.called("get_result"):
            for number, identifier in enumerate(sent, start=1):
                child = json.loads(seen.results[identifier])["execution_id"]
                yield tool_use("get_result", {"execution_id": child, "wait_seconds": 50}, f"toolu_{serial}_{number}")
        else:
            yield text("waiting")

    @staticmethod
    def _act(seen: Seen, serial: int) -> Iterator[dict[str, Any]]:
        tool = {"Striker": "strike", "Holder": "hold"}.get(seen.agent, "look")
        if not seen.results:
            yield tool_use(f"field__{tool}", {"label": seen.label}, f"toolu_{serial}_1")
        else:
            result = seen.results[seen.calls[0][0]]
            found = f"{seen.label} {tool}" if f"{tool}: {seen.label}" in result else f"{seen.label} unknown"
            yield _last(seen, serial, found)


def _last(seen: Seen, serial: int, words: str, report: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The last words of an agent, or its report."""
    report = expedition.report_of(seen.agent, words, seen.attempt, seen.turns + 1) or report
    return text(words) if report is None else tool_use("finish", report, f"toolu_{serial}_0")


def _report(label: str, reports: Collection[str], earlier: str = "") -> str:
    return f"{label}({', '.join(sorted(reports))})" + (f" after {earlier}" if earlier else "")


def _merged(findings: Collection[str]) -> str:
    return f"merged({', '.join(sorted(set(findings)))})"


def _sent_by(agent: str) -> tuple[str, ...]:
    sent = {"Lead": ("Captain",) * CAPTAINS, "Captain": SQUAD, "Patrol": ("Watch",) * 2, "Watch": ("Scout",) * 2}
    return sent.get(agent, ("Scout",))


def last_word(agent: str, unknown: Collection[str], label: str = ROOT) -> str:
    """What a tree says in the end, given the labels of the strikes whose outcome nobody knows."""
    if agent in (MARSHAL, COURIER):
        return expedition.last_word(lambda name, task: last_word(name, unknown, task))
    if agent == ADMIRAL:
        return voyage.last_word(lambda name, task: last_word(name, unknown, task))
    if agent == CAMPAIGN:
        findings = [last_word(name, unknown, f"{ROOT}.{name}") for name in ("Scout", "Striker")]
        return f"{last_word('Captain', unknown, f'{ROOT}.Captain')} after {_merged(findings)}"
    if agent in ("Scout", "Striker", HOLDER):
        done = {"Scout": "look", "Striker": "strike"}.get(agent, "unknown")
        return f"{label} {'unknown' if label in unknown else done}"
    return _report(
        label, [last_word(name, unknown, f"{label}.{number}") for number, name in enumerate(_sent_by(agent), start=1)]
    )
