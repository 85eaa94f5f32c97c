"""Fills a new database with a population, in big transactions.

Owns the connection that writes it. Invariant: the schema is the one that migrations make; indexes of the migrations are in
place while rows are inserted, so their pages are as full as those of a service.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine

from bench.big.population import Population
from bench.big.rows import TABLES, TreeRows, insertion
from db.store.engine import sqlite_library
from db.store.migrate import migrate

TOGETHER = 100_000
"""The executions of one transaction."""
_FAST = ("journal_mode=OFF", "synchronous=OFF", "cache_size=-1000000", "locking_mode=EXCLUSIVE")
"""The file is of no use unless it is whole, so no crash is provided for."""


def fill(path: Path, population: Population, seed: int, tell: Callable[[str], None] = lambda _: None) -> None:
    """Make the database of a population; the file must not exist."""
    engine = create_engine(f"sqlite:///{path}", module=sqlite_library())
    with engine.connect() as connection:
        migrate(connection, str(path))
    engine.dispose()
    making, began, made = TreeRows(seed, "nobody"), time.monotonic(), 0
    with closing(sqlite_library().connect(str(path), isolation_level=None)) as connection:
        for pragma in _FAST:
            connection.execute(f"PRAGMA {pragma}").close()
        waiting = 0
        for tree in population.trees():
            making.add(tree)
            waiting += len(tree.members)
            if waiting >= TOGETHER:
                made, waiting = made + waiting, 0
                _store(connection, making)
                tell(f"{made:,} executions after {time.monotonic() - began:.0f} s")
        _store(connection, making)
    with closing(sqlite_library().connect(str(path))) as connection:
        connection.execute("PRAGMA journal_mode=WAL").close()


def _store(connection: Any, making: TreeRows) -> None:
    connection.execute("BEGIN").close()
    for table in TABLES:
        connection.executemany(insertion(table), making.rows[table]).close()
        making.rows[table].clear()
    connection.execute("COMMIT").close()
