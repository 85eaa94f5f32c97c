"""The base class of every mapping in the configuration file, and the scalar types of its fields.

Owns: strictness. Must not know: any one setting. Invariant: an unknown key is an error, a value of another type is an
error (a reference to an environment variable counts as its expansion), and entries are frozen.
"""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, StringConstraints

from registry.text.variables import typed


class Entry(BaseModel):
    """A mapping of the configuration file, as written."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


def _text(value: object) -> object:
    """Return a plain text: its source is no longer needed once the field is a text."""
    return str(value) if isinstance(value, str) else value


Text = Annotated[str, Strict(), BeforeValidator(_text, json_schema_input_type=str)]
Line = Annotated[
    str,
    Strict(),
    BeforeValidator(_text, json_schema_input_type=Annotated[str, StringConstraints(min_length=1)]),
    StringConstraints(min_length=1),
]
Flag = Annotated[bool, Strict(), BeforeValidator(typed, json_schema_input_type=bool)]
Count = Annotated[int, Strict(), BeforeValidator(typed, json_schema_input_type=Annotated[int, Field(ge=1)]), Field(ge=1)]
Amount = Annotated[
    float,
    Strict(),
    BeforeValidator(typed, json_schema_input_type=Annotated[float, Field(ge=0)]),
    Field(ge=0, allow_inf_nan=False),
]
Share = Annotated[
    float,
    Strict(),
    BeforeValidator(typed, json_schema_input_type=Annotated[float, Field(gt=0, le=1)]),
    Field(gt=0, le=1, allow_inf_nan=False),
]
Budget = Annotated[
    float,
    Strict(),
    BeforeValidator(typed, json_schema_input_type=Annotated[float, Field(gt=0)]),
    Field(gt=0, allow_inf_nan=False),
]
