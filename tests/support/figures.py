"""Figures that tests report: `make faults` collects them in a file; otherwise they are dropped.

Owns: the file and its format, one line of JSON per call. Invariant: reporting has no influence on the outcome of a test.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

FIGURES = "OUTRIDER_FAULT_FIGURES"
"""The environment variable with the path of the file."""


def tell(**figures: Any) -> None:
    if path := os.environ.get(FIGURES):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(figures) + "\n")
