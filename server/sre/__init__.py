"""The former name of `outrider_sre`, for the snapshots of older configurations.

An interrupted tree of the example resumes with its snapshot, which starts `python -P -m server.sre.logs` and reads
`server/sre/rehearsal.yaml`. The package has no modules of its own: its path is that of `outrider_sre`.
"""

from __future__ import annotations

import sys
from pathlib import Path

__path__ = [str(Path(__file__).resolve().parents[2] / "outrider_sre")]

for _word in sys.orig_argv:
    if _word.startswith(f"{__name__}."):
        sys.stderr.write(f"note: `{_word}` is now `{_word.replace(__name__, 'outrider_sre')}`\n")
