"""The rows of a tree, in every table: what the writes of `db/rows` would have left of it.

Owns their texts and their order. Must not know: which trees there are. Invariant: usage, times and references of rows
agree with each other: an execution's tokens are the sum of its model calls, its tool calls belong to its messages.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from sqlalchemy import Table

from bench.big.population import MODELS, Member, Tree, identifier
from db.clock import stamp
from db.ids import result_delivery
from db.tables import approvals, deliveries, error_records, events, executions, messages, model_calls, tool_calls
from runner.result import Outcome, Result

TABLES = (executions, messages, model_calls, tool_calls, deliveries, events, approvals, error_records)
WORDS = [
    "the",
    "service",
    "error",
    "latency",
    "deploy",
    "queue",
    "retry",
    "pod",
    "node",
    "log",
    "trace",
    "alert",
    "budget",
    "index",
    "cache",
    "timeout",
    "lead",
    "report",
]
TOOLS = ("loki.query_range", "prometheus.query", "files.read_file", "git.diff")
FAILED_CALLS = 0.02
ASKED = 0.2
"""Of the running executions, those that wait for an approval."""

Row = tuple[Any, ...]

_EPOCH = datetime.fromtimestamp(0, UTC)
_BLANK = {
    column.name: column.default.arg if column.default is not None else None  # type: ignore[attr-defined]
    for column in executions.columns
}


def insertion(table: Table) -> str:
    """The statement that inserts a row of a table."""
    names = [column.name for column in table.columns]
    return f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


def at(microseconds: float) -> str:
    """A moment as it is stored."""
    return stamp(_EPOCH + timedelta(microseconds=int(microseconds)))


def _model(member: Member) -> str:
    return MODELS[ord(member.agent[-1]) % len(MODELS)]


class TreeRows:
    """Makes rows, tree by tree; events are numbered through."""

    def __init__(self, seed: int, owner: str) -> None:
        self._dice, self._owner = Random(seed), owner
        self._last_event = self._last_call = 0
        self.rows: dict[Table, list[Row]] = {table: [] for table in TABLES}
        """The rows made so far that are not stored yet, in the order of the columns."""

    def add(self, tree: Tree) -> None:
        """Make all rows of a tree."""
        for member in tree.members:
            self._member(tree, member)

    def _text(self, words: int) -> str:
        return " ".join(self._dice.choices(WORDS, k=words))

    def _member(self, tree: Tree, member: Member) -> None:
        step = int(member.seconds * 1_000_000 / (member.turns + 1))
        told: dict[str, Any]
        ended = None if member.is_open else at(member.created + member.seconds * 1_000_000)
        self._event(tree, member, member.created, "execution.status", {"status": "pending", "agent": member.agent})
        task = self._text(12)
        self._message(member, 0, member.created, "user", "task", [{"type": "text", "text": task}])
        started = member.status not in ("pending", "skipped", "blocked")
        if started:
            self._event(tree, member, member.created, "execution.status", {"status": "running", "agent": member.agent})
        if member.stage is not None and member.parent is not None:
            told = {"action": f"stage {member.position} of 3: {member.stage}", "stage": member.stage}
            self._event(tree, member.parent, member.created, "execution.progress", told)
        used = [0, 0, 0, 0.0]
        for turn in range(1, member.turns + 1):
            self._turn(tree, member, turn, member.created + turn * step, used)
        self._execution(tree, member, task, used, ended if started else at(member.created))
        if not member.is_open:
            told = {"status": member.status, "agent": member.agent, "turns": member.turns, "tokens": used[0] + used[1]}
            self._event(tree, member, member.created + step * (member.turns + 1), "execution.status", told)
        if ended is not None and member.parent is not None:
            read = None if member.parent.is_open else ended
            row = (result_delivery(member.id), member.parent.id, member.id, "result", None, ended, read, member.parent.id)
            self.rows[deliveries].append(row if read else (*row[:-1], None))

    def _turn(self, tree: Tree, member: Member, turn: int, moment: int, used: list[Any]) -> None:
        """One model call, its reply and, unless it is the last one, a tool call."""
        dice = self._dice
        call, reply = identifier(moment, dice), identifier(moment, dice)
        last = turn == member.turns and not member.is_open
        fresh, made, cached, cost = dice.randint(500, 5_000), dice.randint(20, 800), dice.randint(0, 20_000), 0.0
        cost = (fresh * 3 + made * 15 + cached * 0.3) / 1_000_000
        used[:] = used[0] + fresh, used[1] + made, used[2] + cached, used[3] + cost
        model, reason, request = _model(member), "end_turn" if last else "tool_use", f"req_{dice.getrandbits(60):x}"
        said = (call, member.id, turn, model, reason, request, 0, fresh, made, cached, 0, cost, "priced")
        self.rows[model_calls].append((*said, at(moment - 1), at(moment), 0))
        self._event(tree, member, moment, "timeline_event.created", {"kind": "model", "id": call})
        told: dict[str, Any] = {
            "kind": "model",
            "id": call,
            "status": "completed",
            "turn": turn,
            "text": "",
            "tokens": fresh + made,
        }
        self._event(tree, member, moment, "timeline_event.completed", {**told, "cost_usd": cost, "pricing": "priced"})
        blocks: list[dict[str, Any]] = [{"type": "text", "text": self._text(40)}]
        if not last:
            blocks.append({"type": "tool_use", "id": self._tool(tree, member, reply, moment, turn), "input": {}})
        self._message(member, turn, moment, "assistant", "reply", blocks, reply)

    def _tool(self, tree: Tree, member: Member, reply: str, moment: int, turn: int) -> str:
        dice = self._dice
        self._last_call += 1
        call, handle = identifier(moment, dice), f"toolu_{dice.getrandbits(120):024x}"
        tool, failed = dice.choice(TOOLS), dice.random() < FAILED_CALLS
        newest = member.is_open and turn == member.turns
        asked = newest and dice.random() < ASKED
        status = "waiting" if asked else "started" if newest else "failed" if failed else "completed"
        arguments = json.dumps({"query": self._text(5)})
        end = None if newest else at(moment + 1000)
        outcome = (
            (None, None, None) if newest else (1, "timeout", "it took too long") if failed else (0, None, self._text(60))
        )
        begun = (call, member.id, reply, 0, handle, tool, tool.partition(".")[0], arguments, "read_only", status)
        self.rows[tool_calls].append((*begun, *outcome, None, at(moment), end))
        self._event(tree, member, moment, "timeline_event.created", {"kind": "tool", "id": call, "tool": tool})
        if not newest:
            told = {"kind": "tool", "id": call, "tool": tool, "status": status, "is_error": failed, "seconds": 0.001}
            self._event(tree, member, moment + 1000, "timeline_event.completed", told)
        if asked:
            until = at(moment + 10 * 86_400_000_000)
            question = (identifier(moment, dice), member.id, tree.root.id, call, tree.principal, "gate", tool, "0" * 64)
            self.rows[approvals].append((*question, at(moment), until, None, None, None, None, None, "0"))
        if failed and self._last_call % 50 == 0:
            kept = (
                identifier(moment, dice),
                f"{member.id}|{turn}",
                member.id,
                "timeout",
                "medium",
                "it took too long",
                "{}",
            )
            self.rows[error_records].append((*kept, None, "not_addressed", None, None, 1, at(moment), at(moment)))
        return handle

    def _message(
        self, member: Member, position: int, moment: int, role: str, kind: str, blocks: Any, name: str | None = None
    ) -> None:
        name = name or identifier(moment, self._dice)
        self.rows[messages].append((name, member.id, position, role, kind, json.dumps(blocks), at(moment), None))

    def _event(self, tree: Tree, member: Member, moment: int, kind: str, payload: dict[str, Any]) -> None:
        self._last_event += 1
        parent = member.parent.id if member.parent is not None else None
        self.rows[events].append(
            (self._last_event, member.id, parent, tree.root.id, kind, json.dumps(payload), at(moment), tree.session)
        )

    def _execution(self, tree: Tree, member: Member, task: str, used: list[Any], ended: str | None) -> None:
        started = member.status not in ("pending", "skipped", "blocked")
        row = {
            **_BLANK,
            "id": member.id,
            "parent_execution_id": member.parent.id if member.parent is not None else None,
            "root_execution_id": tree.root.id,
            "session_id": tree.session,
            "principal": tree.principal,
            "owner": self._owner,
            "agent": member.agent,
            "role": "root" if member.parent is None else "stage" if member.stage else "sub_agent",
            "strategy": member.strategy,
            "stage": member.stage,
            "position": member.position,
            "task": task,
            "status": member.status,
            "depth": member.depth,
            "path": member.path,
            "created_at": at(member.created),
            "started_at": at(member.created) if started else None,
            "finished_at": ended if not member.is_open else None,
            "model": _model(member),
            "turns": member.turns,
            "tool_call_count": max(member.turns - 1, 0),
            "input_tokens": used[0],
            "output_tokens": used[1],
            "cache_read_tokens": used[2],
            "cost_usd": used[3],
            "config_hash": "0" * 64,
        }
        if member.is_open:
            row["waiting_for"] = "children" if member.children else None
        else:
            row["outcome"] = "completed" if member.status == "completed" else "failed"
            output = self._text(60)
            row["result"] = Result(Outcome(row["outcome"]), output[:80], output).to_json()
            row["error"] = None if member.status == "completed" else f"{member.agent} {member.status}"
        self.rows[executions].append(tuple(row.values()))
