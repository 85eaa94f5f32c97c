"""A real Chromium, and windows of it that notice what goes wrong on a page.

Owns: how the browser of the machine is found and started, and what counts as a complaint: an error on the console, an
uncaught exception, a violation of the content security policy. Must not know: any page.
Invariant: a complaint that a test has not allowed fails the test.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright, expect

from tests.support.sources import ROOT

NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDE, NARROW = 1440, 390
HEIGHT = 900
PATIENCE = 15_000
"""Milliseconds that a page may take for anything: a machine with other things to do is slow, a wait that ends is short."""

AXE = ROOT / ".servers" / "node_modules" / "axe-core" / "axe.min.js"
RULES = """async (only) => (await axe.run({
  resultTypes: ["violations"], preload: false, ...(only === null ? {} : {runOnly: [only]}),
})).violations.map(
  ({id, nodes}) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" ")}`)"""

TELL_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} refuses ${event.blockedURI} ${event.sample}`));
"""


def executable() -> str:
    """The Chromium on the `PATH`; where there is none, the test fails and says how to get one."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        hint = "run `make servers` as root on Debian, or install Chromium so that it is on your PATH"
        pytest.fail(f"no browser on the PATH: looked for {', '.join(NAMES)}\nhint: {hint}", pytrace=False)
    return found


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A headless Chromium. As root it has no sandbox of its own, because there Chromium refuses to make one."""
    path = executable()
    expect.set_options(timeout=PATIENCE)
    arguments = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            await browser.close()


async def broken_rules(page: Page, only: str | None = None) -> list[str]:
    """The rules of accessibility that a page breaks, or one of them, with elements that do, by axe-core."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE.read_text(encoding="utf-8"))
    return list(await page.evaluate(RULES, only))


@dataclass
class Windows:
    """The windows that a test opens, and the complaints of all of them."""

    browser: Browser
    complaints: list[str] = field(default_factory=list)
    contexts: list[BrowserContext] = field(default_factory=list)
    allowed: list[re.Pattern[str]] = field(default_factory=list)

    async def open(
        self, url: str | None = None, *, theme: Literal["light", "dark"] = "light", width: int = WIDE, **more: Any
    ) -> Page:
        """A page in a window of its own, with storage of its own."""
        viewport = {"width": width, "height": HEIGHT if width > NARROW else 844}
        context = await self.browser.new_context(color_scheme=theme, viewport=viewport, **more)  # type: ignore[arg-type] # a TypedDict by shape
        self.contexts.append(context)
        context.set_default_timeout(PATIENCE)
        await context.add_init_script(TELL_VIOLATIONS)
        page = await context.new_page()
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        if url is not None:
            await page.goto(url)
        return page

    def allow(self, pattern: str) -> None:
        """Expect complaints that match, for example those of a server that the test stops."""
        self.allowed.append(re.compile(pattern))

    def unexpected(self) -> list[str]:
        """The complaints that the test has not allowed."""
        return [each for each in self.complaints if not any(pattern.search(each) for pattern in self.allowed)]

    async def close(self) -> None:
        """Close every window."""
        for context in self.contexts:
            await context.close()

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(f"console: {message.text} ({message.location.get('url', '')})")
