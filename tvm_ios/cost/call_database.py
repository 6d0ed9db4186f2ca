"""A profile database as one call sees it, which may want to measure everything anew."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Mapping

from tvm_ios.cost.database import PriceRecord, ProfileDatabase
from tvm_ios.cost.database_use import DatabaseUse
from tvm_ios.cost.profile_key import ProfileContext

__all__ = ["FreshDatabase", "database_for_call"]


class FreshDatabase(ProfileDatabase):
    """A profile database that knows only what is stored through it, in place of what was there.

    Parameters
    ----------
    database
        Whose file it is. What others read and write there goes on as before.
    """

    def __init__(self, database: ProfileDatabase) -> None:
        super().__init__(database.path, timeout_s=database.timeout_s)
        self._begin_s = time.time()
        self._own: set[tuple[str, str]] = set()
        """Subject and name of each fact that was stored."""

    def get_many(self, context: ProfileContext, keys: Iterable[str]) -> dict[str, PriceRecord]:
        """As for any database, without records measured before this one was made."""
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
        """As for any database; records measured before this one was made make way."""
        super().put_many(
            context, records, older_than_s=self._begin_s if older_than_s is None else older_than_s
        )

    def get_facts(self, subject: str, names: Iterable[str]) -> dict[str, str]:
        """As for any database, without facts that were not stored through this one."""
        own = [name for name in names if (subject, name) in self._own]
        return super().get_facts(subject, own)

    def put_facts(self, subject: str, facts: Mapping[str, str], *, replace: bool = False) -> None:
        """As for any database; facts that were not stored through this one make way."""
        for name, value in facts.items():
            is_old = (subject, name) not in self._own
            super().put_facts(subject, {name: value}, replace=replace or is_old)
            self._own.add((subject, name))


def database_for_call(database: ProfileDatabase, *, fresh: bool = False) -> ProfileDatabase:
    """The same file for one call, which has taken nothing from it yet.

    Parameters
    ----------
    fresh
        Whether the call measures everything anew, and replaces what is there.
    """
    if fresh:
        return FreshDatabase(database)
    view = copy.copy(database)
    view.use = DatabaseUse()
    return view
