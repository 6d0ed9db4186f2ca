"""The profile database: prices of stages on disk, so equal stages are measured only once.

It also keeps facts about a device that are found once, such as the algorithms of a library.

It is one SQLite file (`database_file.py`), to which several processes may write at once; a
read-only file still serves its prices.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvm_ios.cost.database_file import DatabaseFile
from tvm_ios.cost.database_use import DatabaseUse
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.errors import OptionError
from tvm_ios.support.cache_folder import cache_directory
from tvm_ios.support.stored_value import StoredValue

__all__ = ["PriceRecord", "ProfileDatabase", "default_database_path", "open_database"]


KEYS_PER_QUERY = 500
"""Parameters in a statement: old SQLite builds allow 999."""


FACTS = """
CREATE TABLE IF NOT EXISTS facts (
  subject TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (subject, name)
) WITHOUT ROWID
"""
ADD_FACT = "INSERT OR IGNORE INTO facts VALUES (?, ?, ?)"
REPLACE_FACT = "INSERT OR REPLACE INTO facts VALUES (?, ?, ?)"
# The better measurement stays, whoever writes last: the fast mode first, then more samples.
PUT = """
INSERT INTO prices VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (context, stage) DO UPDATE SET
  median_ns = excluded.median_ns, samples = excluded.samples, spread_ns = excluded.spread_ns,
  slow_mode = excluded.slow_mode, measured_at_s = excluded.measured_at_s
WHERE measured_at_s < ?
   OR excluded.slow_mode < slow_mode
   OR (excluded.slow_mode = slow_mode AND excluded.samples >= samples)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRecord:
    """A measured price: median, spread, number of samples, and circumstances."""

    median_ns: int
    samples: int
    spread_ns: int
    """Median absolute deviation of the samples in nanoseconds."""
    slow_mode: bool
    """True if taken while the machine was disturbed, so the price is too high."""
    measured_at_s: float
    """Time of measuring, in seconds since 1970."""


def default_database_path() -> Path:
    """Path of ``profiles.sqlite`` in the cache folder of tvm-ios."""
    return cache_directory() / "profiles.sqlite"


class ProfileDatabase:
    """Prices in one SQLite file, shared by any number of processes.

    The file is made if missing. Without a path it is :func:`default_database_path`, whose folder is
    made, too. A process that writes is waited for, at most ``timeout_s`` seconds.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, timeout_s: float = 10.0):
        self.path = default_database_path() if path is None else Path(path)
        self.timeout_s = timeout_s
        self.use = DatabaseUse()
        """Record of what was taken from the database, kept by its users."""
        self._file = DatabaseFile(path=self.path, timeout_s=timeout_s)
        self._file.prepare_folder(make=path is None)
        self._file.check_pages()

    def get_many(self, context: ProfileContext, keys: Iterable[str]) -> dict[str, PriceRecord]:
        """Records in a context by stage key; keys without a record are left out."""
        wanted = list(keys)
        digest = context.digest()
        found: dict[str, PriceRecord] = {}
        with self._file.connect() as connection:
            for start in range(0, len(wanted), KEYS_PER_QUERY):
                part = wanted[start : start + KEYS_PER_QUERY]
                marks = ",".join("?" * len(part))
                rows = connection.execute(
                    "SELECT stage, median_ns, samples, spread_ns, slow_mode, measured_at_s "  # noqa: S608
                    f"FROM prices WHERE context = ? AND stage IN ({marks})",
                    (digest, *part),
                )
                for stage, *columns in rows:
                    found[stage] = _price(stage, columns)
        return found

    def put_many(
        self,
        context: ProfileContext,
        records: Mapping[str, PriceRecord],
        *,
        older_than_s: float | None = None,
    ) -> None:
        """Store records by stage key: all of them or, on an error, none.

        The better record stays: the one outside the slow mode, or else with more samples. Records
        measured before a time, ``older_than_s`` in seconds since 1970, are replaced in any case.
        """
        digest = context.digest()
        rows = [
            (
                digest,
                stage,
                record.median_ns,
                record.samples,
                record.spread_ns,
                int(record.slow_mode),
                record.measured_at_s,
                older_than_s or 0.0,
            )
            for stage, record in records.items()
        ]
        with self._file.write() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO contexts VALUES (?, ?)", (digest, context.as_json())
            )
            connection.executemany(PUT, rows)

    def get_facts(self, subject: str, names: Iterable[str]) -> dict[str, str]:
        """Facts about a subject by name; names without a fact are left out.

        A subject is a text such as a library on a device, with the version of the library.
        """
        wanted = frozenset(names)
        with self._file.connect() as connection:
            if not _has_facts(connection):
                return {}
            rows = connection.execute("SELECT name, value FROM facts WHERE subject = ?", (subject,))
            return {
                name: StoredValue(value, f"fact {name!r} of {subject!r}").text()
                for name, value in rows
                if name in wanted
            }

    def put_facts(self, subject: str, facts: Mapping[str, str], *, replace: bool = False) -> None:
        """Store facts about a subject; ``replace`` puts them in place of known ones."""
        rows = [(subject, name, value) for name, value in facts.items()]
        with self._file.write() as connection:
            # Files of before have no such table.
            connection.execute(FACTS)
            connection.executemany(REPLACE_FACT if replace else ADD_FACT, rows)

    def count(self, context: ProfileContext | None = None) -> int:
        """Number of prices in the file, or in one context."""
        with self._file.connect() as connection:
            if context is None:
                row = connection.execute("SELECT count(*) FROM prices").fetchone()
            else:
                row = connection.execute(
                    "SELECT count(*) FROM prices WHERE context = ?", (context.digest(),)
                ).fetchone()
        return int(row[0])


def _price(stage: str, columns: Sequence[object]) -> PriceRecord:
    """Price in a row of SQLite: any column may hold any type, whatever the table declares."""
    names = ("median_ns", "samples", "spread_ns", "slow_mode", "measured_at_s")
    median_ns, samples, spread_ns, slow_mode, measured_at_s = (
        StoredValue(value, f"{name} of stage {stage!r}")
        for name, value in zip(names, columns, strict=True)
    )
    return PriceRecord(
        median_ns=median_ns.whole(),
        samples=samples.whole(),
        spread_ns=spread_ns.whole(),
        slow_mode=bool(slow_mode.whole(most=1)),
        measured_at_s=measured_at_s.number(),
    )


def _has_facts(connection: sqlite3.Connection) -> bool:
    table = "SELECT count(*) FROM sqlite_master WHERE name = 'facts'"
    return bool(connection.execute(table).fetchone()[0])


def open_database(database: ProfileDatabase | str | Path | None) -> ProfileDatabase:
    """Readable profile database: the one given, the file given, or the default file."""
    if not isinstance(database, ProfileDatabase | str | Path | None):
        raise OptionError(f"database is {database!r}; give a ProfileDatabase, a file, or None")
    opened = database if isinstance(database, ProfileDatabase) else ProfileDatabase(database)
    opened.count()
    return opened
