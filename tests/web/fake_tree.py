"""The view of an execution in a real window, over trees that the page makes itself.

Owns a small server of the static files under the strict policy of the dashboard, and the page on which the view is mounted.
Must not know: the API. Invariant: the page refuses inline scripts and styles, and everything that is not from its origin.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from playwright.async_api import Page

from tests.support.sources import ROOT

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'"
DOCUMENT = b"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Execution</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<link rel="stylesheet" href="/tests/web/view.css"><link rel="stylesheet" href="/server/web/static/css/execution.css">
</head><body><main id="view"></main></body></html>"""
SHEET = b":root { color-scheme: light dark } body { margin: 0 } #view { height: 100vh }"

MOUNT = """
async ({ count, options, more }) => {
  const { bigSource } = await import("/tests/web/js/big_source.js");
  const { mountExecution } = await import("/server/web/static/js/core/execution.js");
  const made = bigSource(count, options);
  const place = document.getElementById("view");
  const before = performance.now();
  const view = mountExecution(place, { source: made.source, id: "root", ...more });
  await new Promise((done) => {
    const look = () => (place.querySelector(".x-execution[data-state=ready]") ? done() : requestAnimationFrame(look));
    look();
  });
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  window.tested = { ...made, view, painted: performance.now() - before };
  return window.tested.painted;
}
"""


class Files(SimpleHTTPRequestHandler):
    """Files of the repository, and one page."""

    extensions_map = {".js": "text/javascript", ".css": "text/css"}  # noqa: RUF012 - as it is declared there

    def do_GET(self) -> None:
        """Answer a page, its sheet, or a file."""
        made = {"/": (b"text/html; charset=utf-8", DOCUMENT), "/tests/web/view.css": (b"text/css", SHEET)}.get(self.path)
        if made is None:
            super().do_GET()
            return
        kind, body = made
        self.send_response(200)
        self.send_header("Content-Type", kind.decode())
        self.end_headers()
        self.wfile.write(body)

    def end_headers(self) -> None:
        """Send the policy with everything."""
        self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is declared there
        """Say nothing: the test tells what went wrong."""


@contextmanager
def served() -> Iterator[str]:
    """The address of the page, while it is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(ROOT)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def mounted(page: Page, count: int, *, options: dict[str, Any] | None = None, **more: Any) -> float:
    """Mount the view of a tree of so many executions. Returns the milliseconds until it was painted."""
    painted: float = await page.evaluate(MOUNT, {"count": count, "options": options or {}, "more": more})
    return painted
