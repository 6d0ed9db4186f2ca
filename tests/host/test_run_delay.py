"""Run delay of threads, as Linux counts it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tvm_ios.host.run_delay import RunDelay, counts_run_delay


def told(folder: Path, *texts: str) -> RunDelay:
    for thread, text in enumerate(texts):
        (folder / str(thread)).mkdir()
        (folder / str(thread) / "schedstat").write_text(text)
    return RunDelay(folder)


def test_the_second_number_counts(tmp_path: Path) -> None:
    delay = told(tmp_path, "79819 2702821 2\n", "5 0 1\n")
    assert delay.read_ns([0, 1]) == (2702821, 0)
    (tmp_path / "1" / "schedstat").write_text("9 7 2\n")  # the open file is read again
    assert delay.read_ns([1]) == (7,)
    delay.close()
    delay.close()


@pytest.mark.parametrize("text", ["0 0 0\n", "", "1 2\n"])
def test_a_linux_that_counts_nothing_tells_nothing(tmp_path: Path, text: str) -> None:
    assert told(tmp_path, "5 6 7\n", text).read_ns([0, 1]) is None


def test_a_kernel_without_the_file_tells_nothing(tmp_path: Path) -> None:
    assert RunDelay(tmp_path).read_ns([1]) is None


def test_a_thread_that_has_ended_is_forgotten() -> None:
    delay, ids = RunDelay(), []
    end = threading.Event()
    thread = threading.Thread(target=lambda: (ids.append(threading.get_native_id()), end.wait()))
    thread.start()
    while not ids:
        pass
    first = delay.read_ns(ids)
    end.set()
    thread.join()
    while Path(f"/proc/self/task/{ids[0]}").exists():
        os.sched_yield()
    assert first is None or first[0] >= 0
    assert delay.read_ns(ids) is None


def test_a_machine_counts_where_a_thread_has_had_the_core() -> None:
    own = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
    counted = own.exists() and own.read_text().split()[2] != "0"
    assert counts_run_delay() == counted
