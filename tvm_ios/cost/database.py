"""The profile database: prices of stages on disk, so an equal stage is measured once ever.

It also keeps facts about a device that are found once, such as the algorithms of a library.

One SQLite file with a rollback journal. No connection outlives a call, so forks, threads and
kill -9 find nothing half done, several processes may write at once, and a read-only file still
serves its prices. Nothing here ever deletes or replaces a file it cannot read.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tvm_ios.cost.database_use import DatabaseUse
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.errors import DatabaseError
from tvm_ios.support.c_compiler import cache_directory
from tvm_ios.support.stored_value import StoredValue, UnreadableValueError

__all__ = ["DATABASE_VERSION", "PriceRecord", "ProfileDatabase", "default_database_path"]

DATABASE_VERSION = 1
APPLICATION_ID = 0x54494F53
"""``TIOS``, kept in the header of the file, so that a foreign SQLite file is known as such."""
KEYS_PER_QUERY = 500
"""SQLite builds of old allow 999 parameters in a statement."""

CONTEXTS = """
CREATE TABLE contexts (
  digest TEXT PRIMARY KEY,
  description TEXT NOT NULL
) WITHOUT ROWID
"""
PRICES = """
CREATE TABLE prices (
  context TEXT NOT NULL, stage TEXT NOT NULL,
  median_ns INTEGER NOT NULL, samples INTEGER NOT NULL, spread_ns INTEGER NOT NULL,
  slow_mode INTEGER NOT NULL, measured_at_s REAL NOT NULL,
  PRIMARY KEY (context, stage)
) WITHOUT ROWID
"""
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
NEXT_STEPS = {
    sqlite3.SQLITE_BUSY: "another process holds it; wait for that one, or use another file",
    sqlite3.SQLITE_READONLY: "make the file and its folder writable, or use another file",
    sqlite3.SQLITE_PERM: "make the file and its folder accessible, or use another file",
    sqlite3.SQLITE_CANTOPEN: "check that it is a file you can read, in a folder you can write",
    sqlite3.SQLITE_FULL: "free some space, or use a file on another disk",
    sqlite3.SQLITE_IOERR: "check the disk (space, quota, health), or use a file on another one",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRecord:
    """One measured price."""

    median_ns: int
    samples: int
    spread_ns: int
    """Median absolute deviation of the samples."""
    slow_mode: bool
    """Whether it was taken while the machine was in its slow mode, and so is too high."""
    measured_at_s: float
    """Time of measuring, in seconds since 1970."""


def default_database_path() -> Path:
    """``profiles.sqlite`` in the cache folder of tvm-ios."""
    return cache_directory() / "profiles.sqlite"


class ProfileDatabase:
    """Prices in one SQLite file, shared by any number of processes.

    Parameters
    ----------
    path
        The file; made if missing. Without one, :func:`default_database_path`, with its folder.
    timeout_s
        How long to wait for another process that writes.

    Raises
    ------
    DatabaseError
        If the folder is missing, or the file is unreadable, damaged, of another program, or of a
        newer tvm-ios. The file is left as it is.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, timeout_s: float = 10.0):
        self.path = default_database_path() if path is None else Path(path)
        self.timeout_s = timeout_s
        self.use = DatabaseUse()
        """What was taken from it; told by those who use it."""
        self._prepare_folder(make=path is None)
        with self._connect() as connection:
            self._check_pages(connection)

    def get_many(self, context: ProfileContext, keys: Iterable[str]) -> dict[str, PriceRecord]:
        """Return the records of those stage keys that have one in this context.

        Raises
        ------
        DatabaseError
            If the file cannot be read.
        """
        wanted = list(keys)
        digest = context.digest()
        found: dict[str, PriceRecord] = {}
        with self._connect() as connection:
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

        A record already there stays if it is the better one: taken outside the slow mode, or
        from more samples.

        Parameters
        ----------
        older_than_s
            A time in seconds since 1970; what was measured before it makes way in any case.

        Raises
        ------
        DatabaseError
            If the file cannot be written.
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
        with self._connect() as connection, _transaction(connection):
            connection.execute(
                "INSERT OR IGNORE INTO contexts VALUES (?, ?)", (digest, context.as_json())
            )
            connection.executemany(PUT, rows)

    def get_facts(self, subject: str, names: Iterable[str]) -> dict[str, str]:
        """What was found out of a subject, by name; names without a fact are left out.

        Parameters
        ----------
        subject
            A library on a device, say, with the version of the library.

        Raises
        ------
        DatabaseError
            If the file cannot be read.
        """
        wanted = frozenset(names)
        with self._connect() as connection:
            if not _has_facts(connection):
                return {}
            rows = connection.execute("SELECT name, value FROM facts WHERE subject = ?", (subject,))
            return {
                name: StoredValue(value, f"fact {name!r} of {subject!r}").text()
                for name, value in rows
                if name in wanted
            }

    def put_facts(self, subject: str, facts: Mapping[str, str], *, replace: bool = False) -> None:
        """Store what was found out of a subject.

        Parameters
        ----------
        replace
            Whether facts of the same names make way; otherwise what is there already stays.

        Raises
        ------
        DatabaseError
            If the file cannot be written.
        """
        rows = [(subject, name, value) for name, value in facts.items()]
        with self._connect() as connection, _transaction(connection):
            # Files of before have no such table.
            connection.execute(FACTS)
            connection.executemany(REPLACE_FACT if replace else ADD_FACT, rows)

    def count(self, context: ProfileContext | None = None) -> int:
        """Prices in the file, or in one context of it.

        Raises
        ------
        DatabaseError
            If the file cannot be read.
        """
        with self._connect() as connection:
            if context is None:
                row = connection.execute("SELECT count(*) FROM prices").fetchone()
            else:
                row = connection.execute(
                    "SELECT count(*) FROM prices WHERE context = ?", (context.digest(),)
                ).fetchone()
        return int(row[0])

    def _prepare_folder(self, *, make: bool) -> None:
        folder = self.path.parent
        try:
            if make:
                folder.mkdir(parents=True, exist_ok=True)
            if not folder.is_dir():
                raise DatabaseError(
                    f"profile database {self.path}: there is no folder {folder}; "
                    f"make it (mkdir -p {folder}) or name a file in another one"
                )
        except OSError as error:
            raise DatabaseError(
                f"profile database {self.path}: cannot use folder {folder}: {error}; "
                "set TVM_IOS_CACHE_DIR to a folder you can write, or name another file"
            ) from error

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one call, known to be ours and of this version."""
        connection: sqlite3.Connection | None = None
        try:
            connection = sqlite3.connect(self.path, timeout=self.timeout_s, isolation_level=None)
            connection.execute("PRAGMA synchronous = FULL")
            self._check_header(connection)
            yield connection
        except sqlite3.Error as error:
            raise self._explained(error) from error
        except UnreadableValueError as error:
            raise DatabaseError(
                f"profile database {self.path}: {error}; somebody changed it, so move it away to "
                "start a new one"
            ) from error
        finally:
            if connection is not None:
                connection.close()

    def _check_header(self, connection: sqlite3.Connection) -> None:
        owner, version = _header(connection)
        if owner == 0:
            if _is_empty(connection):
                _create(connection)
            # Read again even if it was not empty: another process may just have made it.
            owner, version = _header(connection)
        if owner != APPLICATION_ID:
            raise DatabaseError(
                f"{self.path} is a SQLite file of another program (application id {owner:#x}, "
                f"a profile database has {APPLICATION_ID:#x}); name another file"
            )
        if version != DATABASE_VERSION:
            raise DatabaseError(
                f"profile database {self.path} has version {version}, this tvm-ios reads version "
                f"{DATABASE_VERSION}; upgrade tvm-ios, or move the file away to start a new one"
            )

    def _check_pages(self, connection: sqlite3.Connection) -> None:
        fault = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if fault != "ok":
            raise DatabaseError(f"{self._damaged()} ({_on_one_line(fault)})")

    def _damaged(self) -> str:
        return (
            f"profile database {self.path} is damaged or no SQLite file; move it away (with "
            f"{self.path.name}-journal, if there is one) to start a new one"
        )

    def _explained(self, error: sqlite3.Error) -> DatabaseError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            return DatabaseError(f"{self._damaged()} ({_on_one_line(error)})")
        step = NEXT_STEPS.get(code, "name another file")
        return DatabaseError(f"profile database {self.path}: {_on_one_line(error)}; {step}")


def _price(stage: str, columns: Sequence[object]) -> PriceRecord:
    """A row as SQLite gave it: any column may hold any type, whatever the table declares."""
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


def _on_one_line(reason: object) -> str:
    """SQLite's words on a page, which fill several lines, as one."""
    return " ".join(str(reason).split())


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Begin a write with its lock taken at once, so it waits rather than fails later."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite has rolled back by itself after some errors (a full disk, for one).
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _header(connection: sqlite3.Connection) -> tuple[int, int]:
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    return int(owner), int(version)


def _is_empty(connection: sqlite3.Connection) -> bool:
    tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return tables == 0


def _has_facts(connection: sqlite3.Connection) -> bool:
    table = "SELECT count(*) FROM sqlite_master WHERE name = 'facts'"
    return bool(connection.execute(table).fetchone()[0])


def _create(connection: sqlite3.Connection) -> None:
    with _transaction(connection):
        # Another process may have made the tables while this one waited for the lock.
        if not _is_empty(connection):
            return
        for statement in (CONTEXTS, PRICES):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {DATABASE_VERSION}")
