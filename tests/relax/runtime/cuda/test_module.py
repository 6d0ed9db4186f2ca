"""The front of the GPU executors under TVM 0.27: its tests, on networks in Relax."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import tvm_ios
from tests.relax.networks import TARGET, inception_block
from tests.runtime.cuda.test_module import (  # noqa: F401 - tests
    test_a_gpu_that_does_not_fit_is_refused,
    test_a_schedule_is_compiled_exported_and_loaded,
    test_a_trace_shows_what_overlaps,
    test_an_error_at_any_call_is_told_and_leaves_nothing,
    test_it_answers_like_a_graph_module,
    test_no_gpu_is_one_clear_error,
    test_runs_belong_to_the_callers_stream,
)


def test_an_error_is_told_though_nothing_can_be_freed(cuda_stand_in):
    """TVM 0.27 ends a process in which it cannot free."""
    seen = cuda_stand_in.run("lost", "small")
    assert "cuLaunchKernel failed: CUDA_ERROR_LAUNCH_FAILED" in seen["error"]
    assert seen["live"] == {"allocations": seen["arrays"]}


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("cuda_graph", [False, True])
def test_outputs_on_a_gpu_are_those_of_the_processor(cuda_graph):
    if not tvm.cuda().exist:
        pytest.skip("there is no GPU, or no driver of it")
    mod, value = inception_block()
    found = []
    for target, options in ((TARGET, {}), ("cuda", {"cuda_graph": cuda_graph})):
        with tvm_ios.compile_schedule(mod, None, target).executor(**options) as module:
            module.run(x=value)
            found.append(module.get_output(0).numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-5)
