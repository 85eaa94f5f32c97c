"""The mark that ties a test to the requirements it proves.

Owns: the one spelling, `@requirement("S2-CF-1")`, that the manifest check in `tests/test_requirements.py` scans for.
Must not know: which requirements exist; the manifest in `tests/requirements/` does.
Invariant: the ids are string literals at the call, so that a scan of the source finds each of them.
"""

import pytest


def requirement(*ids: str) -> pytest.MarkDecorator:
    """Mark a test as proof of the requirements with these ids."""
    return pytest.mark.requirement(*ids)
