"""A profile database as one call sees it, which may measure everything anew."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Mapping

from tvm_ios.cost.database import PriceRecord, ProfileDatabase
from tvm_ios.cost.database_use import DatabaseUse
from tvm_ios.cost.profile_key import ProfileContext

__all__ = ["FreshDatabase", "database_for_call"]


class FreshDatabase(ProfileDatabase):
    """A profile database that knows only what is stored through it, and replaces older entries.

    It uses the file of another database, where others read and write as before.
    """

    def __init__(self, database: ProfileDatabase) -> None:
        super().__init__(database.path, timeout_s=database.timeout_s)
        self._begin_s = time.time()
        self._own: set[tuple[str, str]] = set()
        """Subject and name of each fact that was stored through this database."""

    def get_many(self, context: ProfileContext, keys: Iterable[str]) -> dict[str, PriceRecord]:
        """Records measured since this database was made, by stage key."""
        found = super().get_many(context, keys)
        return {
            key: record for key, record in found.items() if record.measured_at_s >= self._begin_s
        }

    def put_many(
        self,
        context: ProfileContext,
        records: Mapping[str, PriceRecord],
        *,
        older_than_s: float | None = None,
    ) -> None:
        """Store records, in place of any that were measured before this database was made."""
        super().put_many(
            context, records, older_than_s=self._begin_s if older_than_s is None else older_than_s
        )

    def get_facts(self, subject: str, names: Iterable[str]) -> dict[str, str]:
        """Facts stored through this database, by name."""
        own = [name for name in names if (subject, name) in self._own]
        return super().get_facts(subject, own)

    def put_facts(self, subject: str, facts: Mapping[str, str], *, replace: bool = False) -> None:
        """Store facts, in place of any that were not stored through this database."""
        for name, value in facts.items():
            is_old = (subject, name) not in self._own
            super().put_facts(subject, {name: value}, replace=replace or is_old)
            self._own.add((subject, name))


def database_for_call(database: ProfileDatabase, *, fresh: bool = False) -> ProfileDatabase:
    """A database on the same file for one call, with a use record of its own.

    ``fresh`` makes the call measure everything anew, and replace what is there.
    """
    if fresh:
        return FreshDatabase(database)
    # A shallow copy will do: no connection outlives a call, so the two share a path only.
    view = copy.copy(database)
    view.use = DatabaseUse()
    return view
