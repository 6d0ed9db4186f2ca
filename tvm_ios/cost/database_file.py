"""The file of a profile database: opened for each call, checked to be ours, errors explained.

No connection outlives a call, so forks, threads and kill -9 find nothing half done. A file that
cannot be read is neither deleted nor replaced.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tvm_ios.errors import DatabaseError
from tvm_ios.support.stored_value import UnreadableValueError

__all__ = ["DATABASE_VERSION", "DatabaseFile"]

DATABASE_VERSION = 1
APPLICATION_ID = 0x54494F53
"""``TIOS`` in the header of the file, by which foreign SQLite files are recognised."""

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
NEXT_STEPS = {
    sqlite3.SQLITE_BUSY: "another process holds it; wait for that one, or use another file",
    sqlite3.SQLITE_READONLY: "make the file and its folder writable, or use another file",
    sqlite3.SQLITE_PERM: "make the file and its folder accessible, or use another file",
    sqlite3.SQLITE_CANTOPEN: "check that it is a file you can read, in a folder you can write",
    sqlite3.SQLITE_FULL: "free some space, or use a file on another disk",
    sqlite3.SQLITE_IOERR: "check the disk (space, quota, health), or use a file on another one",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFile:
    """A SQLite file with a rollback journal, shared by any number of processes."""

    path: Path
    timeout_s: float
    """Seconds to wait for another process that writes."""

    def prepare_folder(self, *, make: bool) -> None:
        """Check that the file's folder is there; ``make`` allows to make it."""
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
    def connect(self) -> Iterator[sqlite3.Connection]:
        """Connection for one call, to a file that is ours and of this version; made if missing."""
        connection: sqlite3.Connection | None = None
        try:
            # No isolation level: Python would begin transactions that take their lock too late.
            connection = sqlite3.connect(self.path, timeout=self.timeout_s, isolation_level=None)
            # The file does not keep this. The journal is never WAL, which fails on network file
            # systems and in read-only folders (note 4 of docs/adr).
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

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Connection for one change, which is done as a whole or, on an error, not at all."""
        with self.connect() as connection, _transaction(connection):
            yield connection

    def check_pages(self) -> None:
        """Read all pages of the file."""
        with self.connect() as connection:
            fault = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if fault != "ok":
            raise DatabaseError(f"{self._damaged()} ({_on_one_line(fault)})")

    def _damaged(self) -> str:
        return (
            f"profile database {self.path} is damaged or no SQLite file; move it away (with "
            f"{self.path.name}-journal, if there is one) to start a new one"
        )

    def _explained(self, error: sqlite3.Error) -> DatabaseError:
        # The low byte is the kind of error; the rest says more about it.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            return DatabaseError(f"{self._damaged()} ({_on_one_line(error)})")
        step = NEXT_STEPS.get(code, "name another file")
        return DatabaseError(f"profile database {self.path}: {_on_one_line(error)}; {step}")


def _on_one_line(reason: object) -> str:
    """A reason on one line; SQLite's words on a page fill several."""
    return " ".join(str(reason).split())


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Context of a write, whose lock is taken at once: so it waits rather than fails later."""
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


def _create(connection: sqlite3.Connection) -> None:
    with _transaction(connection):
        # Another process may have made the tables while this one waited for the lock.
        if not _is_empty(connection):
            return
        for statement in (CONTEXTS, PRICES):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {DATABASE_VERSION}")
