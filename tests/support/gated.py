"""A service whose agents have a tool that needs approval.

Owns: the gated tool, and waiting for its approval questions. Must not know: the subject of a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import anyio

from runner.approvals.approvals import ApprovalAnswer
from runner.snapshot import Question
from tests.support.local_tools import LocalTools
from tests.support.models import call
from tests.support.service import Bench
from tests.support.shell import Shell

CONFIG = """
defaults: {limits: {timeout: 60s}}
agents:
  Lead: {description: leads, sub_agents: [Worker, Idler]}
  Worker: {description: works}
  Idler: {description: waits}
"""
YES, NO = ApprovalAnswer(approved=True, by="Ada"), ApprovalAnswer(approved=False, by="Ada", reason="not on a Friday")
DELETE = call("delete", what="everything")


async def _delete(arguments: Mapping[str, Any]) -> str:
    return f"deleted {arguments['what']}"


def deleting() -> LocalTools:
    """The gated tool, with a record of its calls."""
    return LocalTools({"delete": _delete}, gate="ask")


async def asked(opened: Bench, number: int = 1) -> list[Question]:
    """Wait until `number` questions are open, and return the open ones."""
    approvals = opened.dispatcher.approvals
    with anyio.fail_after(10):
        while True:
            news, found = approvals.news, await approvals.open()
            if len(found) >= number:
                return list(found)
            await news.wait()


def digest_of(shell: Shell, approval: str) -> str:
    """The digest that a terminal shows below the arguments of a call, computed from the rows."""
    [row] = shell.rows("select seal, arguments_hash from approvals where id = ?", approval)
    return sha256(f"{row['seal']} {row['arguments_hash']}".encode()).hexdigest()[:12]


async def decide(opened: Bench, question: Question, word: ApprovalAnswer = YES) -> bool:
    """Answer a question."""
    return await opened.dispatcher.approvals.decide(question, word)
