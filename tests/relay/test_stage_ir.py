from __future__ import annotations

from dataclasses import replace

import pytest
import tvm
from tvm import relay

from tvm_ios.core.schedule import LibraryOperators
from tvm_ios.core.stage_attributes import STAGE_IR_VERSION
from tvm_ios.errors import ModelError
from tvm_ios.relay.rewrite import rewrite
from tvm_ios.relay.stage_ir import (
    flatten,
    is_partitioned,
    read_schedule,
    with_attributes,
)
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule


@pytest.fixture(scope="module")
def partitioned(nets):
    """The branching network with its greedy schedule."""
    extraction = nets.extraction()
    return rewrite(extraction.module, greedy_schedule(extraction.graph))


def changed(module, name, **attributes):
    """A copy with attributes of one function replaced."""
    copy = tvm.IRModule(module.functions, module.type_definitions)
    variable = module.get_global_var(name)
    copy[variable] = with_attributes(module[variable], attributes)
    return copy


def test_what_is_partitioned(nets, partitioned):
    assert is_partitioned(partitioned)
    assert not is_partitioned(nets.prepared().module)
    assert not is_partitioned(tvm.IRModule())


def test_kernels_are_placed_by_name(partitioned):
    kernels = {kernel.name: kernel for kernel in flatten(partitioned).kernels}
    assert kernels["layout_transform_0"].stage == 0
    assert kernels["max_pool2d_0"].stage == 0
    groups = {kernels[f"conv2d_{i}"].group for i in range(3)}
    assert groups == {0, 1, 2}
    assert {kernels[f"conv2d_{i}"].stage for i in range(3)} == {1}


def test_what_is_known_of_prices_travels_along(nets):
    extraction = nets.extraction()
    schedule = replace(
        greedy_schedule(extraction.graph),
        latency_ns=1234,
        priced_by="model of a GPU",
        operator_ns=tuple(range(100, 100 + len(extraction.graph))),
        unsplit=(0, len(extraction.graph) - 1),
        libraries=(LibraryOperators("cudnn", (1, 2)), LibraryOperators("other", ())),
    )
    module = rewrite(extraction.module, schedule)
    assert read_schedule(module) == schedule
    text = module.astext(show_meta_data=True)
    assert read_schedule(tvm.relay.fromtext(text)) == schedule
    with pytest.raises(ModelError, match="unsplit operator 'nobody'"):
        read_schedule(changed(module, "main", tvm_ios_unsplit="nobody"))
    # That nothing was chosen is something else than that nobody chose.
    for libraries in ((), (LibraryOperators("cudnn", ()),), None):
        changed_schedule = replace(schedule, libraries=libraries)
        assert read_schedule(rewrite(extraction.module, changed_schedule)) == changed_schedule


def test_lanes_of_a_list_travel_along(nets):
    extraction = nets.extraction()
    homes = tuple(index % 2 for index in range(len(extraction.graph)))
    schedule = replace(sequential_schedule(extraction.graph), scheduler="list", home_lanes=homes)
    module = rewrite(extraction.module, schedule)
    assert read_schedule(module) == schedule
    text = module.astext(show_meta_data=True)
    assert read_schedule(tvm.relay.fromtext(text)) == schedule
    with pytest.raises(ModelError, match="'x' in the attribute 'tvm_ios_home_lanes'"):
        read_schedule(changed(module, "main", tvm_ios_home_lanes="x"))


def test_modules_of_before_name_cudnn_by_itself(nets):
    extraction = nets.extraction()
    schedule = greedy_schedule(extraction.graph)
    names = schedule.operator_names
    module = rewrite(extraction.module, schedule)
    older = changed(module, "main", tvm_ios_cudnn=f"{names[1]}, {names[2]}")
    assert read_schedule(older).libraries == (LibraryOperators("cudnn", (1, 2)),)
    nothing = changed(module, "main", tvm_ios_cudnn="")
    assert read_schedule(nothing).libraries == (LibraryOperators("cudnn", ()),)
    with pytest.raises(ModelError, match="cudnn operator 'nobody'"):
        read_schedule(changed(module, "main", tvm_ios_libraries="cudnn: nobody"))


@pytest.mark.parametrize("read", [flatten, read_schedule])
def test_an_unpartitioned_module_is_refused(nets, read):
    with pytest.raises(ModelError, match="not partitioned into stages"):
        read(nets.prepared().module)


@pytest.mark.parametrize("read", [flatten, read_schedule])
def test_another_version_is_refused(partitioned, read):
    newer = changed(partitioned, "main", tvm_ios_version=STAGE_IR_VERSION + 1)
    with pytest.raises(ModelError, match="by version 2 of the stage attributes"):
        read(newer)


def test_a_missing_stage_is_noticed(partitioned):
    with pytest.raises(ModelError, match="stage numbers are"):
        read_schedule(changed(partitioned, "tvm_ios_stage_1", tvm_ios_stage=17))


def test_an_unknown_operator_is_noticed(partitioned):
    renamed = changed(partitioned, "tvm_ios_stage_1", tvm_ios_groups="conv2d_0 | stranger")
    with pytest.raises(ModelError, match="stage_1 names operator 'stranger'"):
        read_schedule(renamed)


@pytest.mark.parametrize(
    ("function", "attribute", "value"),
    [
        ("main", "tvm_ios_version", "one"),
        ("main", "tvm_ios_latency_ns", "fast"),
        ("main", "tvm_ios_latency_ns", "-5"),
        ("main", "tvm_ios_operator_ns", "1, 2.5"),
        ("tvm_ios_stage_1", "tvm_ios_stage", "first"),
        ("tvm_ios_stage_1", "tvm_ios_strategy", "parallel"),
    ],
)
def test_an_attribute_of_another_kind_is_named(partitioned, function, attribute, value):
    with pytest.raises(ModelError, match=f"{function} has .*; schedule the module again") as caught:
        read_schedule(changed(partitioned, function, **{attribute: value}))
    assert value.split(", ")[-1] in str(caught.value)


def test_a_stage_whose_kernels_changed_is_noticed(partitioned):
    fewer = changed(partitioned, "tvm_ios_stage_1", tvm_ios_operators="conv2d_0")
    with pytest.raises(ModelError, match="lists 1 operators but calls 3 kernels"):
        flatten(fewer)


def test_a_missing_attribute_is_noticed(partitioned):
    copy = tvm.IRModule(partitioned.functions, partitioned.type_definitions)
    variable = partitioned.get_global_var("tvm_ios_stage_1")
    old = partitioned[variable]
    bare = relay.Function(old.params, old.body, old.ret_type)
    copy[variable] = with_attributes(bare, {"tvm_ios_stage": 1})
    with pytest.raises(ModelError, match="lacks the attribute 'tvm_ios_"):
        flatten(copy)


def test_a_call_outside_the_stages_is_noticed(partitioned):
    copy = tvm.IRModule(partitioned.functions, partitioned.type_definitions)
    variable = partitioned.get_global_var("tvm_ios_stage_1")
    old = partitioned[variable]
    copy[variable] = relay.Function(old.params, old.body, old.ret_type)
    with pytest.raises(ModelError, match="tvm_ios_stage_1, which is no stage"):
        flatten(copy)
