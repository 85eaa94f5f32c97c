"""The view of the MCP App as a resource: one HTML document with its styles and its script inside.

Owns the document around the script of `server/web`, and its metadata. Must not know: what the script does. Invariant: the
document names no address, because a host lets it load nothing.
"""

from __future__ import annotations

from functools import cache

import anyio.to_thread
import mcp_types as t

from server.mcp_face.introduction import APP_TYPE, TREE_VIEW, VERSION
from server.web.inline import inlined_script, inlined_style

ENTRY = "shells/mcp_app.js"
SHEETS = ("base.css", "execution.css", "app.css")

ABOUT = {"ui": {"prefersBorder": True}}
"""Without `csp`: nothing outside is needed."""

VIEW = t.Resource(
    name="tree_view",
    title="Execution tree",
    uri=TREE_VIEW,
    description="The view of an execution tree, live.",
    mime_type=APP_TYPE,
    _meta=ABOUT,
)

_DOCUMENT = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Execution tree</title>
<style>
{style}</style>
</head>
<body data-page="app" data-version="{version}">
<main id="app" data-state="loading"></main>
<script>
{script}</script>
</body>
</html>
"""


async def view() -> t.TextResourceContents:
    """The contents of the resource. The first call takes a moment, in a thread."""
    text = await anyio.to_thread.run_sync(document)
    return t.TextResourceContents(uri=TREE_VIEW, mime_type=APP_TYPE, text=text, _meta=ABOUT)


@cache
def document() -> str:
    """The document. Made once in a process."""
    return _DOCUMENT.format(version=VERSION, style=inlined_style(*SHEETS), script=inlined_script(ENTRY))
