"""TVM's own executor on loaded kernels: the bits of stock TVM, on its threads and on our lanes."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from tvm_ios.errors import ExecutionError
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.native_runtime import shared_runtime
from tvm_ios.runtime.cpu.stock_executor import StockExecutor


@pytest.fixture(scope="module")
def library(exported):
    return KernelLibrary(exported[1], shared_runtime())


@pytest.fixture
def executor(exported, library):
    built, _ = exported
    params = {name: tvm.nd.array(value) for name, value in built.factory.get_params().items()}
    executor = StockExecutor(built.graph_json, library, params, lanes=2)
    executor.set_input("data", built.input)
    yield executor
    executor.close()


def assert_expected(outputs, built):
    for output, expected in zip(outputs, built.expected, strict=True):
        np.testing.assert_array_equal(output.numpy().view(np.uint32), expected.view(np.uint32))


def test_outputs_are_those_of_stock_tvm(executor, exported):
    assert_expected(executor.outputs(), exported[0])


def test_outputs_are_copies(executor, exported):
    kept = executor.outputs()
    executor.set_input("data", np.zeros_like(exported[0].input))
    executor.outputs()
    assert_expected(kept, exported[0])


@pytest.mark.parametrize("threads", [1, 2])
def test_timed_runs_compute_the_same(executor, exported, threads):
    assert executor.time_ns(3, threads=threads) > 0
    assert_expected(executor.outputs(), exported[0])


def test_runs_on_our_lanes_compute_the_same(executor, exported):
    output = executor.module["get_output"](0)
    tvm.nd.array(np.zeros(output.shape, output.dtype)).copyto(output)
    assert executor.time_on_lanes_ns(5) > 0
    np.testing.assert_array_equal(executor.module["get_output"](0).numpy(), exported[0].expected[0])


def test_a_closed_executor_times_nothing_on_lanes(executor):
    executor.close()
    executor.close()
    with pytest.raises(ExecutionError, match="closed"):
        executor.time_on_lanes_ns(1)
