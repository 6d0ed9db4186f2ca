"""``jobs.sqlite``: what was submitted, how far each job is, and when each stage ran where.

Only a daemon writes it, and only one daemon lives at a time; anybody may read. Times are seconds
since 1970.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from tvm_ios.errors import JobError
from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.core.status import JobStatus
from tvm_ios.jobs.core.trace import Span
from tvm_ios.jobs.order import JobOrder
from tvm_ios.support.json_nouns import from_json, to_json
from tvm_ios.support.stage_gate import JobProgress
from tvm_ios.support.stored_value import UnreadableValueError

__all__ = ["JobStore", "StoredJob"]

_VERSION = 2
_APPLICATION_ID = 0x54494F4A
"""``TIOJ``, so that a foreign SQLite file is known as such."""
_TABLES = """
CREATE TABLE jobs (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  submission TEXT NOT NULL,
  state TEXT NOT NULL,
  reason TEXT NOT NULL DEFAULT '',
  progress TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  submitted_s REAL NOT NULL,
  started_s REAL,
  ended_s REAL
);
CREATE TABLE spans (job TEXT NOT NULL, span TEXT NOT NULL);
"""
_COLUMNS = "submission, state, reason, progress, attempts, submitted_s, started_s, ended_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    """A job as it was when something of it was last written."""

    order: JobOrder
    state: JobState
    reason: str
    progress: JobProgress
    attempts: int
    """Workers started for it in all."""
    submitted_s: float
    started_s: float | None
    ended_s: float | None

    def status(self) -> JobStatus:
        """The status of the job while no daemon has it."""
        state = self.state if self.state.ended else JobState.WAITING
        seconds = 0.0
        if self.started_s is not None and self.ended_s is not None:
            seconds = self.ended_s - self.started_s
        return replace(
            JobStatus.told(self.order.spec, state, self.progress),
            waits_for="" if self.state.ended else "a daemon",
            attempt=self.attempts,
            seconds=seconds,
            reason=self.reason,
        )


class JobStore:
    """The file ``jobs.sqlite``.

    Raises
    ------
    JobError
        If it cannot be read or written, belongs to another program, or is of a newer version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._explained():
            # sqlite3 would otherwise open transactions, which nobody commits here.
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=10.0)
            # A kill leaves nothing half done; only a power cut may take the latest lines.
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._prepare()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    # ---- Writing ----

    def submit(self, order: JobOrder, now_s: float) -> None:
        """Keep a job anew; one of the same name that was kept before is replaced."""
        name = order.spec.name
        self._write(
            "INSERT OR REPLACE INTO jobs (name, submission, state, progress, submitted_s) "
            "VALUES (?, ?, ?, ?, ?)",
            name,
            to_json(JobOrder, order),
            JobState.WAITING.value,
            to_json(JobProgress, JobProgress(trials=0)),
            now_s,
        )

    def change(self, name: str, state: JobState, reason: str, now_s: float) -> None:
        """Keep the state of a job."""
        self._write(
            "UPDATE jobs SET state = ?, reason = ?, "
            "started_s = CASE WHEN ? THEN coalesce(started_s, ?) ELSE started_s END, "
            "ended_s = ? WHERE name = ?",
            state.value,
            reason,
            state is JobState.RUNNING,
            now_s,
            now_s if state.ended else None,
            name,
        )

    def count_attempt(self, name: str) -> None:
        """Keep that a worker was started for a job."""
        self._write("UPDATE jobs SET attempts = attempts + 1 WHERE name = ?", name)

    def tell(self, name: str, progress: JobProgress) -> None:
        """Keep how far a job is."""
        text = to_json(JobProgress, progress)
        self._write("UPDATE jobs SET progress = ? WHERE name = ?", text, name)

    def add_spans(self, spans: Iterable[Span]) -> None:
        """Keep stages that have ended."""
        for span in spans:
            self._write("INSERT INTO spans VALUES (?, ?)", span.job, to_json(Span, span))

    # ---- Reading ----

    def jobs(self) -> tuple[StoredJob, ...]:
        """The jobs, in the order of submission."""
        with self._explained():
            rows = self._connection.execute(f"SELECT {_COLUMNS} FROM jobs ORDER BY number")  # noqa: S608
            return tuple(
                StoredJob(
                    order=from_json(JobOrder, order, "a job"),
                    state=JobState(state),
                    reason=reason,
                    progress=from_json(JobProgress, progress, "a progress"),
                    attempts=attempts,
                    submitted_s=submitted,
                    started_s=started,
                    ended_s=ended,
                )
                for order, state, reason, progress, attempts, submitted, started, ended in rows
            )

    def spans(self) -> tuple[Span, ...]:
        """The stages that have ended, in the order of their ends."""
        with self._explained():
            rows = self._connection.execute("SELECT span FROM spans ORDER BY rowid")
            return tuple(from_json(Span, text, "a stage") for (text,) in rows)

    def _write(self, statement: str, *values: Any) -> None:
        with self._explained():
            self._connection.execute(statement, values)

    def _prepare(self) -> None:
        (owner,) = self._connection.execute("PRAGMA application_id").fetchone()
        (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if not tables and not owner:
            self._connection.executescript(
                f"BEGIN IMMEDIATE; {_TABLES} PRAGMA application_id = {_APPLICATION_ID}; "
                f"PRAGMA user_version = {_VERSION}; COMMIT;"
            )
        elif owner != _APPLICATION_ID:
            raise JobError(f"{self.path} belongs to another program; move it away")
        elif version != _VERSION:
            raise JobError(
                f"{self.path} has version {version}, this tvm-ios reads {_VERSION}; upgrade "
                "tvm-ios, or move the file away"
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnreadableValueError) as error:
            raise JobError(
                f"{self.path}: {' '.join(str(error).split())}; free some space, wait for who holds "
                "it, or move it away to forget all jobs (logs of records stay)"
            ) from error
