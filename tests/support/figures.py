"""Figures that a test tells whoever wants them: `make faults` collects them in a file, anybody else gets none.

Owns: the file and its form, a line of JSON each. Invariant: a test passes or fails alike whether somebody listens or not.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

FIGURES = "OUTRIDER_FAULT_FIGURES"
"""The variable that names the file."""


def tell(**figures: Any) -> None:
    """Write one line."""
    if path := os.environ.get(FIGURES):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(figures) + "\n")
