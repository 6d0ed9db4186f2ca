"""Plans of kernels of TVM 0.27 on lanes: right outputs, split regions, errors, traces, poison."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from tests.relax.runtime import built
from tvm_ios.errors import ArtifactError, ExecutionError
from tvm_ios.plan.kernel_graph import GraphOperator, GraphTensor, KernelGraph
from tvm_ios.plan.lower import lower_plan
from tvm_ios.plan.placement import Placement
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.runtime.base.native_runtime import shared_runtime
from tvm_ios.runtime.base.plan_memory import PlanMemory
from tvm_ios.runtime.cpu.graph_module import MultiStreamGraphModule
from tvm_ios.runtime.cpu.lane_executor import executor_here

MANY = LaneOptions(oversubscribe=True)


def module(library, lanes=2, weight=None, shape=built.SHAPE, **options):
    weight = built.values()[1] if weight is None else weight
    params = {"weight": tvm.runtime.tensor(weight)}
    given = LaneOptions(oversubscribe=True, **options)
    return MultiStreamGraphModule(built.plan(lanes, shape), library, params, options=given)


@pytest.mark.parametrize("lanes", [1, 2])
def test_outputs_are_right_on_lanes(library, lanes):
    data, weight = built.values()
    with module(library, lanes) as executor:
        executor.run(data=data)
        for number, wanted in enumerate(built.expected(data, weight)):
            got = executor.get_output(number)
            assert isinstance(got, tvm.runtime.Tensor)
            assert str(got.dtype) == str(wanted.dtype)
            np.testing.assert_array_equal(got.numpy(), wanted)
        assert executor.time_ns(3) > 0


def test_values_come_in_as_arrays_of_any_kind(library):
    data, weight = built.values()
    wanted = built.expected(data, weight)[0]
    with module(library, weight=2 * weight) as executor:
        executor.set_input("weight", tvm.runtime.tensor(weight))
        executor.run(data=data.tolist())
        np.testing.assert_array_equal(executor.get_output(0).numpy(), wanted)
        out = tvm.runtime.empty(built.SHAPE, "float32")
        own = tvm.runtime.empty(built.SHAPE, "float32")
        own.copyfrom(data + 1)
        executor.set_input_zero_copy("data", own)
        executor.set_output_zero_copy(0, out)
        executor.run()
        np.testing.assert_array_equal(out.numpy(), built.expected(data + 1, weight)[0])
        saved = tvm.runtime.save_param_dict({"weight": tvm.runtime.tensor(3 * weight)})
        executor.load_params(saved)
        executor.run()
        np.testing.assert_array_equal(out.numpy(), built.expected(data + 1, 3 * weight)[0])
        with pytest.raises(ExecutionError, match=r"pass a tvm.runtime.Tensor"):
            executor.set_input_zero_copy("data", [1.0])


@I.ir_module
class Threads:
    @T.prim_func
    def threads(data: T.Buffer((64,), "float32"), out: T.Buffer((64,), "int32")):
        for i in T.parallel(64):
            out[i] = T.call_extern("int32", "gettid") + T.cast(data[i], "int32")


def test_parallel_regions_are_split_over_lanes(tmp_path):
    """The kernel says which threads run its tasks; some time, the other lane helps."""
    tvm.compile(Threads, target=built.TARGET).export_library(str(tmp_path / "threads.so"))
    threads = GraphOperator(
        name="threads", kernel="threads", inputs=(0,), outputs=(1,), flatten=False
    )
    graph = KernelGraph(
        tensors=(GraphTensor((64,), "float32"), GraphTensor((64,), "int32")),
        operators=(threads,),
        inputs=(("data", 0),),
        outputs=(1,),
    )
    plan = lower_plan(graph, [Placement(stage=0, group=0)], lanes=2)
    library = KernelLibrary(tmp_path / "threads.so", shared_runtime())
    options = LaneOptions(oversubscribe=True, tasks_per_lane=8, jitter_seed=1)
    with MultiStreamGraphModule(plan, library, {}, options=options) as executor:
        executor.set_input("data", np.zeros(64, "float32"))
        deadline = time.monotonic() + 60
        found = set()
        while len(found) < 2 and time.monotonic() < deadline:
            executor.run()
            found = set(executor.get_output(0).numpy().tolist())
        assert len(found) == 2
        assert threading.get_native_id() in found


def test_lanes_that_stall_change_no_result(library):
    data, weight = built.values()
    for seed in range(1, 6):
        with module(library, 3, tasks_per_lane=4, jitter_seed=seed) as executor:
            for _ in range(5):
                executor.run(data=data)
            np.testing.assert_array_equal(
                executor.get_output(0).numpy(), built.expected(data, weight)[0]
            )


def test_an_error_of_a_kernel_is_told_and_the_executor_stays_usable(library):
    data, _ = built.values()
    half = (built.ROWS // 2, built.COLUMNS)
    for lanes in (1, 2):
        with module(library, lanes, shape=half) as executor:
            for _ in range(2):
                with pytest.raises(ExecutionError) as failed:
                    executor.run(data=data[: half[0]])
                text = str(failed.value)
                assert "operator 's" in text
                assert "ValueError: Invalid data.shape[0] on argument #0" in text
                assert "expected 32; the executor stays usable" in text
    with module(library) as executor:
        executor.run(data=data)


def test_a_trace_has_every_launch(library):
    with module(library) as executor:
        executor.set_input("data", built.values()[0])
        events = executor.trace()
    assert {event.operator for event in events} == {"scaled", "shifted", "joined", "positive"}
    assert all(event.end_ns >= event.start_ns >= 0 for event in events)


def test_poisoned_memory_changes_nothing(library):
    data, weight = built.values()
    plan = built.plan(2)
    memory = PlanMemory(plan, {"weight": tvm.runtime.tensor(weight)})
    memory.array(plan.inputs[0].tensor).copyfrom(data)
    executor = executor_here(plan, library, memory, options=MANY, poison=True)
    for _ in range(2):
        executor.run()
        for tensor, wanted in zip(plan.outputs, built.expected(data, weight), strict=True):
            np.testing.assert_array_equal(memory.array(tensor).numpy(), wanted)
    executor.close()


def test_unknown_kernels_are_named(library):
    assert library.kernel("scaled").address
    with pytest.raises(ArtifactError, match="no kernel named 'fly'"):
        library.kernel("fly")


def test_stock_tvm_runs_the_same_library_on_its_own_threads(library):
    """The hook serves only threads that run one of our programs."""
    data, weight = built.values()
    out = tvm.runtime.empty(built.SHAPE, "float32")
    library.module["scaled"](tvm.runtime.tensor(data), tvm.runtime.tensor(weight), out)
    np.testing.assert_array_equal(out.numpy(), data * weight)
