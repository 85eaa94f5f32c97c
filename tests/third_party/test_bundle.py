"""The reference tool for MCP bundles takes ours: manifest and archive."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.sources import ROOT
from tests.third_party.place import SERVERS, installed


def test_the_reference_tool_takes_the_manifest_and_unpacks_the_bundle(tmp_path: Path) -> None:
    tool, _ = installed("node_modules/.bin/mcpb", "bin/node")
    bundle, unpacked = tmp_path / "outrider.mcpb", tmp_path / "unpacked"
    subprocess.run([sys.executable, ROOT / "tools" / "bundle.py", bundle], check=True)
    surroundings = {**os.environ, "PATH": f"{SERVERS / 'bin'}{os.pathsep}{os.environ['PATH']}"}

    for words in (("unpack", bundle, unpacked), ("validate", unpacked / "manifest.json")):
        done = subprocess.run([tool, *words], env=surroundings, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    assert (unpacked / "server" / "cli" / "main.py").is_file()
