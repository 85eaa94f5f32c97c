"""The errors of a question about an incident.

    SreError                   message and hint, both written for the reader of the answer
    ├── BadRequestError        the question cannot be understood, or is outside what is served
    ├── NotFoundError          the question is fine, the thing asked for is not recorded
    └── BrokenIncidentError    the incident folder is missing, incomplete or damaged

Knows nothing of MCP: `serving` alone turns these into tool errors.
"""

from __future__ import annotations


class SreError(Exception):
    """Something the asker should read, with what to do next."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BadRequestError(SreError):
    """The question cannot be understood or asks for something that is not served."""


class NotFoundError(SreError):
    """Nothing of that name is in the recording."""


class BrokenIncidentError(SreError):
    """The incident folder cannot be read."""
