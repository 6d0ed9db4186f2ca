"""The process that goes on with a call waits for its turn, and ends with who started it."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tvm_ios.driver.later.worker import TURN

STARTER = """
import os, subprocess, sys, time
code = f"from tvm_ios.driver.later.worker import main; main({os.getpid()}, 0.0)"
words = [sys.executable, "-P", "-c", code]
worker = subprocess.Popen(words, stdin=subprocess.DEVNULL, process_group=0)
print(worker.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_it_ends_with_who_started_it_and_gives_way_meanwhile(fresh_cache):
    with (fresh_cache / TURN).open("ab") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # so that it waits
        starter = subprocess.Popen(
            [sys.executable, "-c", STARTER], stdout=subprocess.PIPE, text=True
        )
        with starter:
            worker = int(starter.stdout.readline())
            _await(lambda: os.sched_getscheduler(worker) == os.SCHED_IDLE)
            _await(lambda: any("FLOCK" in line for line in _waiting(worker)))
            assert os.getpgid(worker) == worker
            starter.send_signal(signal.SIGKILL)
        _await(lambda: not _lives(worker))


def _waiting(process: int) -> list[str]:
    """Locks that a process waits for."""
    lines = Path("/proc/locks").read_text().splitlines()
    return [line for line in lines if "->" in line and f" {process} " in line]


def _lives(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def _await(condition) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
