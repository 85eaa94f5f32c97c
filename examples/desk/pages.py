"""Pages: a table or a text as an HTML file that a browser opens. Start it with `python -m examples.desk.pages`.

Invariant: whatever the data say, they are shown as text; a page loads nothing and runs nothing.
"""

from __future__ import annotations

import re
import secrets
from html import escape
from pathlib import Path
from typing import Annotated

from pydantic import Field

from examples.desk.errors import DeskError
from examples.desk.serving import ADDS, READS, Answer, Desk
from examples.desk.store import folder

PAGE = """<!doctype html>
<html dir="auto"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ border: 1px solid #bbb; padding: .4rem .6rem; text-align: start }}
</style></head>
<body><h1>{title}</h1>
{content}</body></html>
"""

Cell = str | int | float | bool | None

desk = Desk("desk-pages", "Makes pages that show data; answers with the address of the file.")


@desk.tool(ADDS)
def create_page(
    title: Annotated[str, Field(min_length=1, max_length=200)],
    text: Annotated[str, Field(description="shown above the table; a blank line begins a paragraph")] = "",
    columns: Annotated[list[str] | None, Field(description="names of the columns of a table")] = None,
    rows: Annotated[list[list[Cell]] | None, Field(max_length=1000, description="a cell for each column")] = None,
    editable: Annotated[bool, Field(description="cells can be written in, and a blank row is added")] = False,
) -> Answer:
    """Make an HTML page from a text, a table or both."""
    names, lines = columns or [], rows or []
    for number, line in enumerate(lines, start=1):
        if len(line) != len(names):
            raise DeskError(f"row {number} has {len(line)} cells for {len(names)} columns", "give a cell for each column")
    paragraphs = "".join(f"<p>{escape(each.strip())}</p>\n" for each in re.split(r"\n\s*\n", text) if each.strip())
    file = _folder() / f"{_slug(title)}-{secrets.token_hex(4)}.html"
    file.write_text(PAGE.format(title=escape(title), content=paragraphs + _table(names, lines, editable)), encoding="utf-8")
    return {"url": file.as_uri(), "rows": len(lines)}


@desk.tool(READS)
def list_pages() -> Answer:
    """List the pages there are, newest first."""
    found = sorted(_folder().glob("*.html"), key=lambda file: file.stat().st_mtime_ns, reverse=True)
    return {"pages": [file.as_uri() for file in found], "is_empty": not found}


def _table(names: list[str], lines: list[list[Cell]], editable: bool) -> str:
    if not names:
        return ""
    blank: list[list[Cell]] = [[None] * len(names)] if editable else []
    cell = '<td contenteditable="true">' if editable else "<td>"
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'{cell}{_text(value)}</td>' for value in line)}</tr>\n" for line in lines + blank)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>\n"


def _text(value: Cell) -> str:
    return "" if value is None else escape(str(value))


def _slug(title: str) -> str:
    return re.sub(r"\W+", "-", title.casefold()).strip("-")[:40] or "page"


def _folder() -> Path:
    found = folder() / "pages"
    found.mkdir(exist_ok=True)
    return found


if __name__ == "__main__":
    desk.serve()
