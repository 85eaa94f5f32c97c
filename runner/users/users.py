"""People: the users a configuration names, and the rows they are remembered by.

Owns who is meant by a name, and how a row becomes a `User`. Invariant: who is not in today's configuration asks for nothing
new; what was begun for them goes on, as their row tells them.
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
    """The users of a configuration, as they are remembered."""
    for user in settings.users.values():
        lists = (to_json(each).decode() for each in (user.capabilities, user.connections, user.aliases))
        yield NewUser(user.id, user.name, user.timezone, user.locale, *lists)


class People:
    """Finds users."""

    def __init__(self, settings: Settings, reads: Reads) -> None:
        self._settings, self._reads = settings, reads

    def identify(self, name: str) -> str:
        """The id of the user whom a name means; raises Refusal."""
        try:
            return self._settings.user(name).id
        except UnknownName as error:
            raise Refusal("unknown_user", str(error), error.hint) from error

    async def named(self, name: str | None) -> User | None:
        """The user of an id or an alias, and nobody for no name; raises Refusal."""
        if name is None:
            return None
        identifier = self.identify(name)
        user = await self._remembered(identifier)
        if user is None:  # somebody deleted the row since the service opened
            hint = "start Outrider again: it writes the users of its configuration into the database"
            raise Refusal("unknown_user", f"user `{identifier}` is not in the database", hint)
        return user

    async def today(self, user: User) -> User:
        """The same user as remembered now: another process may have told of a change."""
        return await self._remembered(user.id) or user

    async def of(self, execution: Record) -> User | None:
        """The user an execution works for, known today or not."""
        identifier = execution["user_id"]
        return await self._remembered(identifier) if identifier is not None else None

    async def _remembered(self, identifier: str) -> User | None:
        row = await self._reads.people.user(identifier)
        return _user(row) if row is not None else None


def _user(row: Record) -> User:
    capabilities, connections = (tuple(from_json(row[name])) for name in ("capabilities", "connections"))
    return User(row["id"], row["name"], row["timezone"], row["locale"], capabilities, connections)
