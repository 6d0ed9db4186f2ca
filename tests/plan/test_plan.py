"""Plans are stored, read back and printed without loss."""

from __future__ import annotations

import copy
import json
import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.json_places import places
from tvm_ios.errors import PlanError
from tvm_ios.plan.library_call import LibraryCall
from tvm_ios.plan.lower import lower_plan
from tvm_ios.plan.plan import PLAN_VERSION, ExecutionPlan
from tvm_ios.runtime.libraries.cudnn.convolution import CudnnCall, CudnnConvolution
from tvm_ios.runtime.libraries.cudnn.provider import CudnnLibrary
from tvm_ios.runtime.libraries.known import read_call


def read_plan(text):
    return ExecutionPlan.from_json(text, read_call=read_call)


@given(seed=st.integers(0, 10**9))
def test_json_reads_back_the_same_plan(random_graph, seed):
    graph, placements = random_graph(random.Random(seed))
    plan = lower_plan(graph, placements, lanes=2)
    assert read_plan(plan.to_json()) == plan


def test_another_version_is_refused(random_graph):
    data = json.loads(lower_plan(*random_graph(random.Random(1)), lanes=1).to_json())
    data["version"] = PLAN_VERSION + 1
    with pytest.raises(PlanError, match=f"version {PLAN_VERSION + 1}.*reads version"):
        read_plan(json.dumps(data))


@pytest.mark.parametrize("text", ["", "[]", "{}", f'{{"version": {PLAN_VERSION}}}', "\x00"])
def test_garbage_is_refused(text):
    with pytest.raises(PlanError, match="not an execution plan"):
        read_plan(text)


@given(data=st.data())
def test_any_one_change_is_read_back_equal_or_refused_in_one_line(random_graph, data):
    stored = json.loads(lower_plan(*random_graph(random.Random(5)), lanes=2).to_json())
    path = data.draw(st.sampled_from(list(places(stored))))
    target = stored
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = data.draw(
        st.sampled_from([0, 7, -1, 0.5, math.inf, True, None, "x", "0", [], ["0"], {}])
    )
    try:
        plan = read_plan(json.dumps(stored))
    except PlanError as error:
        assert "\n" not in str(error)  # noqa: PT017 - most changes are refused, some are not
        return
    assert json.loads(plan.to_json()) == stored


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lanes", "2"),
        ("lanes", True),
        ("arena_bytes", 64.5),
        ("arena_bytes", math.inf),
        ("outputs", ["0"]),
        ("groups", [[0, 0, "01", [], 0]]),
        ("inputs", [["data", 0.5]]),
        ("buffers", [["heap", 4, None]]),
        ("version", True),
    ],
)
def test_a_field_of_another_kind_is_named(random_graph, name, value):
    data = json.loads(lower_plan(*random_graph(random.Random(1)), lanes=1).to_json())
    with pytest.raises(PlanError, match=f"not an execution plan: {name}.* is .*; expected"):
        read_plan(json.dumps(data | {name: value}))


def test_truth_values_of_older_files_are_named_as_their_arrays(random_graph):
    data = json.loads(lower_plan(*random_graph(random.Random(1)), lanes=1).to_json())
    data["tensors"][0][-1] = "uint1"
    assert read_plan(json.dumps(data)).tensors[0].dtype == "bool"


def test_text_names_every_launch(random_graph):
    plan = lower_plan(*random_graph(random.Random(3)), lanes=2)
    text = plan.as_text()
    assert all(f"{launch.operator}(" in text for launch in plan.launches)
    assert f"arena {plan.arena_bytes} bytes" in text


def test_calls_of_cudnn_are_stored_with_the_plan(random_graph):
    plan = lower_plan(*random_graph(random.Random(3)), lanes=2)
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
    made = LibraryCall(CudnnLibrary.name, call)
    launches = (replace(plan.launches[0], call=made), *plan.launches[1:])
    changed = replace(plan, launches=launches)
    assert read_plan(changed.to_json()) == changed
    assert changed.as_text().count("by cuDNN") == 1
    data = json.loads(changed.to_json())
    assert data["launches"][0][-1]["library"] == "cudnn"
    # Plans of before had the call by itself, since there was one library.
    older = copy.deepcopy(data)
    older["launches"][0][-1] = older["launches"][0][-1]["call"]
    assert read_plan(json.dumps(older)) == changed
    stranger = copy.deepcopy(data)
    stranger["launches"][0][-1]["library"] = "cublas"
    with pytest.raises(PlanError, match="library is 'cublas'; .* knows the libraries 'cudnn'"):
        read_plan(json.dumps(stranger))
    del data["launches"][0][-1]["call"]["convolution"]["relu"]
    with pytest.raises(PlanError, match="not an execution plan"):
        read_plan(json.dumps(data))
