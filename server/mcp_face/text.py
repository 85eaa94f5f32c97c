"""Renders the tools' answers as text, for clients that pass only text to a model: complete on its own, and short.

Owns the wording. Must not know: how an answer is made. The structured form is sent too, so no client has to parse the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import to_json

from runner.inputs import taken_by
from server.shapes import shape

Answer = Mapping[str, Any]
Render = Callable[[Answer], str]


def as_json(answer: Answer) -> str:
    return to_json(answer, indent=1).decode()


def agents(answer: Answer) -> str:
    lines = ["Agents you may dispatch:"]
    lines += [f"- {each['name']}: {each['description']}{_abilities(each)}" for each in answer["agents"]] or ["- none"]
    if answer["executions"]:
        lines += ["", "Your latest executions:"]
        lines += [
            f"{shape(each['status'])} {each['execution_id']} {each['agent']} {each['status']} {_cost(each)}: {each['task']}"
            for each in answer["executions"]
        ]
    return "\n".join(lines)


def _abilities(agent: Answer) -> str:
    abilities = f" (capabilities: {', '.join(agent['capabilities'])})" if agent.get("capabilities") else ""
    taken = agent.get("input_schema")
    return f"{abilities} (input: {taken_by(taken)})" if taken is not None else abilities


def changes(answer: Answer) -> str:
    state = "ended" if answer["ended"] else "open"
    changed = f"{len(answer['nodes'])} of {answer['executions']} executions changed"
    return f"{changed}, the tree is {state} (after: {answer['cursor']})"


def dispatched(answer: Answer) -> str:
    place = f" (place {answer['queue_position']} in the queue)" if answer.get("queue_position") else ""
    return f"execution_id: {answer['execution_id']}\n{answer['agent']} is {answer['status']}{place}. {answer['note']}"


def described(answer: Answer) -> str:
    """The state of an execution, with its result or its progress."""
    head = f"{answer['agent']} {answer['status']} (execution_id: {answer['execution_id']})"
    if answer.get("outcome") not in (None, answer["status"]):
        head += f", outcome {answer['outcome']}"
    if answer.get("reason"):
        head += f", because of {answer['reason']}"
    budget = _budget(answer["usage"].get("budget", {}))
    parts = [head, _used(answer), *budget, *(f"note: {each}" for each in answer.get("warnings", ()))]
    if answer.get("error"):
        parts.append(f"error: {answer['error']}")
    if (result := answer.get("result")) is not None:
        parts += ["", str(result["output"])]
        parts += [f"next step: {step}" for step in result.get("next_steps", ())]
    elif (progress := answer.get("progress")) is not None:
        parts.append(_progress(progress))
        parts.append(f"It has not ended: ask again in about {answer['retry_after_seconds']} seconds.")
        if answer.get("waiting_for") == "approval":
            parts += [
                f"waits for approval: {each['agent']} calls {each['tool']} with {as_json(each['arguments'])}"
                for each in answer.get("approvals", ())
            ]
            parts.append(answer["hint"])
    return "\n".join(parts)


def _used(answer: Answer) -> str:
    """The usage of an execution, and of its subtree if it has children. A chain has no usage of its own."""
    own, subtree = answer["usage"], answer.get("subtree_usage")
    if subtree is None:
        return _figures(own)
    together = f"with its agents: {subtree['executions']} executions, {_figures(subtree)}"
    return f"{_figures(own)}; {together}" if own["tokens"] else together


def _figures(usage: Answer) -> str:
    turns, calls = usage["turns"], usage["tool_calls"]
    return f"turns: {turns}, tool calls: {calls}, tokens: {usage['tokens']}, cost: ${usage['cost_usd']:.4f}"


def progress_in_words(agent: str, activity: str, subtree: Answer | None) -> str:
    """The current activity of an execution, and the usage of its subtree so far."""
    words = f"{agent}: {activity}"
    if subtree is None or not subtree["tokens"]:
        return words
    agents = f"{subtree['executions']} executions, " if subtree["executions"] > 1 else ""
    return f"{words} ({agents}{subtree['tokens']} tokens, ${subtree['cost_usd']:.4f} so far)"


def spoken(answer: Answer) -> str:
    """Only the answer for the user; without one, the state of the execution."""
    return str(answer["answer"]) if answer.get("answer") else described(answer)


def _budget(budget: Answer) -> list[str]:
    limits = [f"${budget['spent_usd']:.4f} of ${budget['usd']:.4f}"] if "usd" in budget else []
    limits += [f"{budget['spent_tokens']:.0f} of {budget['tokens']:.0f} tokens"] if "tokens" in budget else []
    return [f"budget, with its agents: {', '.join(limits)}"] if limits else []


def _progress(progress: Answer) -> str:
    words = f"now: {progress['activity'] or 'at work'}; {progress['elapsed_seconds']:.0f} s so far"
    if progress.get("usually_seconds") is not None:
        words += f", it usually takes {progress['usually_seconds']:.0f} s"
    if progress.get("remaining_seconds") is not None:
        words += f", at most {progress['remaining_seconds']:.0f} s more"
    return words


def waited(answer: Answer) -> str:
    head = f"{answer['ended']} ended, {answer['open']} still at work"
    return "\n\n---\n\n".join([head, *(described(each) for each in answer["executions"])])


def cancelled(answer: Answer) -> str:
    words = {"requested": "is being stopped", "done": "was stopped", "already_finished": "had ended before"}
    return f"execution {answer['execution_id']} {words[answer['cancel']]} (status: {answer['status']})"


def accepted(answer: Answer) -> str:
    """The execution that reads the message: the running one, or a new one that continues it."""
    execution = f"execution {answer['execution_id']} ({answer['status']})"
    if answer.get("continues"):
        return f"execution {answer['continues']} had ended; {execution} continues it with your message"
    return f"{execution} will read your message before its next step"


def part(answer: Answer) -> str:
    more = answer.get("next_offset")
    return str(answer["text"]) + (f"\n[{more} of {answer['total']} characters; go on with offset={more}]" if more else "")


def listing(answer: Answer) -> str:
    """One line per execution."""
    lines = [
        f"{shape(each['status'], each.get('outcome'))} {each['execution_id']} {each['agent']} {each['status']} "
        f"{_cost(each)}: {each.get('task', '')}"
        for each in answer["executions"]
    ]
    if answer.get("next_before"):
        lines.append(f"more: before={answer['next_before']}")
    return "\n".join(lines) or "no executions"


def tree(answer: Answer) -> str:
    """One line per execution, children below their parents."""
    lines: list[str] = []
    waiting: list[tuple[int, Answer]] = [(0, answer["tree"])]
    while waiting:
        level, node = waiting.pop()
        shown = f"{shape(node['status'], node.get('outcome'))} {node['agent']} {node['status']} {node['own_seconds']:.1f} s"
        shown += f" {_cost(node)}"
        if "budget_usd" in node:
            shown += f" (budget ${node['budget_usd']:.4f})"
        error = f" error: {node['error']}" if "error" in node else ""
        lines.append(f"{'  ' * level}{shown} {node['execution_id']}{error}")
        waiting += [(level + 1, child) for child in reversed(node.get("children", ()))]
    top = answer["tree"]
    tokens, cost = top.get("subtree_tokens", top["own_tokens"]), top.get("subtree_cost_usd", top["cost_usd"])
    lines.append(f"{answer['executions']} executions, {tokens} tokens, ${cost:.4f}")
    return "\n".join(lines)


def _cost(each: Answer) -> str:
    """The cost of an execution, or of its subtree if it has children."""
    below = each.get("subtree_cost_usd")
    return f"${each['cost_usd']:.4f}" if below is None else f"${below:.4f} with its agents"
