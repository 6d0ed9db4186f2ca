"""Plans are stored, read back and printed without loss."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.errors import PlanError
from tvm_ios.runtime.cudnn_convolution import CudnnCall, CudnnConvolution
from tvm_ios.runtime.lower import lower_plan
from tvm_ios.runtime.plan import PLAN_VERSION, ExecutionPlan, dtype_bytes


@given(seed=st.integers(0, 10**9))
def test_json_reads_back_the_same_plan(random_json, seed):
    graph_json, placements = random_json(random.Random(seed))
    plan = lower_plan(graph_json, placements, lanes=2)
    assert ExecutionPlan.from_json(plan.to_json()) == plan


def test_another_version_is_refused(random_json):
    data = json.loads(lower_plan(*random_json(random.Random(1)), lanes=1).to_json())
    data["version"] = PLAN_VERSION + 1
    with pytest.raises(PlanError, match=f"version {PLAN_VERSION + 1}.*reads version"):
        ExecutionPlan.from_json(json.dumps(data))


@pytest.mark.parametrize("text", ["", "[]", "{}", f'{{"version": {PLAN_VERSION}}}', "\x00"])
def test_garbage_is_refused(text):
    with pytest.raises(PlanError, match="not an execution plan"):
        ExecutionPlan.from_json(text)


def test_text_names_every_launch(random_json):
    plan = lower_plan(*random_json(random.Random(3)), lanes=2)
    text = plan.as_text()
    assert all(f"{launch.operator}(" in text for launch in plan.launches)
    assert f"arena {plan.arena_bytes} bytes" in text


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float32", 4), ("int64", 8), ("bool", 1), ("uint1", 1), ("bfloat16", 2), ("int8x4", 4)],
)
def test_element_sizes(dtype, size):
    assert dtype_bytes(dtype) == size


@pytest.mark.parametrize("dtype", ["handle", "float", "string", ""])
def test_types_without_a_size_are_refused(dtype):
    with pytest.raises(PlanError, match="data type"):
        dtype_bytes(dtype)


def test_calls_of_cudnn_are_stored_with_the_plan(random_json):
    plan = lower_plan(*random_json(random.Random(3)), lanes=2)
    convolution = CudnnConvolution(
        input_shape=(1, 4, 2, 2),
        weight_shape=(8, 4, 1, 1),
        strides=(1, 1),
        padding=(0, 0),
        dilation=(1, 1),
        groups=1,
        bias=False,
        relu=True,
    )
    call = CudnnCall(convolution=convolution, data=0, weight=1)
    launches = (replace(plan.launches[0], cudnn=call), *plan.launches[1:])
    changed = replace(plan, launches=launches)
    assert ExecutionPlan.from_json(changed.to_json()) == changed
    assert changed.as_text().count("by cuDNN") == 1
    data = json.loads(changed.to_json())
    del data["launches"][0][-1]["convolution"]["relu"]
    with pytest.raises(PlanError, match="not an execution plan"):
        ExecutionPlan.from_json(json.dumps(data))
