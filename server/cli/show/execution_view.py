"""The view of one execution, for people and for programs, from its rows: facts, transcript, tool calls, plan and tasks.

Owns the form of all of these. Must not know: where the rows come from.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.result import UNVERIFIED, Result, remark
from server.cli.show.report import files_of, place_of, put_result, to_the_cause
from server.cli.show.tree_columns import drawn
from server.cli.show.tree_model import TreeModel
from server.cli.show.tree_rows import asked_of, rows_of
from server.cli.show.wording import unknown_outcome
from server.cli.terminal.options import command, runnable
from server.cli.terminal.output import one_line, put
from server.shapes import shape
from server.wording import EXPIRED, count, duration, happening, price, tokens

if TYPE_CHECKING:
    from db.rows.reads import Reads
    from runner.resume.readiness import Lack
    from runner.snapshot import Question


Record = Mapping[str, Any]

PIPED_WIDTH = 160
"""Columns of a tree that is not written to a terminal."""

WIDTH = 100
"""Characters of a text that a line repeats."""


@dataclass(frozen=True, slots=True)
class ExecutionView:
    """One execution and everything below it."""

    row: Record
    model: TreeModel
    rows: Sequence[Record]
    remarks: Sequence[str]
    owner_gone: bool
    needs: Sequence[Lack]
    """What its tree needs to go on, if it is interrupted, and is not here."""
    short_id: str
    questions: Sequence[Question] = ()
    origin: str = ""
    """Where its tree was forked from, in words."""
    continued_by: Sequence[str] = ()

    @property
    def pricing(self) -> set[str]:
        """How its model calls were priced."""
        return {kind for node in self.model.nodes.values() for kind in node.pricing}

    def show(self) -> None:
        """Put out the facts, then the answer, then the tree."""
        put(self.facts_text() + "\n\n")
        result = self._result()
        if result is not None and result.output is not None:
            put_result(result, self.pricing)
            put("")
        put(self.tree_text())

    def facts_text(self) -> str:
        """The facts, a line each."""
        return "\n".join(f"{name:<10} {value}" for name, value in self._facts())

    def tree_text(self) -> str:
        """The tree, nothing folded."""
        assert self.model.root is not None
        width = shutil.get_terminal_size().columns - 1 if sys.stdout.isatty() else PIPED_WIDTH
        lines = drawn(rows_of(self.model.root, time.time(), fold=False), width)
        return "\n".join(line.plain for line in lines)

    def origin_text(self) -> str:
        """Where its tree was forked from, as a line above the tree; empty for another tree."""
        return f"forked {self.origin}\n" if self.origin else ""

    def as_object(self) -> dict[str, Any]:
        """Everything about it."""
        row = {name: value for name, value in self.row.items() if name not in ("input", "result")}
        return {
            "execution_id": self.row["id"],
            **row,
            "input": _parsed(self.row["input"]),
            "result": _parsed(self.row["result"]),
            "owner_gone": self.owner_gone,
            "needs": [{**asdict(lack), "words": str(lack)} for lack in self.needs],
            "warnings": list(self.remarks),
            "approvals": sorted(each for node in self.model.asking.values() for each in node.asked),
            "tree": self.tree_object(),
        }

    def tree_object(self) -> list[dict[str, Any]]:
        """One object an execution, parents before children."""
        names = ("id", "parent_execution_id", "agent", "stage", "status", "outcome", "reason", "level", "task", "error")
        sums = ("own_seconds", "own_tokens", "cost_usd", "subtree_seconds", "subtree_tokens", "subtree_cost_usd")
        return [{name: row[name] for name in (*names, *sums, "subtree_executions")} for row in self.rows]

    def _facts(self) -> list[tuple[str, str]]:
        row, node = self.row, self.model.root
        assert node is not None
        status = f"{shape(row['status'], row['outcome'])} {row['status'].replace('_', ' ')}"
        if row["outcome"] not in (None, row["status"]):
            status += f", {row['outcome']}"
        if row["reason"]:
            status += f" ({row['reason']})"
        if self.needs:
            status += f"; interrupted, and cannot be resumed here: needs {', '.join(map(str, self.needs))}"
        elif self.owner_gone:
            status += f"; its process is gone, `{command('resume ' + self.short_id)}` resumes it"
        figures = [count(row["turns"], "turn"), count(row["tool_call_count"], "tool call"), tokens(row["own_tokens"])]
        whole = [
            count(row["subtree_executions"], "execution"),
            tokens(row["subtree_tokens"]),
            price(row["subtree_cost_usd"], self.pricing),
        ]
        facts = [
            ("execution", row["id"]),
            ("agent", f"{one_line(row['agent'])} ({row['strategy']})"),
            ("status", status),
            *self._why(),
            ("task", one_line(row["task"] or "", 200)),
            ("started", f"{row['started_at'] or 'not yet'}, {duration(node.elapsed(time.time()))}"),
            ("itself", ", ".join(figures)),
            ("tree", ", ".join(whole)),
        ]
        return [fact for fact in [*facts, *self._exceptions()] if fact[1]]

    def _exceptions(self) -> list[tuple[str, str]]:
        """Facts that only some executions have."""
        row = self.row
        facts = [("parent", row["parent_execution_id"] or ""), ("model", row["model"] or ""), ("budget", _budget(row))]
        facts += [("forked", self.origin), ("continues", row["continues_execution_id"] or "")]
        facts += [("continued", f"by {each}") for each in self.continued_by]
        if row["cancel_requested_at"]:
            facts.append(("cancelled", f"by {one_line(row['cancelled_by'] or '')}: {one_line(row['cancel_reason'] or '')}"))
        result = self._result()
        facts.append(("files", files_of(result) if result is not None else ""))
        cited = result.metadata.get(UNVERIFIED, ()) if result is not None else ()
        facts.append(("evidence", remark(cited) if cited else ""))
        facts += [("waits", f"{node.agent} {asked_of(node)}") for node in self.model.asking.values()]
        if sys.stdout.isatty():  # a person looks: only there is told what allows a call that was seen
            facts += [fact for each in self.questions for fact in (("arguments", each.exact), ("digest", each.digest))]
        return [*facts, *(("note", each) for each in self.remarks)]

    def _why(self) -> list[tuple[str, str]]:
        """What went wrong, where if not here, and what to do about it."""
        path = to_the_cause(self.rows)
        results = [Result.of_json(row["result"]) for row in reversed(path) if row["result"]]
        advice = [problem.recommendation for result in results for problem in result.errors if problem.recommendation]
        facts = [("error", path[-1]["error"] or ""), ("in", place_of(path) if len(path) > 1 else "")]
        return [*facts, *(("advice", runnable(each)) for each in dict.fromkeys(advice))]

    def _result(self) -> Result | None:
        return Result.of_json(self.row["result"]) if self.row["result"] else None


async def load_view(reads: Reads, database: Path, execution: str) -> ExecutionView:
    """Read the rows of an execution and everything below it."""
    from db.store.owners import is_alive
    from runner.snapshot import Question
    from server.cli.store import lacks_by_tree

    rows = await reads.tree(execution)
    model = TreeModel.of_rows(rows, await reads.pricing(execution))
    stages = await reads.stages(execution)
    for each in rows:
        if each["id"] in stages and each["waiting_for"] in (None, "children"):  # its stage says more than that
            model.nodes[each["id"]].action = happening("execution.progress", json.loads(stages[each["id"]]))
    for event in await reads.notices(execution):
        payload = json.loads(event["payload"])
        node = model.nodes[event["execution_id"]]
        model.remark(node, f"{happening(event['type'], payload)}: {payload.get('message', '')}")
    for call in await reads.unknown_outcomes(execution):
        model.remark(model.nodes[call["execution_id"]], unknown_outcome(call))
    open_ = await reads.questions.open(execution)
    for asked in open_:  # of one of them, or, where one step of a plan is looked at, of its plan
        waits = asked["execution_id"] if asked["execution_id"] in model.nodes else asked["step_execution_id"]
        model.ask(model.nodes[waits], asked["id"], asked["tool"])
    waiting = {asked[name] for asked in open_ for name in ("execution_id", "step_execution_id")}
    for each in rows:
        if each["waiting_for"] == "approval" and each["id"] not in waiting:
            model.nodes[each["id"]].action = EXPIRED
    remarks = [f"{node.agent}: {remark}" for node in model.nodes.values() for remark in node.notes]
    row = rows[0]
    gone = row["finished_at"] is None and row["owner"] is not None and not is_alive(database, row["owner"])
    root = row["root_execution_id"]
    needs = (await lacks_by_tree(reads, database, root)).get(root, ()) if gone else ()
    first = await reads.outlines.first_event(execution) if execution == root else None
    origin = origin_words(json.loads(first["payload"])) if first and first["type"] == "execution.forked" else ""
    later = [each["id"] for each in await reads.outlines.continuing(execution)]
    questions = [*map(Question.of_row, open_)]
    return ExecutionView(row, model, rows, remarks, gone, needs, await reads.short(execution), questions, origin, later)


def origin_words(told: Mapping[str, Any]) -> str:
    """Where a tree was forked from, by its first event."""
    return f"from {told['forked_from']} at {told['at']}; {count(told['kept'], 'execution')} kept"


# -- transcripts and tool calls ----------------------------------------------------------------------------------------
def message_object(message: Record) -> dict[str, Any]:
    """A message for programs."""
    return {**message, "content": _parsed(message["content"])}


def call_text(call: Record, label: str = "") -> str:
    """A tool call: what was asked, and what came back."""
    state = "outcome unknown" if call["status"] == "unknown" else call["status"]
    head = f"── {label}tool {call['tool']} ({state}) {call['call_id']}"
    who = f"\nasked by {one_line(call['agent'])}, execution {call['execution_id']}" if "agent" in call else ""
    answer = call["full_result"] or call["result"] or "no answer yet"
    return f"{head}{who}\narguments: {call['arguments']}\n{answer}"


def call_object(call: Record) -> dict[str, Any]:
    """A tool call for programs."""
    return {**call, "arguments": _parsed(call["arguments"]), "is_error": bool(call["is_error"])}


def _budget(row: Record) -> str:
    """What it and everything below it may use, and what of it was given to agents of its own."""
    limits = [f"${row['budget_usd']:.4f}"] if row["budget_usd"] is not None else []
    limits += [tokens(row["budget_tokens"])] if row["budget_tokens"] is not None else []
    given = f" (${row['budget_reserved_usd']:.4f} of it given to its agents)" if row["budget_reserved_usd"] else ""
    return ", ".join(limits) + given


def _parsed(stored: str | None) -> Any:
    try:
        return json.loads(stored) if stored is not None else None
    except ValueError:
        return stored


def plan_text(plan: Mapping[str, Any]) -> str:
    """The plan of an execution, as people read it."""
    lines = [f"plan {plan['status']}, version {plan['version']}: {one_line(plan['user_request'], WIDTH)}"]
    if plan["analysis"]:
        lines.append(f"  {one_line(plan['analysis'], WIDTH)}")
    lines += [
        f"  revised: {trigger['type']} in {trigger['step_id']}: {one_line(trigger['reason'], WIDTH)}"
        for trigger in plan["triggers"]
    ]
    return "\n".join([*lines, *(line for step in plan["steps"] for line in _step(step))])


def _step(step: Mapping[str, Any]) -> list[str]:
    mark = shape(step["status"], None if step["success"] or step["status"] != "completed" else "failed")
    after = f" after {', '.join(step['depends_on'])}" if step["depends_on"] else ""
    again = f", {step['retry_count']} more attempts" if step["retry_count"] else ""
    lines = [f"{mark} {step['id']} {step['agent']} ({step['status']}{again}){after}: {one_line(step['task'], WIDTH)}"]
    if step["error"]:
        lines.append(f"    {one_line(step['error'], WIDTH)}")
    return lines


def tasks_text(state: Mapping[str, Any]) -> str:
    """The tasks of an iteration, as people read them."""
    tasks = state["tasks"]
    done = sum(task["status"] == "completed" for task in tasks)
    lines = [f"{len(tasks)} task{'' if len(tasks) == 1 else 's'}, {done} completed"]
    for number, task in enumerate(tasks, 1):
        lines.append(
            f"{shape(task['status'], None)} {number} {task['agent']} ({task['status']}): {one_line(task['task'], WIDTH)}"
        )
        if "error" in task:
            lines.append(f"    {one_line(task['error']['message'], WIDTH)}")
    return "\n".join(lines)
