"""Fixtures every test may ask for.

Owns: the choice of the event loop. Must not know: any part of Outrider.
Invariant: an `async def` test runs on anyio's asyncio backend, the only one Outrider supports.
"""

import pytest
from hypothesis import settings

settings.register_profile("outrider", deadline=None)  # a busy machine makes any example slow; no test is timed
settings.load_profile("outrider")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio."""
    return "asyncio"
