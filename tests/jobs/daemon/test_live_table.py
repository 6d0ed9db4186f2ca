"""The table of jobs while they run: drawn on a terminal, told by lines elsewhere."""

from __future__ import annotations

import contextlib
import io
import os
import re

import pytest

from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.core.status import JobStatus
from tvm_ios.jobs.daemon.live_table import LiveTable
from tvm_ios.support.messages import Verbosity, shown_messages


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch) -> Terminal:
    for name in ("CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (("TERM", "xterm"), ("COLUMNS", "60"), ("LINES", "8")):
        monkeypatch.setenv(name, value)
    return Terminal()


def jobs(trials: int, count: int = 2) -> list[JobStatus]:
    return [
        JobStatus(name=f"job{i}", state=JobState.RUNNING, stage="build", trials=trials, total=9)
        for i in range(count)
    ]


def test_a_terminal_has_one_table_that_goes_away(terminal):
    shown = jobs(1)
    table = LiveTable(lambda: shown, terminal)
    table.show()
    first = terminal.getvalue()
    assert "job1" in first
    assert "1/9" in first
    shown[:] = jobs(2)
    table.show()
    assert "2/9" in terminal.getvalue()
    table.close()
    # The cursor goes up over the lines that were drawn, and clears them.
    assert terminal.getvalue()[len(first) :].count("\x1b[1A\x1b[2K") >= len(jobs(1)) + 1
    table.close()


def test_a_table_is_no_larger_than_the_terminal(terminal):
    table = LiveTable(lambda: jobs(1, count=50), terminal)
    table.show()
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue()).splitlines()
    table.close()
    assert len(lines) <= 8
    assert max(map(len, lines)) <= 60


def test_a_file_gets_a_line_for_what_changed():
    stream, shown = io.StringIO(), jobs(1)
    table = LiveTable(lambda: shown, stream)
    table.show()
    table.show()
    shown[0] = jobs(3)[0]
    table.close()
    assert stream.getvalue().splitlines() == [
        "job0: running, build, 1/9 trials",
        "job1: running, build, 1/9 trials",
        "job0: running, build, 3/9 trials",
    ]


def test_quiet_is_silent(terminal):
    for stream in (terminal, io.StringIO()):
        with shown_messages(Verbosity(quiet=True)):
            table = LiveTable(lambda: jobs(1), stream)
            table.show()
            table.close()
        assert stream.getvalue() == ""


def test_who_closes_the_stream_ends_no_jobs():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", buffering=1) as stream:
        table = LiveTable(lambda: jobs(1), stream)
        table.show()
        table.close()
        with contextlib.suppress(BrokenPipeError):
            stream.close()
