"""A service with an execution of every kind: finished, failed, waiting for a person, cancelled.

Owns: their scripts, and the start of them. Must not know: what a test looks at. Invariant: nothing moves any more once the
service is given, except clocks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.api_serving import ApiOptions
from tests.support.gated import DELETE, asked, deleting
from tests.support.models import call, fail, hang, say, think
from tests.web.dashboards import Dashboard, dashboard
from tests.web.windows import Windows

ANSWER = """# The disk of checkout is full

| volume | used |
|---|---|
| data | 97 % |

- the log of [the shop](https://example.org/shop) grows by `2 GB` a day
- **nothing** removes it

```sh
du -sh /var/log
```
"""
ASK = [call("dispatch_agent", name="Worker", task="measure the disk"), say("I wait for what it finds.")]
SCRIPTS: Mapping[str, Any] = {
    "Lead": [think("Who knows it?") + ASK[0], ASK[1], say(ANSWER)],
    "Worker": [say("I look.") + call("missing_tool", path="/var"), say("It is full.")],
    "Counter": [fail("invalid", "the model refuses the text", recoverable=False)],
}
SQL = "select+agent,count(*)+as+n,sum(cost_usd)+as+cost+from+executions+group+by+agent"


@dataclass(frozen=True)
class RichBoard:
    """The dashboard, and its executions by what they are."""

    board: Dashboard
    done: str
    failed: str
    cancelled: str
    asking: str

    @property
    def pages(self) -> Mapping[str, str]:
        """The paths of the pages with data, by name."""
        tabs = {f"agents-{tab}": f"/agents?tab={tab}" for tab in ("agents", "servers", "configuration", "prices")}
        depths = {f"execution-{depth}": f"/executions/{self.done}?tab={depth}" for depth in ("messages", "turns", "raw")}
        return {
            "executions": "/",
            "executions-all": "/?all=1",
            **depths,
            "execution-failed": f"/executions/{self.failed}",
            "execution-cancelled": f"/executions/{self.cancelled}",
            "execution-asking": f"/executions/{self.asking}",
            **tabs,
            "usage": "/usage",
            "sql": f"/sql?sql={SQL}",
            "compare": f"/compare?a={self.done}&b={self.failed}",
            "compare-choice": "/compare",
        }


@asynccontextmanager
async def rich_board(windows: Windows, folder: Path) -> AsyncIterator[RichBoard]:
    """The service, once its executions have ended or wait for a person."""
    options = ApiOptions(extra_tools=deleting().for_agents("Worker"))
    async with dashboard(windows, folder, SCRIPTS, options) as board:
        done = await board.run("Lead", "why is the disk of checkout full?")
        failed = await board.client.post("/api/executions", 201, name="Counter", task="count", input={"text": "a b"})
        await board.client.ended(failed["execution_id"])
        board.api.bench.model.scripts.update({"Lead": [ASK[0], hang()], "Worker": [DELETE, say("gone")]})
        cancelled = await board.start("Lead", "look into the queue")
        await asked(board.api.bench, 1)
        await board.client.post(f"/api/executions/{cancelled}/cancel", reason="no longer needed")
        await board.client.ended(cancelled)
        asking = await board.start("Lead", "remove what nobody needs")
        await asked(board.api.bench, 1)
        yield RichBoard(board, done, failed["execution_id"], cancelled, asking)
