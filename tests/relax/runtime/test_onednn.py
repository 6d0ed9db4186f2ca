"""oneDNN computes a convolution in a plan whose other kernels are those of TVM 0.27."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

import tvm_ios
from tests.relax.runtime import built
from tests.relax.runtime.c_program import started
from tests.runtime.libraries.onednn.calls import tensor
from tvm_ios.plan.kernel_graph import GraphOperator, GraphTensor, KernelGraph
from tvm_ios.plan.library_call import LibraryCall
from tvm_ios.plan.lower import lower_plan
from tvm_ios.plan.placement import Placement
from tvm_ios.runtime.artifact.artifact import export_artifact
from tvm_ios.runtime.artifact.factory import ExecutableFactory
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.runtime.base.native_runtime import shared_runtime
from tvm_ios.runtime.cpu.graph_module import MultiStreamGraphModule
from tvm_ios.runtime.libraries.onednn.call import OnednnCall, Primitive, Window
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary

IMAGE, WEIGHT = (1, 16, 12, 12), (32, 16, 3, 3)
RESULT = (1, 32, 10, 10)
CALL = OnednnCall(
    primitive=Primitive.CONVOLUTION,
    data=tensor(*IMAGE, position=0),
    weight=tensor(*WEIGHT, position=1, constant=True),
    bias=None,
    result=tensor(*RESULT),
    window=Window(strides=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1)),
)


@I.ir_module
class Halved:
    @T.prim_func
    def halved(
        data: T.Buffer((1, 32, 10, 10), "float32"), out: T.Buffer((1, 32, 10, 10), "float32")
    ):
        for c in T.parallel(32):
            for i, j in T.grid(10, 10):
                out[0, c, i, j] = data[0, c, i, j] * T.float32(0.5)


@pytest.fixture(scope="module")
def executable():
    return tvm.compile(Halved, target=built.TARGET)


@pytest.fixture(scope="module")
def plan():
    """The convolution, whose kernel nobody compiled, and half of its result."""

    def operator(name, inputs, output):
        return GraphOperator(
            name=name, kernel=name, inputs=inputs, outputs=(output,), flatten=False
        )

    shapes = (IMAGE, WEIGHT, RESULT, RESULT)
    graph = KernelGraph(
        tensors=tuple(GraphTensor(shape, "float32") for shape in shapes),
        operators=(operator("convolution", (0, 1), 2), operator("halved", (2,), 3)),
        inputs=(("data", 0), ("weight", 1)),
        outputs=(3,),
    )
    call = LibraryCall(OnednnLibrary.name, CALL)
    places = [Placement(stage=0, group=0, call=call), Placement(stage=1, group=0)]
    return lower_plan(graph, places, lanes=2)


@pytest.fixture(scope="module")
def values():
    """Data, weights, and half of their convolution."""
    random = np.random.default_rng(0)
    data = random.integers(-3, 4, IMAGE).astype("float32")
    weight = random.integers(-3, 4, WEIGHT).astype("float32")
    windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), axis=(2, 3))
    return data, weight, np.einsum("ncijkl,ockl->noij", windows, weight) / 2


def test_onednn_computes_an_operator_of_a_plan(executable, plan, values, tmp_path):
    data, weight, wanted = values
    executable.export_library(str(tmp_path / "kernels.so"))
    library = KernelLibrary(tmp_path / "kernels.so", shared_runtime())
    params = {"weight": tvm.runtime.tensor(weight)}
    options = LaneOptions(oversubscribe=True)
    with MultiStreamGraphModule(plan, library, params, options=options) as executor:
        executor.run(data=data)
        np.testing.assert_array_equal(executor.get_output(0).numpy(), wanted)
        executor.set_input("weight", 2 * weight)
        executor.run()
        np.testing.assert_array_equal(executor.get_output(0).numpy(), 2 * wanted)


@pytest.mark.slow
def test_a_file_has_the_call_in_it_for_python_and_c(executable, plan, values, program, tmp_path):
    data, weight, wanted = values
    factory = ExecutableFactory(executable, built.TARGET, {"weight": tvm.runtime.tensor(weight)})
    path = tmp_path / "model.so"
    export_artifact(factory, plan, path)
    with tvm_ios.load(path) as executor:
        executor.run(data=data)
        np.testing.assert_array_equal(executor.get_output(0).numpy(), wanted)
    data.tofile(tmp_path / "x.bin")
    words = (path, "--input", tmp_path / "x.bin", "--output", tmp_path / "y.bin")
    done = started(program, *words)
    assert done.returncode == 0, done.stderr
    got = np.fromfile(tmp_path / "y.bin", "float32").reshape(RESULT)
    np.testing.assert_array_equal(got, wanted)
