"""Durations as people write them: `300s`, `5m`, `1h`, `250ms`, or a number of seconds.

Owns: their grammar and the `Seconds` field type. Must not know: which settings are durations.
Invariant: a duration that validates is a finite number of seconds, at most a year.
"""

import math
import re
from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from registry.text.variables import shown, typed

LONGEST = 366 * 24 * 3600.0
"""A year: a longer duration is a typing error, and would overflow the arithmetic of dates."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?P<amount>-?[0-9]+(?:\.[0-9]+)?) ?(?P<unit>ms|s|m|h)")


def parse_duration(value: object) -> float:
    """Return the duration in seconds; raise ValueError with a message if it is invalid."""
    plain = typed(value)
    if isinstance(plain, bool) or not isinstance(plain, str | int | float):
        raise ValueError("a duration is expected")
    if isinstance(plain, str):
        match = _DURATION.fullmatch(plain.strip())
        if match is None:
            raise ValueError(f"{shown(value)} is not a duration")
        seconds = float(match["amount"]) * _UNITS[match["unit"]]
    else:
        seconds = float(plain)
    if not math.isfinite(seconds) or seconds > LONGEST:
        raise ValueError(f"{shown(value)} is longer than a year")
    return seconds


def _validate(value: object) -> float:
    try:
        return parse_duration(value)
    except (ValueError, OverflowError) as error:
        raise PydanticCustomError(
            "duration",
            "{reason}",
            {"reason": str(error), "hint": "write `300s`, `5m`, `1h`, `250ms` or a number of seconds"},
        ) from None


_WRITTEN = Annotated[str, Field(pattern=r"^ *[0-9]+(\.[0-9]+)? ?(ms|s|m|h) *$|\$\{")]

Seconds = Annotated[
    float,
    BeforeValidator(_validate, json_schema_input_type=_WRITTEN | Annotated[float, Field(gt=0)]),
    Field(gt=0),
]
"""A positive duration: a timeout of 0 would end everything at once."""

SecondsOrZero = Annotated[
    float,
    BeforeValidator(_validate, json_schema_input_type=_WRITTEN | Annotated[float, Field(ge=0)]),
    Field(ge=0),
]
"""A duration that may be 0, such as a grace or a reserve."""
