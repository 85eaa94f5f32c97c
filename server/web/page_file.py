"""The page of an exported tree: one HTML document with its styles, its script and its data inside.

Owns the document and its security policy. Must not know: what the data say. Invariants: it names no address and can load
nothing; only the script and the styles that are written here run, and no text of the data can end the element it is in.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from server.web.inline import inlined_script, inlined_style

ENTRY = "shells/file.js"
SHEETS = ("base.css", "execution.css")

_HEAD = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>Execution</title>
<style>{style}</style>
</head>
<body data-page="file">
<main id="file" data-state="loading"></main>
<script type="application/json" id="bundle">
"""
_TAIL = """\
</script>
<script>{script}</script>
</body>
</html>
"""

_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""Inside JSON these stand for themselves; inside HTML they cannot begin or end an element."""
_TABLE = str.maketrans(_ESCAPED)


def page_text(bundle: Mapping[str, Any]) -> Iterator[str]:
    """The document, piece by piece."""
    style, script = f"\n{inlined_style(*SHEETS)}", f"\n{inlined_script(ENTRY)}"
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    yield _HEAD.format(policy=policy, style=style)
    for piece in json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).iterencode(bundle):
        yield piece.translate(_TABLE)
    yield "\n"
    yield _TAIL.format(script=script)


def _hash(text: str) -> str:
    """The hash of an inline element, as a policy names it."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
