"""Process that goes on with a call of ``tune``: it leaves the kept result, and prints nothing.

It has the lowest priority, waits for its turn and for a quiet machine, and ends with the process
that started it, even where that is killed. TVM is loaded once it is its turn.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import Thread

from tvm_ios.support.cache_folder import cache_directory

__all__ = ["TURN", "main"]

TURN = "later.lock"
"""Name of the file in the cache folder that is locked by the one that works: two would disturb each
other's measurements, and equal ones find what the first has kept."""
POLL_S = 0.5


def main(parent: int, quiet_s: float) -> None:
    """Go on with the call in standard input, until it ends or the parent does.

    Before it measures, it waits ``quiet_s`` seconds at most for a machine that nobody else uses.
    """
    Thread(target=_end_with, args=(parent,), daemon=True).start()
    _give_way()
    with _turn():
        from tvm_ios.driver.later.job import read_job  # noqa: PLC0415 - loads TVM
        from tvm_ios.driver.tune import tuned  # noqa: PLC0415

        call = read_job(sys.stdin.buffer)
        sys.stdin.close()  # the weights in it are on the disk, or in memory
        wait_s = max(quiet_s, call.options.measure.wait_quiet_s)
        measure = replace(call.options.measure, wait_quiet_s=wait_s)
        tuned(replace(call, options=replace(call.options, measure=measure)))


def _end_with(parent: int) -> None:
    """Kill this process and those that it started, once it has another parent."""
    while os.getppid() == parent:
        time.sleep(POLL_S)
    os.killpg(0, signal.SIGKILL)


def _give_way() -> None:
    """Run only where nobody else wants to."""
    with suppress(OSError):
        os.nice(19)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


@contextmanager
def _turn() -> Iterator[None]:
    """Context that one process of this user is in at a time; without a lock where none can be."""
    try:
        file = (cache_directory() / TURN).open("ab")
    except OSError:
        yield
        return
    with file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
