"""Journeys over the pages of real server processes, and pages that tell afterwards what happened on them.

Owns: the agents of these journeys, and the record that each page keeps of itself. Must not know: the subject of a test.
Invariant: the record is taken where the page's own code reads its stream, so an event that counts has reached the page.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from playwright.async_api import Locator, Page, expect

from tests.support.api_serving import TIME, ApiClient
from tests.support.shell import CONFIG, Shell, make_shell
from tests.web.windows import Windows

STREAMED = "Failed to load resource|ERR_|status of 40[14]"
"""What a browser complains of while a server is away, or before a token is exchanged."""

SERVE = "serve: {shutdown_grace: 2s}\n"
AGENTS = """\
  Head: {description: sends others, sub_agents: [Middle, Quick]}
  Middle: {description: sends one, sub_agents: [Waiter, Asker]}
  Asker: {description: asks a person twice, mcp_servers: [gated]}
"""

TURNS = """\
  Head:
    - when: start
      say: "I send Middle, and one that I may not send"
      call: [{tool: dispatch_agent, with: {name: Middle, task: go between}},
             {tool: dispatch_agent, with: {name: Broken, task: break}},
             {tool: dispatch_agent, with: {name: Quick, task: be quick}}]
    - {when: any, if: "pending and tools", say: "I wait"}
    - {when: any, say: "Middle: {% for each in deliveries if each.agent == 'Middle' %}{{ each.status }}{% endfor %}"}
  Middle:
    - {when: start, call: [{tool: dispatch_agent, with: {name: Waiter, task: wait at the gate}}]}
    - {when: any, if: "pending and tools", say: "I wait for Waiter"}
    - {when: any, say: "Waiter has said: {{ deliveries[0].text if deliveries else 'nothing' }}"}
  Asker:
    - {when: start, call: [{tool: gated.wait}]}
    - {when: any, if: "results | length == 1 and tools", call: [{tool: gated.wait}]}
    - {when: any, say: "first {{ results[0].is_error }}, then {{ results[1].text }}"}
"""

RECORD = """
window.journey = { path: null, after: null, heard: [], states: [], gone: [], said: {}, times: {}, rows: [] };
const ask = window.fetch;
window.fetch = (url, how) => {
  const last = how?.headers?.["Last-Event-ID"];
  const { pathname } = new URL(url, location);
  if (pathname.endsWith("/events") && pathname !== window.journey.path)
    Object.assign(window.journey, { path: pathname, after: last, heard: [] });
  return ask(url, how);
};
const unfinished = new WeakMap();
const { read } = ReadableStreamDefaultReader.prototype;
ReadableStreamDefaultReader.prototype.read = async function () {
  const piece = await read.call(this);
  if (typeof piece.value !== "string") return piece;
  const messages = ((unfinished.get(this) ?? "") + piece.value).split("\\n\\n");
  unfinished.set(this, messages.pop());
  for (const message of messages) {
    const data = message.split("\\n").find((line) => line.startsWith("data: "));
    if (data !== undefined && /^id: /m.test(message)) window.journey.heard.push(JSON.parse(data.slice(6)).seq);
  }
  return piece;
};
const LINES = "[data-execution].x-row, li[data-execution]";
new MutationObserver((changes) => {
  const { states, gone, said, times, rows } = window.journey;
  const state = document.querySelector("[data-live]")?.dataset.state ?? "none";
  if (states.at(-1) !== state) states.push(state);
  for (const { removedNodes } of changes) {
    for (const each of removedNodes) {
      if (!(each instanceof Element) || each.isConnected) continue;
      for (const line of [each, ...each.querySelectorAll(LINES)]) {
        if (line.matches(LINES)) gone.push(line.dataset.execution);
      }
    }
  }
  const shown = [...document.querySelectorAll(LINES)];
  if (rows.at(-1) !== shown.length) rows.push(shown.length);
  for (const line of shown) {
    const words = [line.dataset.status, line.querySelector(".x-words, .line-now")?.textContent ?? ""].join(": ");
    const known = (said[line.dataset.execution] ??= []);
    if (known.at(-1) !== words) known.push(words);
    const time = line.querySelector(".x-figure, .line-elapsed")?.textContent;
    const ticks = (times[line.dataset.execution] ??= []);
    if (ticks.at(-1) !== time) ticks.push(time);
  }
}).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
"""


def journey_shell(folder: Path) -> Shell:
    """A shell with a tree of three levels whose leaf waits at a gate, in all ways of being a tool call."""
    opened = folder / "opened"
    opened.write_text("the gate is open", encoding="utf-8")
    config = CONFIG.replace("timeout: 50s}", "timeout: 50s, effects: {wait: read_only}}", 1)
    gate = next(line for line in config.splitlines() if line.startswith("  gate: "))
    gated = (
        gate.replace("  gate:", "  gated:")
        .replace("${GATE:-none}", str(opened))
        .replace("effects", "gates: {wait: ask}, effects")
    )
    config = config.replace(gate, f"{gate}\n{gated}").replace("agents:\n", f"{SERVE}agents:\n{AGENTS}", 1)
    shell = make_shell(folder, config)
    script = folder / "script.yaml"
    said = script.read_text(encoding="utf-8").replace('say: "I waited"', 'say: "I waited. {{ message }}"')
    script.write_text(said + TURNS, encoding="utf-8")
    return shell


@asynccontextmanager
async def caller_of(url: str) -> AsyncIterator[ApiClient]:
    """A caller of a server in another process."""
    async with httpx2.AsyncClient(base_url=url, timeout=3 * TIME) as http:
        yield ApiClient(http)


async def recorded(windows: Windows, url: str, **how: Any) -> Page:
    """A window whose page records what reaches it."""
    page = await windows.open(None, **how)
    await page.add_init_script(RECORD)
    await page.goto(url)
    return page


async def record_of(page: Page) -> dict[str, Any]:
    """What a page has recorded."""
    return dict(await page.evaluate("window.journey"))


def node(page: Page, execution: str) -> Locator:
    """The row of an execution in its tree."""
    return page.locator(f'.x-row[data-execution="{execution}"]')


def agent_row(page: Page, agent: str) -> Locator:
    """The row of an agent in a tree."""
    return page.locator(".x-row[data-execution]").filter(has=page.locator(".x-agent", has_text=agent))


def stored(shell: Shell, told: dict[str, Any], root: str = "%") -> list[int]:
    """The numbers of the events of a tree, or of all, that came after what a page had when it began to follow."""
    after = int(told["after"] or 0)
    rows = shell.rows("select seq from events where root_execution_id like ? and seq > ? order by seq", root, after)
    return [row["seq"] for row in rows]


def statuses(shell: Shell, root: str) -> dict[str, str]:
    """The status of each agent of a tree."""
    rows = shell.rows("select agent, status from executions where root_execution_id = ? order by id", root)
    return {row["agent"]: row["status"] for row in rows}


async def act(page: Page, action: str, text: str = "") -> list[str]:
    """Do it to the selected execution; what its dialog has said before."""
    await page.locator(f".x-detail [data-action={action}], .x-title [data-action={action}]").last.click()
    dialog = page.locator(f"[data-dialog={action}]")
    await dialog.locator(".x-consequences[data-state=ready]").wait_for()
    words = await dialog.locator("li").all_inner_texts()
    await dialog.locator("textarea").fill(text)
    await dialog.locator(f"[data-confirm={action}]").click()
    await expect(dialog).to_have_count(0)
    return words


async def selected(page: Page, agent: str) -> None:
    """Select an agent's row, once its detail is there."""
    row = agent_row(page, agent)
    await row.click()
    chosen = await row.get_attribute("data-execution")
    await page.locator(f'.x-detail[data-execution="{chosen}"][data-state=ready]').wait_for()


@dataclass(frozen=True)
class Journey:
    """A server for the trees of this file."""

    shell: Shell
    url: str
    gate: Path

    @asynccontextmanager
    async def started(self, windows: Windows, agent: str) -> AsyncIterator[tuple[Page, str, ApiClient]]:
        """A page on a new tree: the page, the root, and a caller of the server."""
        windows.allow(STREAMED)
        async with caller_of(self.url) as client:
            root = str((await client.post("/api/executions", 201, name=agent, task="go"))["execution_id"])
            page = await windows.open(f"{self.url}/executions/{root}")
            try:
                yield page, root, client
            finally:
                await windows.close()
