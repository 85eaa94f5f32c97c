"""Users: those a configuration declares, and their rows.

Owns the lookup by name and the conversion of a row into a `User`. Invariant: a user who was removed from the configuration
starts nothing new; executions begun for them continue, with the user as stored in their row.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic_core import from_json, to_json

from db.rows.reads import Reads, Record
from db.rows.users import NewUser
from registry import Settings, UnknownName
from runner.errors import Refusal
from runner.origin import User


def known(settings: Settings) -> Iterator[NewUser]:
    """The users of a configuration, as rows to store."""
    for user in settings.users.values():
        lists = (to_json(each).decode() for each in (user.capabilities, user.connections, user.aliases))
        yield NewUser(user.id, user.name, user.timezone, user.locale, *lists)


class Users:
    """Looks users up."""

    def __init__(self, settings: Settings, reads: Reads) -> None:
        self._settings, self._reads = settings, reads

    def identify(self, name: str) -> str:
        """The id of a user by id or alias; raises Refusal."""
        try:
            return self._settings.user(name).id
        except UnknownName as error:
            raise Refusal("unknown_user", str(error), error.hint) from error

    async def named(self, name: str | None) -> User | None:
        """A user by id or alias; None without a name. Raises Refusal."""
        if name is None:
            return None
        identifier = self.identify(name)
        user = await self._remembered(identifier)
        if user is None:  # the row was deleted after the service had started
            hint = "restart Outrider: it stores the users of its configuration at startup"
            raise Refusal("unknown_user", f"user `{identifier}` is not in the database", hint)
        return user

    async def today(self, user: User) -> User:
        """The user as stored now: another process may have changed the row."""
        return await self._remembered(user.id) or user

    async def of(self, execution: Record) -> User | None:
        """The user of an execution, also one that is no longer configured."""
        identifier = execution["user_id"]
        return await self._remembered(identifier) if identifier is not None else None

    async def _remembered(self, identifier: str) -> User | None:
        row = await self._reads.people.user(identifier)
        return _user(row) if row is not None else None


def _user(row: Record) -> User:
    capabilities, connections = (tuple(from_json(row[name])) for name in ("capabilities", "connections"))
    return User(row["id"], row["name"], row["timezone"], row["locale"], capabilities, connections)
