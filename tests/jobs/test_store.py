"""The file that forgets nothing."""

from __future__ import annotations

import sqlite3

import pytest

from tests.jobs.runs import mock_order
from tvm_ios.errors import JobError
from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.store import JobStore
from tvm_ios.support.stage_gate import JobProgress


def test_a_job_is_as_it_was_written_last(tmp_path):
    path = tmp_path / "jobs.sqlite"
    progress = JobProgress(trials=64, total=128, best_ms=2.5, stage="tune")
    with JobStore(path) as store:
        store.submit(mock_order("a"), 10.0)
        store.submit(mock_order("b"), 11.0)
        store.change("a", JobState.RUNNING, "", 12.0)
        store.count_attempt("a")
        store.tell("a", progress)
        store.change("b", JobState.FAILED, "for a reason", 13.0)
    with JobStore(path) as store:
        a, b = store.jobs()
    assert (a.order, a.state, a.progress) == (mock_order("a"), JobState.RUNNING, progress)
    assert (a.attempts, a.submitted_s, a.started_s, a.ended_s) == (1, 10.0, 12.0, None)
    assert (b.state, b.reason, b.ended_s) == (JobState.FAILED, "for a reason", 13.0)
    status = a.status()
    assert (status.state, status.waits_for) == (JobState.WAITING, "a daemon")
    assert (status.trials, status.total, status.best_ms) == (64, 128, 2.5)


def test_a_job_that_is_submitted_again_begins_anew(tmp_path):
    with JobStore(tmp_path / "jobs.sqlite") as store:
        store.submit(mock_order("a"), 10.0)
        store.change("a", JobState.FAILED, "broken", 11.0)
        store.submit(mock_order("a", 3), 12.0)
        (job,) = store.jobs()
    assert (job.order, job.state, job.reason) == (mock_order("a", 3), JobState.WAITING, "")


def test_files_of_others_are_left_alone(tmp_path):
    path = tmp_path / "jobs.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    with pytest.raises(JobError, match=r"jobs.sqlite belongs to another program; move it away"):
        JobStore(path)
    path.write_text("no SQLite at all, but long enough to be looked at" * 50)
    with pytest.raises(JobError, match=r"jobs.sqlite: file is not a database"):
        JobStore(path)
