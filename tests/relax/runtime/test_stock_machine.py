"""Stock Relax on the kernels of a library: right outputs, and times on our lanes as well."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm.script import ir as I
from tvm.script import relax as R

from tests.relax.runtime import built
from tvm_ios.errors import ExecutionError
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.native_runtime import shared_runtime
from tvm_ios.runtime.cpu.stock_executor import StockMachine


@I.ir_module
class Network:
    @R.function
    def main(
        data: R.Tensor((32, 64), "float32"),
    ) -> R.Tuple(R.Tensor((32, 64), "float32"), R.Tensor((32, 64), "float32")):
        with R.dataflow():
            once = R.sqrt(data)
            twice = R.sqrt(once)
            both = (once, twice)
            R.output(both)
        return both


@pytest.fixture
def machine(tmp_path):
    tvm.compile(Network, target=built.TARGET).export_library(str(tmp_path / "network.so"))
    library = KernelLibrary(tmp_path / "network.so", shared_runtime())
    machine = StockMachine(library, {"data": np.zeros(built.SHAPE, "float32")}, lanes=1)
    yield machine
    machine.close()


def test_outputs_are_those_of_the_kernels(machine):
    data = np.abs(built.values()[0])
    machine.set_input("data", data)
    once, twice = machine.outputs()
    np.testing.assert_allclose(once.numpy(), np.sqrt(data), rtol=1e-6)
    np.testing.assert_allclose(twice.numpy(), np.sqrt(np.sqrt(data)), rtol=1e-6)


def test_both_clocks_count_runs(machine):
    assert machine.time_ns(3, threads=1) > 0
    assert machine.time_on_lanes_ns(3) > 0
    machine.close()
    with pytest.raises(ExecutionError, match="closed"):
        machine.time_on_lanes_ns(1)
