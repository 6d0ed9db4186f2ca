"""Workers of TVM's builder and runner: the same ones for every batch of a search."""

from __future__ import annotations

import os
import tarfile

import pytest
import tvm
from tvm import relay
from tvm.auto_scheduler import measure
from tvm.contrib.popen_pool import PopenPoolExecutor, PopenWorker

from tvm_ios.tuning.ansor.tasks import extract_tasks
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


def code_in(archive):
    """Machine code of a built candidate."""
    with tarfile.open(archive) as parts:
        return b"".join(parts.extractfile(part).read() for part in parts if part.isfile())


@pytest.mark.slow
def test_batches_share_workers_which_end_with_the_search():
    with kept_workers():
        process = worker_of_a_batch()
        assert worker_of_a_batch() == process
        assert measure.PopenWorker() is measure.PopenWorker()
        assert is_running(process)
    assert not is_running(process)
    assert (measure.PopenPoolExecutor, measure.PopenWorker) == (PopenPoolExecutor, PopenWorker)


@pytest.mark.slow
@pytest.mark.parametrize("arithmetic", [True, False])
def test_candidates_are_built_as_kernels_are(arithmetic):
    """Mathematics of a candidate by arithmetic; by libm where bits are exact."""
    x, w = relay.var("x", shape=(8, 16)), relay.var("w", shape=(16, 16))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.erf(relay.nn.dense(x, w))))
    (task,) = extract_tasks(mod, {}, tvm.target.Target("llvm"), cores=1)
    candidate = measure.MeasureInput(task.task, task.task.compute_dag.get_init_state())
    with kept_workers(arithmetic=arithmetic):
        (built,) = measure.local_builder_build([candidate], 60, 1, measure.BuildFunc.name, 0)
    assert not built.error_no, built.error_msg
    assert (b"erff" not in code_in(built.filename)) is arithmetic
