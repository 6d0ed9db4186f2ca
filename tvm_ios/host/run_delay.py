"""Run delay of threads: time in which they were ready, and others had the cores.

Linux counts it for each thread (``/proc/self/task/TID/schedstat``, the second number, in
nanoseconds), with no rights needed. A lane that spins is ready, so it has a run delay like one that
works: the time slice it spins away is its own.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

__all__ = ["RunDelay", "counts_run_delay"]

_TASKS = Path("/proc/self/task")
_MOST_BYTES = 128


class RunDelay:
    """Run delay of threads of this process; files stay open between two readings.

    Parameters
    ----------
    tasks
        Folder with a folder for each thread.
    """

    def __init__(self, tasks: Path = _TASKS) -> None:
        self._tasks = tasks
        self._files: dict[int, int] = {}
        """Open file by number of the thread."""
        self.close = weakref.finalize(self, _close, self._files)
        """Closes the files; may be called twice."""
        self.close.atexit = False

    def read_ns(self, threads: Iterable[int]) -> tuple[int, ...] | None:
        """Nanoseconds of each thread so far; None where Linux does not count them.

        A thread's wait counts once it has ended.
        """
        found = tuple(self._of_thread_ns(thread) for thread in threads)
        told = tuple(delay_ns for delay_ns in found if delay_ns is not None)
        return told if len(told) == len(found) else None

    def _of_thread_ns(self, thread: int) -> int | None:
        try:
            if thread not in self._files:
                path = self._tasks / str(thread) / "schedstat"
                self._files[thread] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            fields = os.pread(self._files[thread], _MOST_BYTES, 0).split()
        except OSError:  # no such file in this kernel, or its thread has ended
            if (file := self._files.pop(thread, None)) is not None:
                os.close(file)
            return None
        # The third number counts time slices. A lane has had one, where any are counted.
        return int(fields[1]) if len(fields) == 3 and fields[2] != b"0" else None


def counts_run_delay() -> bool:
    """True if this machine counts run delay, as the calling thread's own shows."""
    with closing(RunDelay()) as delay:
        return delay.read_ns([threading.get_native_id()]) is not None


def _close(files: dict[int, int]) -> None:
    while files:
        _, file = files.popitem()
        with suppress(OSError):
            os.close(file)
