"""Values for timed runs: one for every input that is no parameter, without denormals."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from tvm_ios.errors import ExecutionError
from tvm_ios.runtime.lower import lower_plan
from tvm_ios.runtime.placement import Placement
from tvm_ios.runtime.plan import ExecutionPlan
from tvm_ios.runtime.sample_inputs import MOST_DRAWN, sample_inputs, sample_tensor


def plan_of(**dtypes: str) -> ExecutionPlan:
    """One operator that reads inputs of these names and data types."""
    count = len(dtypes)
    nodes = [{"op": "null", "name": name, "inputs": []} for name in dtypes]
    attrs = {"func_name": "f", "num_outputs": "1", "num_inputs": str(count)}
    reads = [[number, 0, 0] for number in range(count)]
    nodes.append({"op": "tvm_op", "name": "o", "attrs": attrs, "inputs": reads})
    graph = {
        "nodes": nodes,
        "arg_nodes": list(range(count)),
        "heads": [[count, 0, 0]],
        "attrs": {
            "shape": ["list_shape", [[2, 300]] * (count + 1)],
            "dltype": ["list_str", [*dtypes.values(), "float32"]],
        },
        "node_row_ptr": list(range(count + 2)),
    }
    return lower_plan(json.dumps(graph), [Placement(stage=0, group=0)], lanes=1)


def test_every_input_but_the_parameters_gets_a_value():
    plan = plan_of(data="float32", weight="float32", mask="int32", half="float16")
    values = sample_inputs(plan, {"weight"})
    assert set(values) == {"data", "mask", "half"}
    for name, dtype in (("data", "float32"), ("mask", "int32"), ("half", "float16")):
        assert (values[name].dtype, values[name].shape) == (np.dtype(dtype), (2, 300))


def test_floats_are_standard_normal_and_integers_zero():
    values = sample_inputs(plan_of(data="float32", index="int64", flag="uint1"), ())
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


def test_values_fit_any_plan(random_json):
    plan = lower_plan(*random_json(random.Random(1)), lanes=1)
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
