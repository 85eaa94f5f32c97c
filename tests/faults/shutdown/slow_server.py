"""A stdio server whose tool `work` takes its time and leaves a mark: `python slow_server.py FILE`. Standard library only.

Owns: the mark, written when the work is done. Must not know: Outrider or the SDK. Invariant: one line in the file for each
call that was done, and none for one that was cut.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock
from typing import Any

SECONDS = 0.2
WRITING = Lock()


def tell(message: dict[str, Any]) -> None:
    """One line."""
    with WRITING:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def work(identifier: Any) -> None:
    """Take some time, then answer."""
    Event().wait(SECONDS)
    with WRITING, Path(sys.argv[1]).open("a", encoding="utf-8") as marks:
        marks.write("done\n")
    tell({"id": identifier, "result": {"content": [{"type": "text", "text": "done"}]}})


def main() -> None:
    """Answer line by line; calls beside each other."""
    with ThreadPoolExecutor(200) as threads:
        for line in sys.stdin:
            message = json.loads(line)
            method, identifier = message.get("method"), message.get("id")
            if identifier is None:
                continue
            if method == "tools/call":
                threads.submit(work, identifier)
            elif method == "initialize":
                version, info = message["params"]["protocolVersion"], {"name": "slow", "version": "1"}
                about = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
                tell({"id": identifier, "result": about})
            elif method == "tools/list":
                tool = {"name": "work", "description": "Work.", "inputSchema": {"type": "object"}}
                tell({"id": identifier, "result": {"tools": [tool]}})
            else:
                tell({"id": identifier, "error": {"code": -32601, "message": "no such method"}})


if __name__ == "__main__":
    main()
