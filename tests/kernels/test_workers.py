"""Worker processes shared by the compilers of one call."""

from __future__ import annotations

import os
from contextvars import copy_context

import pytest
from tvm.contrib.popen_pool import PopenWorker

from tests.kernels.conftest import sums
from tvm_ios.kernels.cache import KernelCache
from tvm_ios.kernels.compile import KernelCompiler, KernelCounts
from tvm_ios.kernels.workers import (
    KernelWorkers,
    shared_workers,
    start_shared_workers,
    workers_in_force,
)


def test_workers_that_run_are_asked_sooner_than_others_are_started():
    workers = KernelWorkers(1)
    assert [workers.worth(kernels) for kernels in (2, 11, 12)] == [False, False, True]
    workers._answered = True
    assert [workers.worth(kernels) for kernels in (1, 2)] == [False, True]
    assert not KernelWorkers(0).worth(100)


def test_workers_are_those_of_the_outermost_call():
    assert workers_in_force() is None
    with shared_workers():
        workers = workers_in_force()
        with shared_workers():
            assert workers_in_force() is workers
        assert workers_in_force() is workers
    assert workers_in_force() is None
    start_shared_workers(100)  # of no call: nothing to start


def test_calls_that_overlap_leave_tvm_as_it_was():
    start = PopenWorker._start
    calls = [(copy_context(), shared_workers()) for _ in range(2)]
    for context, call in calls:
        context.run(call.__enter__)
    assert PopenWorker._start is not start
    for context, call in calls:
        context.run(call.__exit__, None, None, None)
    assert PopenWorker._start is start


def test_few_kernels_start_nothing(monkeypatch):
    monkeypatch.setattr(KernelWorkers, "start", lambda _: pytest.fail("workers were started"))
    with shared_workers():
        start_shared_workers(3)


@pytest.mark.slow
@pytest.mark.usefixtures("planted_folder")
def test_a_worker_runs_nothing_of_the_working_directory():
    before = dict(os.environ)
    workers = KernelWorkers(1)
    try:
        assert workers._run(bytes, (3,)) == bytes(3)
    finally:
        workers.close()
    assert dict(os.environ) == before


@pytest.mark.slow
def test_compilers_of_a_call_share_a_worker(lowered, target, tmp_path, monkeypatch):
    monkeypatch.setattr("tvm_ios.kernels.workers.default_lanes", lambda: 2)
    kernels = lowered(sums(4))
    with shared_workers():
        workers = workers_in_force()
        start_shared_workers(12)
        workers._pool().submit(int).result()  # after the start, as there is one thread
        (process,) = workers._all
        running = process._proc.pid
        for number in range(2):
            cache = KernelCache(tmp_path / str(number))
            with KernelCompiler(target, cache=cache) as compiler:
                for kernel in kernels:
                    compiler.add(kernel)
                begun = set(compiler._begun)
                archives = compiler.archives()
            assert begun == {kernel.symbol for kernel in kernels}
            assert set(archives) == begun
            assert compiler.counts == KernelCounts(compiled=4)
            assert process._proc.pid == running
    assert process._proc is None  # ended with the call
