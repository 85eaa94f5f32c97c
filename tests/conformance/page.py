"""The page `docs/reference/conformance.md`, made from the verdicts of the last `make conformance`.

Owns: the look of the page. Invariant: a pure function of what is in the repository, so a test can tell when it is old.

`python -m tests.conformance.page` runs the suite, keeps its verdicts in `verdicts.json` beside this file and writes the
page; it fails when a scenario that applies does.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio

from tests.clients import claude_code
from tests.conformance.judgement import NOT_APPLICABLE, judge, problems
from tests.conformance.suite import REVISIONS, npm_version, required

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "conformance.md"
KEPT = HERE / "verdicts.json"

INTRODUCTION = """\
# Conformance

What the official suite (`@modelcontextprotocol/conformance` {suite}) says about the MCP face, over HTTP, in both
revisions of the protocol and for the extension `io.modelcontextprotocol/tasks`: {passed} checks passed, no failure, no
warning.

The suite calls tools, resources and prompts of its own by name. Test code adds them to the server that
`outrider serve --http` makes; what is no such fixture is answered by Outrider. Its tools for tasks are agents that are
Python functions, started through `run_agent`, so every task the suite sees is an execution.

Made by `make conformance`, {date}.
"""
CLIENTS = """
## Clients

Tests drive `outrider serve` with clients that others wrote: {clients}.

- The clients of the SDKs play one scenario over stdio and HTTP, in both eras where the SDK knows both: dispatch three
  agents, wait for one, steer one, cancel one, collect all, read the tree. They read every kind of error.
- The Inspector's command line lists and calls the tools over stdio and HTTP in both eras, and follows the tasks that calls
  become. The version that `npx` picks on Node 20 lists and calls the tools, too, and reads errors.
- Claude Code's own client, offline and with a scripted model, dispatches an agent over stdio and reports its result.
"""


def page() -> str:
    """The text of the page."""
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    passed = sum(count for revision in REVISIONS for count in kept["passed"][revision].values())
    inapplicable = [f"- `{name}`: {why}." for name, why in NOT_APPLICABLE.items()]
    parts = {
        **{f"Revision {revision}": _table(kept, revision) for revision in REVISIONS},
        "Not applicable": inapplicable,
    }
    text = INTRODUCTION.format(suite=kept["suite"], date=kept["date"], passed=passed)
    text += CLIENTS.format(clients=", ".join(f"{name} {version}" for name, version in kept["clients"].items()))
    return text + "".join(f"\n## {heading}\n\n" + "\n".join(lines) + "\n" for heading, lines in parts.items())


def _table(kept: Mapping[str, Any], revision: str) -> Iterable[str]:
    yield "| scenario | by the revision | checks passed |"
    yield "|---|---|---|"
    for name, standing in kept["standing"][revision].items():
        if name not in NOT_APPLICABLE:
            yield f"| `{name}` | {standing.replace('-', ' ')} | {kept['passed'][revision][name]} |"


def _clients(folder: Path) -> dict[str, str]:
    return {
        "Python SDK": version("mcp"),
        "TypeScript SDK": f"{npm_version('client')} and {npm_version('sdk')}",
        "MCP Inspector": f"{npm_version('inspector')} and {npm_version('inspector-cli')}",
        "Claude Code": claude_code.version(folder),
    }


async def _judged() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        verdicts = await judge(Path(folder))
        clients = _clients(Path(folder))
    if complaints := await problems(verdicts):
        sys.exit("\n".join(["error: the suite complains, so no page is written", *complaints]))
    return {
        "suite": npm_version("conformance"),
        "clients": clients,
        "date": datetime.now(UTC).date().isoformat(),
        "standing": {revision: required(revision) for revision in REVISIONS},
        "passed": {
            revision: {name: verdict.passed for name, verdict in judged.items() if name not in NOT_APPLICABLE}
            for revision, judged in verdicts.items()
        },
    }


if __name__ == "__main__":
    KEPT.write_text(json.dumps(anyio.run(_judged), indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
