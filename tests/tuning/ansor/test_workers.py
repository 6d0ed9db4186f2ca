"""Workers of TVM's builder and runner: the same ones for every batch of a search."""

from __future__ import annotations

import os

import pytest
from tvm.auto_scheduler import measure
from tvm.contrib.popen_pool import PopenPoolExecutor, PopenWorker

from tvm_ios.tuning.ansor.workers import kept_workers


def worker_of_a_batch():
    """What TVM's builder does for each batch."""
    pool = measure.PopenPoolExecutor(1, 20, os.getpid, ())
    return pool.submit(os.getpid).result()


def is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_batches_share_workers_which_end_with_the_search():
    with kept_workers():
        process = worker_of_a_batch()
        assert worker_of_a_batch() == process
        assert measure.PopenWorker() is measure.PopenWorker()
        assert is_running(process)
    assert not is_running(process)
    assert (measure.PopenPoolExecutor, measure.PopenWorker) == (PopenPoolExecutor, PopenWorker)
