"""Models whose fields are columns: each takes its type from the row class of its table.

Owns the picking of columns: a table has one description. Must not know: what an answer adds to them.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, create_model


class ViewModel(BaseModel):
    """Something that is answered. It never changes."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)


def picked(row: type[BaseModel], *names: str) -> Any:
    """A model of some columns of a row class, in this order, each with the type of its column.

    The type checkers see no base class made at run time: what is built from it says so.
    """
    fields: dict[str, Any] = {name: (row.model_fields[name].annotation, ...) for name in names}
    return create_model(f"{row.__name__}Columns", __base__=ViewModel, __module__=__name__, **fields)
