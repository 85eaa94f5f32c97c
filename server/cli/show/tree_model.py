"""The tree of executions as the terminal knows it: fed by events while they happen, or by rows afterwards.

Owns what an event means for the nodes. Must not know: terminals, colours, widths. Invariant: applying the events of a
tree in their order, once or again, gives the same tree; one event costs the same in a small tree and in a large one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from db.clock import moment
from db.ids import SHORT
from server.cli.show.tree_node import TreeNode
from server.cli.show.wording import unknown_outcome
from server.cli.terminal.output import gist, one_line
from server.wording import duration, happening

Record = Mapping[str, Any]

MOST_NAMED = 3
"""Tools of open calls that a line names."""


class TreeModel:
    """One tree of executions."""

    def __init__(self) -> None:
        self.root: TreeNode | None = None
        self.nodes: dict[str, TreeNode] = {}
        self.seq = 0
        """The newest stored event that is in here."""
        self.asking: dict[str, TreeNode] = {}
        """Executions that wait for a person."""
        self._remarked: set[tuple[str, str]] = set()
        self._tasks: dict[str, str] = {}
        self._shorts: dict[str, TreeNode] = {}

    @classmethod
    def of_rows(cls, rows: Iterable[Record], pricing: Mapping[str, Collection[str]]) -> TreeModel:
        """The tree that rows tell, parents before children."""
        model = cls()
        for row in rows:
            node = model._born(row["id"], row["parent_execution_id"], row, row["created_at"])
            node.status, node.outcome, node.reason, node.error = (
                row["status"],
                row["outcome"],
                row["reason"],
                row["error"],
            )
            node.began = moment(row["started_at"]).timestamp() if row["started_at"] else None
            node.ended = moment(row["finished_at"]).timestamp() if row["finished_at"] else None
            node.tokens, node.cost_usd = row["own_tokens"], row["cost_usd"]
            node.pricing = set(pricing.get(row["id"], ()))
            node.cancel_requested = row["cancel_requested_at"] is not None
            node.action = f"waiting for {row['waiting_for']}" if row["waiting_for"] else ""
            node.said = gist(json.loads(row["result"])["summary"]) if row["result"] else ""
            node.account()
        return model

    def apply(self, event: Record) -> TreeNode | None:
        """Take an event in; the node it changed, or None when it says nothing new."""
        seq = event["seq"]
        if seq is not None and seq <= self.seq:
            return None
        self.seq = seq or self.seq
        kind, payload = event["type"], json.loads(event["payload"])
        node = self.nodes.get(event["execution_id"])
        if node is None:
            if kind != "execution.status":
                return None
            node = self._born(event["execution_id"], event["parent_execution_id"], payload, event["at"])
        self._take(node, event, payload)
        node.account()
        return node

    def _take(self, node: TreeNode, event: Record, payload: Record) -> None:
        kind = event["type"]
        if kind == "execution.status":
            _change_status(node, payload, moment(event["at"]).timestamp())
            if node.is_over:
                self.asking.pop(node.id, None)
        elif kind == "timeline_event.completed":
            self._complete(node, payload, moment(event["at"]).timestamp())
        elif kind == "timeline_event.created":
            _begin(node, payload)
        elif kind == "execution.progress":
            _progress(node, payload, moment(event["at"]).timestamp())
        elif kind.startswith("approval."):
            self.ask(node, payload["id"], payload["tool"] if kind == "approval.requested" else None)
        elif kind.startswith("upstream."):
            self.remark(node, f"{happening(kind, payload)}: {payload.get('message', '')}")
        elif kind in _ACTIONS:
            node.action = _ACTIONS[kind] or happening(kind, payload)
        elif kind in ("budget.unpriced", "answer.unmet"):
            self.remark(node, payload["message"])

    def remark(self, node: TreeNode, text: str) -> None:
        """Put a line under an execution, once; a hint that follows on further lines is left out."""
        line = one_line(text.split("\n", 1)[0])
        if (node.id, line) not in self._remarked:
            self._remarked.add((node.id, line))
            node.notes.append(line)
            node.account()

    def ask(self, node: TreeNode, approval: str, tool: str | None) -> None:
        """A call of this tool waits for a person, or, without one, waits no longer."""
        if tool is not None:
            node.asked[approval] = one_line(tool)
            self.asking[node.id] = node
        else:
            node.asked.pop(approval, None)
            if not node.asked:
                self.asking.pop(node.id, None)

    def _complete(self, node: TreeNode, payload: Record, at: float) -> None:
        if node.calling.pop(payload.get("id", ""), None) is not None:
            node.action = _calling(node)
        if payload["kind"] == "model" and "tokens" in payload:  # an unfinished text has none
            node.tokens += payload["tokens"]
            node.cost_usd += payload["cost_usd"]
            node.pricing.add(payload.get("pricing", "priced"))
            node.said = gist(payload["text"]) or node.said
            if node.retried_since is not None:
                lasted = duration(at - node.retried_since)
                node.retried_since, node.action = None, f"the model API answers again, after {lasted}"
        elif payload["kind"] == "tool" and payload["status"] == "unknown":
            self.remark(node, unknown_outcome(payload))
        elif payload.get("refused"):
            self.remark(node, f"dispatch of {payload['agent']} refused: {payload['reason']}")

    def _shorten(self, node: TreeNode) -> None:
        """Give it the end of its id; one that had the same end gets a longer one, too."""
        size = SHORT
        while (other := self._shorts.get(node.id[-size:])) is not None and size < len(node.id):
            size += 1
            other.short = other.id[-max(size, len(other.short)) :]
            self._shorts.setdefault(other.id[-size:], other)
        node.short = node.id[-size:]
        self._shorts[node.short] = node

    def _born(self, identifier: str, parent: str | None, record: Record, at: str) -> TreeNode:
        above = self.nodes.get(parent or "")
        node = TreeNode(identifier, above, one_line(_named(record)), moment(at).timestamp())
        node.task = task = gist(record.get("task") or "")
        self._tasks[identifier] = task
        if above is not None and task == self._tasks[above.id]:
            node.task = ""
        self._shorten(node)
        self.nodes[identifier] = node
        if above is not None:
            node.position = len(above.children)
            above.children.append(node)
        elif self.root is None:
            self.root = node
        return node


def _named(record: Record) -> str:
    """The agent; in a plan, an iteration or a chain also which step, task or stage it carries out."""
    part = _PARTS.get(record.get("role") or "")
    return f"{record['agent']} ({record[part]})" if part is not None and record.get(part) else str(record["agent"])


_PARTS = {"step": "step_id", "worker": "step_id", "stage": "stage", "synthesis": "stage"}
"""What distinguishes executions of one agent, by their role."""


_ACTIONS = {"stream.chunk": "writing", "context.compacted": ""}
"""What an agent does at these events; without words, what the event is called."""


def _begin(node: TreeNode, payload: Record) -> None:
    if payload["kind"] == "tool":
        node.calling[payload["id"]] = one_line(payload["tool"])
        node.action = _calling(node)


def _change_status(node: TreeNode, payload: Record, at: float) -> None:
    node.status = payload["status"]
    if node.status == "running":
        node.began = at if node.began is None else node.began  # a resumed one began before
        node.action = "starting"
    elif node.is_over:
        node.ended = at
        node.outcome, node.reason = payload.get("outcome"), payload.get("reason")
        node.error = payload.get("error")
        node.tokens = payload.get("tokens", node.tokens)
        node.cost_usd = payload.get("cost_usd", node.cost_usd)


def _progress(node: TreeNode, payload: Record, at: float) -> None:
    if payload.get("waiting_for") == "model" and node.retried_since is None:
        node.retried_since = at
    if payload.get("action") == "cancel requested":
        node.cancel_requested = True
    elif payload.get("action"):  # with it, what it waits for is said there too, and sooner
        node.action, node.is_staged = one_line(payload["action"]), "stage" in payload
    elif "waiting_for" in payload and not node.is_staged:
        node.action = _waiting(node, payload["waiting_for"])


def _calling(node: TreeNode) -> str:
    """What an agent with these open calls does, in the words of the process that runs it."""
    if not node.calling:
        return "asking the model"
    names = list(dict.fromkeys(node.calling.values()))
    shown = ", ".join(names[:MOST_NAMED]) + (" …" if len(names) > MOST_NAMED else "")
    return f"calling {shown}" if len(node.calling) == 1 else f"calling {shown} ({len(node.calling)} calls)"


def _waiting(node: TreeNode, what: str | None) -> str:
    """What an agent that waits does, in the same words."""
    if what != "children":
        return f"waiting for {what}" if what is not None else "working"
    open_ = sum(not child.is_over for child in node.children)
    return f"waiting for {open_} agents" if open_ > 1 else "waiting for an agent"
