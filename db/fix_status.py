"""How far somebody is with an error. Apart from the table, so that a command line can name them without loading it."""

from __future__ import annotations

from enum import StrEnum


class FixStatus(StrEnum):
    """What is done about an error."""

    NOT_ADDRESSED = "not_addressed"
    PLANNED = "planned"
    IN_PROGRESS = "in_progress"
    FIXED = "fixed"
