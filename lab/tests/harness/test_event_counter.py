"""Counters of the kernel against another clock, and what is said where there are none."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
import time

import pytest

from tvm_ios.errors import HostError
from tvm_ios_lab.harness.event_counter import CountedEvent, EventCounter


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@pytest.fixture
def processor_time():
    """A counter that every kernel has, where it may be asked."""
    try:
        opened = EventCounter(CountedEvent.CPU_TIME)
    except HostError as error:
        pytest.skip(str(error))
    with opened as counter:
        yield counter


def test_processor_time_of_all_threads_is_that_of_another_clock(processor_time):
    go, threads = threading.Event(), []
    for _ in range(2):
        threads.append(threading.Thread(target=lambda: (go.wait(), spin(0.1))))
        threads[-1].start()
    # Of the threads that there are when it is opened.
    with EventCounter(CountedEvent.CPU_TIME) as counter:
        before, earlier = counter.read(), processor_time.read()
        go.set()
        for thread in threads:
            thread.join()
        spent_ns, own_ns = counter.read() - before, processor_time.read() - earlier
    assert spent_ns > 0.19e9  # each spins 0.1 s by a clock of its own
    assert own_ns < 0.1e9


def test_a_closed_counter_leaves_no_file_open(processor_time):
    files = list(processor_time._files)
    assert files
    processor_time.close()
    for file in files:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(file)


def test_instructions_are_counted_or_the_reason_is_given():
    refused = None
    try:
        with EventCounter(CountedEvent.INSTRUCTIONS) as counter:
            before = counter.read()
            spin(0.01)
            counted = counter.read() - before
    except HostError as error:
        refused, counted = str(error), 0
    if refused is None:
        assert counted > 1e6  # a tenth of what any processor does
    else:
        assert refused.startswith("the kernel does not count instructions: ")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (errno.EACCES, "Permission denied; set /proc/sys/kernel/perf_event_paranoid to 2"),
        (errno.EPERM, "or allow perf_event_open in the container"),
        (errno.ENOENT, "No such file or directory; virtual machines often have none"),
        (errno.EINVAL, "Invalid argument; see perf_event_open"),
    ],
)
def test_a_kernel_that_refuses_is_quoted_with_what_to_do(monkeypatch, code, says):
    class Refusing:
        def __init__(self, *_, **__):
            pass

        def syscall(self, *_):
            ctypes.set_errno(code)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", Refusing)
    with pytest.raises(HostError, match=says):
        EventCounter(CountedEvent.INSTRUCTIONS)


def test_other_machines_are_named(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(HostError, match="on riscv64 cannot count cpu_time; Linux on x86-64"):
        EventCounter(CountedEvent.CPU_TIME)
