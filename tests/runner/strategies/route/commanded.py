"""A crew for tests: a route with the commands and agents of the first seed, work items in several languages.

Owns: the configuration, and small questions to the rows. Must not know: what a test expects.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic_core import from_json

from tests.support.service import Bench

COMMANDS = """
        task:
          description: adds a work item
          arguments: [{name: title}]
          agents: [atomic-task-numberer]
        research:
          arguments: [{name: number, kind: items}, {name: focus, required: false}]
          prompt: "Task Input: $ARGUMENTS"
          agents:
            - {agent: lean-research-agent, when: {language: lean}}
            - researcher
          artifact: research
          sets: researched
        plan:
          arguments: [{name: number, kind: item}]
          agents: [planner]
          artifact: plan
          sets: planned
        implement:
          arguments: [{name: number, kind: items}]
          agents:
            - {agent: lean-implementation-agent, when: {plan: true, language: [lean]}}
            - {agents: [task-executor, {agent: committer, critical: false}], when: {plan: true}}
            - {agent: lean-implementation-agent, when: {language: lean}, mode: simple}
            - implementer
          sets: completed
        revise:
          arguments: [{name: number, kind: item}, {name: why, required: false}]
          agents: [{agent: planner, mode: revision}]
        review: {agents: [reviewer]}
        todo: {answer: "{% for item in items %}{{ item.number }} {{ item.title }} ({{ item.status }})\\n{% endfor %}"}
        errors: {agents: [{agents: [error-diagnostics-agent, planner]}]}
        deploy: {arguments: [{name: where, kind: choice, choices: [test, live]}], agents: [implementer]}
"""

CREW = (
    """
agents:
  orchestrator:
    strategy: route
    sub_agents: []
    route:
      commands:"""
    + COMMANDS
    + """
  atomic-task-numberer: {function: "outrider:add_item"}
  lean-research-agent: {}
  researcher: {}
  planner: {}
  lean-implementation-agent: {}
  task-executor: {}
  committer: {}
  implementer: {}
  reviewer: {}
  error-diagnostics-agent: {}
"""
)

ITEMS = """
work_items:
  items:
    191: {title: Stop the hang, language: markdown, plan: plans/191.md}
    192: {title: Prove it, plan: plans/192.md}
    193: {title: Tidy up, language: python}
    194: {title: Say it, language: lean, plan: plans/191.md}
    195: {title: Search in Lean, language: lean}
    196: {title: Who knows}
"""


def crew(folder: Path, items: str = ITEMS, more: str = "") -> str:
    """The configuration, with its plans beside it."""
    plans = folder / "plans"
    plans.mkdir(exist_ok=True)
    (plans / "191.md").write_text("# Plan\n\nphase 1, phase 2", encoding="utf-8")
    (plans / "192.md").write_text("# Plan\n\n- **Language**: lean\n\nprove it", encoding="utf-8")
    return CREW + items + more


def workers(service: Bench) -> list[tuple[str, str]]:
    """Who worked for commands, by seat."""
    rows = service.sql("select step_id, agent from executions where role = 'direct' order by id")
    return [(row["step_id"], row["agent"]) for row in rows]


def given(service: Bench, agent: str) -> dict[str, Any]:
    """What the first execution of an agent was given as its input."""
    [first, *_] = service.sql("select input from executions where agent = ? order by id", agent)
    data: dict[str, Any] = from_json(first["input"])
    return data


def item(service: Bench, number: int) -> dict[str, Any]:
    """A work item as it is stored."""
    [row] = service.sql("select * from work_items where number = ?", number)
    return row
