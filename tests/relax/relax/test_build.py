from __future__ import annotations

from dataclasses import replace

import pytest

from tests.relax.networks import TARGET, inception_block, squeezenet
from tests.relax.relax.modules import Branches, Dynamic, Opaque
from tvm_ios.errors import ModelError
from tvm_ios.plan.lower import lower_plan
from tvm_ios.plan.schedule_places import placements_for
from tvm_ios.plan.verify import verify_plan
from tvm_ios.relax.build import build
from tvm_ios.relax.extract import extract
from tvm_ios.relax.prepare import prepare
from tvm_ios.relax.rewrite import rewrite
from tvm_ios.search.baselines import greedy_schedule


@pytest.fixture(scope="module")
def block():
    """An Inception block, prepared."""
    return prepare(inception_block()[0], None, TARGET)


def test_kernels_and_tensors_are_those_of_main():
    graph = build(Branches, TARGET).graph
    assert graph.inputs == (("x", 0),)
    assert [operator.kernel for operator in graph.operators] == ["twice", "raised", "added"]
    assert [operator.inputs for operator in graph.operators] == [(0,), (0,), (1, 2)]
    assert [operator.outputs for operator in graph.operators] == [(1,), (2,), (3,)]
    assert graph.outputs == (3,)


@pytest.mark.slow(1)
def test_constants_are_inputs_with_values(block):
    staged = build(block.module, TARGET)
    names = [name for name, _ in staged.graph.inputs]
    assert names == ["x", *staged.params]
    shapes = {name: staged.graph.tensors[tensor].shape for name, tensor in staged.graph.inputs}
    assert all(shapes[name] == tuple(array.shape) for name, array in staged.params.items())


@pytest.mark.slow
def test_names_of_inputs_are_not_given_to_constants():
    mod, params, _ = squeezenet()
    taken = prepare(mod, {name: params[name] for name in list(params)[1:]}, TARGET).module
    staged = build(taken, TARGET)
    assert [name for name, _ in staged.graph.inputs][:2] == ["x", "first.weight"]
    assert len({name for name, _ in staged.graph.inputs}) == len(staged.graph.inputs)


@pytest.mark.slow(1)
def test_stages_are_placed_as_the_schedule_says(block):
    schedule = greedy_schedule(block.extraction.graph)
    priced = replace(schedule, operator_ns=tuple(range(10, 19)), unsplit=(2,))
    staged = build(rewrite(block.module, priced), TARGET)
    by_name = dict(zip(staged.operator_names, staged.placements, strict=True))
    placed = placements_for(block.extraction, priced)
    assert by_name == dict(zip(schedule.operator_names, placed, strict=True))


@pytest.mark.slow(1)
def test_a_concatenation_needs_no_launch(block):
    mod, params, _ = squeezenet()
    for prepared, views in ((block, 1), (prepare(mod, params, TARGET), 4)):
        staged = build(prepared.module, TARGET, extraction=prepared.extraction)
        plan = lower_plan(staged.graph, staged.placements, lanes=2)
        verify_plan(plan)
        assert len(plan.launches) == len(staged.graph.operators) - views


def test_what_is_no_kernel_is_refused():
    prepared = prepare(Opaque, None, TARGET)
    with pytest.raises(ModelError, match="call_dps_packed_0: relax.call_dps_packed, which is no"):
        build(prepared.module, TARGET)


def test_open_dimensions_are_refused_with_what_binds_them():
    with pytest.raises(ModelError, match="build: main: parameter 'x' has .*BindSymbolicVars"):
        build(Dynamic, TARGET)


def test_a_stage_that_another_pass_changed_is_refused():
    after = rewrite(Branches, greedy_schedule(extract(Branches).graph))
    stage = after["tvm_ios_stage_0"].with_attr("tvm_ios_operators", "twice_0")
    after.update_func(after.get_global_var("tvm_ios_stage_0"), stage)
    with pytest.raises(ModelError, match="lists 1 operators but calls 2 kernels"):
        build(after, TARGET)
