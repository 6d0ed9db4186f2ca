"""Processes of TVM's tuners that tests share: each imports TVM, for a second of a core."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from functools import cache
from uuid import uuid4

import pytest
from tvm.auto_scheduler import measure as ansor_measure
from tvm.autotvm.measure import measure_methods
from tvm.contrib.popen_pool import PopenPoolExecutor, PopenWorker

from tests.little_search import little_list_search  # noqa: F401 - a fixture
from tvm_ios.tuning.ansor import run as ansor_run
from tvm_ios.tuning.autotvm import backend as autotvm_backend
from tvm_ios.tuning.autotvm import measure as autotvm_measure
from tvm_ios.tuning.autotvm.measure import Measuring
from tvm_ios.tuning.guard import MARK, end_processes, start_guard


@pytest.fixture(scope="session")
def sharing():
    """Context in which tuning runs use the processes of those before, and leave them running."""
    mark, pair, made = uuid4().hex, [], []
    pools, workers = kept_in(made, PopenPoolExecutor), kept_in(made, PopenWorker)
    start_pair = Measuring._start_pair

    def take_pair(measuring):
        if not pair:
            start_pair(measuring)
            pair[:] = measuring._pair, measuring._pair_port
        measuring._pair, measuring._pair_port = pair

    @contextmanager
    def shared():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(MARK, mark)
            patch.setenv("TVM_NUM_THREADS", "1")
            for module in (ansor_measure, measure_methods, autotvm_measure):
                patch.setattr(module, "PopenPoolExecutor", pools)
            patch.setattr(ansor_measure, "PopenWorker", workers)
            patch.setattr(ansor_run, "kept_workers", nullcontext_of)
            for module in (ansor_run, autotvm_backend):
                patch.setattr(module, "guarded_workers", nullcontext_of)
            patch.setattr(Measuring, "_start_pair", take_pair)
            patch.setattr(Measuring, "_end_pair", lambda _: None)
            yield

    guard = start_guard(mark)
    yield shared
    for one in (*made, *pair[:1]):
        for worker in getattr(one, "_worker_map", {0: one}).values():
            worker.kill()
    end_processes(mark)
    guard.terminate()
    guard.wait()


def kept_in(made, kind):
    """Makes one object of a kind for equal arguments, and puts it into a list."""

    @cache
    def make(*arguments, **options):
        made.append(kind(*arguments, **options))
        return made[-1]

    return make


def nullcontext_of(**_options):
    return nullcontext()


@pytest.fixture
def shared_processes(sharing):
    """What tuning runs of this test start, those of other tests have started, or will use."""
    with sharing():
        yield
