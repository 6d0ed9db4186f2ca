"""Values for timed runs: one for every input that is no parameter, without denormals."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tvm_ios.errors import ExecutionError
from tvm_ios.plan.kernel_graph import GraphOperator, GraphTensor, KernelGraph
from tvm_ios.plan.lower import lower_plan
from tvm_ios.plan.placement import Placement
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.runtime.base.sample_inputs import MOST_DRAWN, sample_inputs, sample_tensor


def plan_of(**dtypes: str) -> ExecutionPlan:
    """One operator that reads inputs of these names and data types."""
    count = len(dtypes)
    kernel = GraphOperator(
        name="o", kernel="f", inputs=tuple(range(count)), outputs=(count,), flatten=False
    )
    graph = KernelGraph(
        tensors=tuple(GraphTensor((2, 300), dtype) for dtype in (*dtypes.values(), "float32")),
        operators=(kernel,),
        inputs=tuple((name, number) for number, name in enumerate(dtypes)),
        outputs=(count,),
    )
    return lower_plan(graph, [Placement(stage=0, group=0)], lanes=1)


def test_every_input_but_the_parameters_gets_a_value():
    plan = plan_of(data="float32", weight="float32", mask="int32", half="float16")
    values = sample_inputs(plan, {"weight"})
    assert set(values) == {"data", "mask", "half"}
    for name, dtype in (("data", "float32"), ("mask", "int32"), ("half", "float16")):
        assert (values[name].dtype, values[name].shape) == (np.dtype(dtype), (2, 300))


def test_floats_are_standard_normal_and_integers_zero():
    values = sample_inputs(plan_of(data="float32", index="int64", flag="bool"), ())
    assert abs(values["data"].mean()) < 0.3
    assert 0.7 < values["data"].std() < 1.3
    assert np.abs(values["data"]).min() > np.finfo("float32").tiny
    assert not values["index"].any()
    assert not values["flag"].any()
    assert values["flag"].dtype == np.dtype(bool)


def test_types_that_numpy_lacks_are_refused():
    with pytest.raises(ExecutionError, match="no data type 'bfloat16'"):
        sample_inputs(plan_of(data="bfloat16"), ())


@pytest.mark.parametrize("seed", [0, 7])
def test_equal_seeds_give_equal_values(seed):
    plan = plan_of(data="float32")
    first, second = (sample_inputs(plan, (), seed=seed)["data"] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert (sample_inputs(plan, (), seed=seed + 1)["data"] != first).any()


def test_values_fit_any_plan(random_graph):
    plan = lower_plan(*random_graph(random.Random(1)), lanes=1)
    values = sample_inputs(plan, ())
    for entry in plan.inputs:
        assert values[entry.name].shape == tuple(plan.tensors[entry.tensor].shape)


@pytest.mark.parametrize("shape", [(), (3, 5), (2, MOST_DRAWN - 7)])
def test_a_tensor_of_any_size_is_filled_with_small_floats(shape):
    values = sample_tensor(np.random.default_rng(0), shape, "float16")
    assert (values.shape, values.dtype) == (shape, np.dtype("float16"))
    np.testing.assert_array_equal(values * 64, np.rint(values * 64))
    assert np.abs(values).max() <= 1
    assert values.reshape(-1)[-9:].any()
