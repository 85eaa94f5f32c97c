"""How the end of an execution is told: the answer on stdout, totals and remarks on stderr, or one object for programs.

Owns the form of the answer and its exit code. Must not know: how the execution was run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from db.ids import SHORT
from runner.result import TOOL_UNAVAILABLE, UNVERIFIED, Problem, Result, remark
from server.cli.show.markdown import put_answer
from server.cli.terminal.exits import Exit, exit_of_status
from server.cli.terminal.options import command
from server.cli.terminal.output import error, note, one_line, put, put_json
from server.wording import count, duration, price, tokens

if TYPE_CHECKING:
    from runner.snapshot import Snapshot

REHEARSED = "[rehearsed]"
MOST_FILES = 8
"""Files that are named; of more it is said how many there are."""


@dataclass(frozen=True, slots=True)
class EndedRun:
    """How a run ended."""

    child: Snapshot
    rows: Sequence[Mapping[str, Any]]
    """Its tree, parents before children, with subtree sums."""
    pricing: frozenset[str]
    """How its model calls were priced: `rehearsed`, `priced` …"""
    remarks: Sequence[str]
    """What upstream servers did to it."""
    short_id: str
    interrupted: bool = False
    earlier: bool = False
    """Whether its key was used before, so that nothing was started."""


def tell(ended: EndedRun, *, as_json: bool, answer: str | None = None) -> None:
    """Tell how an order ended; `answer` is what is said to a user, whatever the result is."""
    if as_json:
        put_json(as_object(ended) if answer is None else {**as_object(ended), "answer": answer})
    elif answer is not None:
        put_answer(_marked(answer, rehearsed="rehearsed" in ended.pricing))
    elif ended.child.result is not None:
        put_result(ended.child.result, ended.pricing, command(f"show {ended.short_id}"))
    for line in remarks(ended):
        note(line)
    if ended.child.status in ("failed", "timed_out") or _lacks_a_server(ended):
        error(*complaint(ended))


def put_result(result: Result, pricing: Collection[str], whole: str = "") -> None:
    """Write the answer for people, where there is one; one that no model gave says so first. `whole` as in `put_answer`."""
    text = _marked(result.text, rehearsed=bool(result.metadata.get("rehearsed")) or "rehearsed" in pricing)
    if isinstance(result.output, str):
        put_answer(text, whole)
    elif result.output is not None:
        put(text)


def _marked(answer: str, *, rehearsed: bool) -> str:
    if not rehearsed or answer.startswith(REHEARSED):
        return answer
    # A heading stays a heading only at the beginning of a line.
    return f"{REHEARSED}\n\n{answer}" if answer.startswith("#") else f"{REHEARSED} {answer}"


def remarks(ended: EndedRun) -> list[str]:
    """What is worth knowing besides the answer."""
    child, lines = ended.child, list(ended.remarks)
    if child.status == "completed" and child.result is not None and child.result.outcome != "completed":
        why = f" ({child.result.reason})" if child.result.reason else ""
        lines.append(f"the answer is {child.result.outcome}{why}")
    elif child.status not in ("completed", "failed", "timed_out"):
        lines.append(f"{child.agent} was {child.status}")
    if child.result is not None and (cited := child.result.metadata.get(UNVERIFIED)):
        lines.append(remark(cited))
    if child.result is not None and (files := files_of(child.result)):
        lines.append(f"files: {files}")
    used = usage(ended)
    figures = [
        count(used["executions"], "execution"),
        duration(child.elapsed),
        tokens(used["tokens"]),
        price(used["cost_usd"], ended.pricing),
    ]
    return [*lines, f"{', '.join(figures)}; `outrider show {ended.short_id}` shows it again"]


def files_of(result: Result) -> str:
    """The files it made, by their paths in workspaces."""
    paths = [one_line(str(each.get("path"))) for each in result.artifacts if each.get("type") == "file"]
    more = len(paths) - MOST_FILES
    return ", ".join([*paths[:MOST_FILES], *([f"and {more} more"] if more > 0 else [])])


def complaint(ended: EndedRun) -> tuple[str, str]:
    """What went wrong, then where; and what to do about it."""
    if (lacks := _lacks_a_server(ended)) is not None:
        return f"{ended.child.agent} has only part of an answer: {lacks.message}", lacks.recommendation or ""
    path = to_the_cause(ended.rows)
    last = path[-1]
    why = last["error"] or f"{last['agent']} {last['status'].replace('_', ' ')}"
    results = [Result.of_json(row["result"]) for row in reversed(path) if row["result"]]
    advice = [problem.recommendation for result in results for problem in result.errors if problem.recommendation]
    return f"{why}\n  in {place_of(path)}", advice[0] if advice else ""


BLAMING = ("stage_failed", "planning_failed")
"""Errors that only say that an execution below has failed."""


def to_the_cause(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The way from the top of a tree that failed down to the execution whose error it is."""
    path = [rows[0]]
    while path[-1]["error_type"] in BLAMING:
        below = [row for row in rows if row["parent_execution_id"] == path[-1]["id"]]
        failed = [row for row in below if row["status"] in ("failed", "timed_out", "blocked") and row["error"]]
        if not failed:
            break
        path.append(failed[0])
    return path


def place_of(path: Sequence[Mapping[str, Any]]) -> str:
    """Where in a tree that is: the agents from the top down, how the last one ended, and its short id."""
    last = path[-1]
    names = " › ".join(one_line(row["agent"]) for row in path)
    return f"{names} ({last['status'].replace('_', ' ')}, {last['id'][-SHORT:]})"


def _lacks_a_server(ended: EndedRun) -> Problem | None:
    """What is said of a server that was missing, where the answer is not whole because of that."""
    child = ended.child
    if child.status != "completed" or child.result is None or child.result.outcome != "partial":
        return None
    return next((problem for problem in child.result.errors if problem.type == TOOL_UNAVAILABLE), None)


def usage(ended: EndedRun) -> dict[str, Any]:
    """What the whole tree used."""
    top = ended.rows[0]
    kinds = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    return {
        "executions": top["subtree_executions"],
        "turns": sum(row["turns"] for row in ended.rows),
        "tool_calls": sum(row["tool_call_count"] for row in ended.rows),
        **{kind: sum(row[kind] for row in ended.rows) for kind in kinds},
        "tokens": top["subtree_tokens"],
        "cost_usd": round(top["subtree_cost_usd"], 6),
        "seconds": round(ended.child.elapsed, 3),
    }


def as_object(ended: EndedRun) -> dict[str, Any]:
    """The end for programs."""
    child = ended.child
    return {
        **({"earlier": True} if ended.earlier else {}),
        "execution_id": child.id,
        "agent": child.agent,
        "status": child.status,
        "outcome": child.result.outcome.value if child.result is not None else None,
        "reason": child.result.reason if child.result is not None else None,
        "result": asdict(child.result) if child.result is not None else None,
        "error": child.error,
        "rehearsed": "rehearsed" in ended.pricing,
        "usage": usage(ended),
        "warnings": list(ended.remarks),
    }


def exit_of(ended: EndedRun) -> Exit:
    """The exit code; an interruption that stopped it counts more than its being cancelled."""
    code = Exit.FAILED if _lacks_a_server(ended) else exit_of_status(ended.child.status)
    return Exit.INTERRUPTED if ended.interrupted and code is Exit.CANCELLED else code
