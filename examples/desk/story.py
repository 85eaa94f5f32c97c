"""The story a desk begins with: what is in the calendar, the mailbox and the rest before anybody changed anything.

Owns the reading of `stories/NAME.yaml`; `DESK_STORY` is the name. Knows nothing of tables. Invariant: days in a story are
relative, so that it is always about the present week.
"""

from __future__ import annotations

import os
import re
from datetime import date, datetime, time, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from examples.desk.clock import now, zone
from examples.desk.errors import DeskError

STORIES = Path(__file__).parent / "stories"
_DAY = re.compile(r"\{day([+-]\d+)\}")

Entry = dict[str, Any]


def story_name() -> str:
    """Which story this desk began with."""
    return os.environ.get("DESK_STORY") or "assistant"


@cache
def _story(name: str) -> dict[str, Any]:
    file = STORIES / f"{name}.yaml"
    if file.parent != STORIES or not file.is_file():
        known = ", ".join(sorted(each.stem for each in STORIES.glob("*.yaml")))
        raise DeskError(f"`DESK_STORY` is `{name}`, and there is no such story", f"the stories are {known}")
    told: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return told


def entries(section: str) -> list[Entry]:
    """The entries of a section, with the days in their texts filled in: `{day+2}` is the date in two days."""
    found: list[Entry] = _story(story_name()).get(section) or []
    return [{name: _filled(value) if isinstance(value, str) else value for name, value in each.items()} for each in found]


def when(entry: Entry) -> datetime:
    """The moment of an entry: `at`, on a `day` counted from today or a `week_day` counted from the first of this week."""
    today = now().date()
    if "week_day" in entry:
        today -= timedelta((today.weekday() - _story(story_name())["first_day_of_week"]) % 7)
    day: date = today + timedelta(entry["week_day"] if "week_day" in entry else entry["day"])
    return datetime.combine(day, time.fromisoformat(entry["at"]), zone())


def _filled(text: str) -> str:
    return _DAY.sub(lambda match: (now().date() + timedelta(int(match[1]))).isoformat(), text)
