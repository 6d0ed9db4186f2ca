"""Forms of a model: what changes make of it computes the same, behind the same inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.stock import stock_executor
from tvm_ios.devices.traits import CPU, GPU
from tvm_ios.errors import OptionError
from tvm_ios.profile.build_candidates import BuildCandidate, all_candidates, changes_for
from tvm_ios.relay.context import tvm_pipeline
from tvm_ios.relay.dataflow import graph_order
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.prepare import prepare
from tvm_ios.runtime.libraries.known import cudnn_library, onednn_library

TARGET = resolve_target("llvm -mcpu=core-avx2 -opt-level=0")
LAYOUT, CONVOLVED, PADDING, ROWS = changes_for(CPU)


@pytest.fixture
def as_it_is(in_nhwc):
    mod, params = in_nhwc
    return BuildCandidate(mod=mod, params=params)


def output_of(candidate):
    with tvm_pipeline():
        library = relay.build(candidate.mod, TARGET, params=candidate.params)
    module = stock_executor(library)
    shape = module.get_input(0).shape
    module.run(data=np.random.default_rng(1).uniform(-1, 1, shape).astype("float32"))
    return module.get_output(0).numpy()


def test_a_gpu_has_nothing_to_change_and_padding_can_be_left_out():
    assert changes_for(GPU) == ()
    names = ["NCHW", "convolutions for transposed ones", "padded channels", "padded rows"]
    assert [change.name for change in changes_for(CPU)] == names
    assert [change.name for change in changes_for(CPU, pad_channels=False)] == names[:2]


def test_a_library_likes_a_layout_of_its_own():
    with_onednn = changes_for(CPU, libraries=(onednn_library(),))
    # In that layout, and in others: two questions, whose answers are kept under their names.
    convolved = [f"convolutions for transposed ones{where}" for where in (" in NHWC", "")]
    names = ["NCHW", "padded channels", "NHWC", *convolved, "padded rows", "image by image"]
    assert [change.name for change in with_onednn] == names
    assert changes_for(GPU, libraries=(cudnn_library(tf32=False),)) == ()


@pytest.mark.slow
def test_a_model_computes_the_same_in_the_layout_of_a_library(narrow):
    as_it_is = BuildCandidate(mod=narrow[0], params=narrow[1])
    change = changes_for(CPU, libraries=(onednn_library(),))[2]
    found = change.of(as_it_is, TARGET)
    assert found.changes[0].startswith("3 convolutions were laid out as NHWC")
    np.testing.assert_allclose(output_of(found), output_of(as_it_is), rtol=1e-4, atol=1e-5)


def test_a_layout_of_a_library_gives_up_padded_channels(narrow):
    as_it_is = BuildCandidate(mod=narrow[0], params=narrow[1])
    change = changes_for(CPU, libraries=(onednn_library(),))[2]
    padded = PADDING.of(as_it_is, TARGET)
    assert padded.before(PADDING.name) is as_it_is
    found, expected = change.of(padded, TARGET), change.of(as_it_is, TARGET)
    assert found.changes == expected.changes
    assert found.before(PADDING.name) is None
    tvm.ir.assert_structural_equal(found.mod, expected.mod)
    assert LAYOUT.of(padded, TARGET) is None


def test_transposed_convolutions_in_one_piece_are_written_anew_in_the_same_layout():
    shapes = {"data": (1, 16, 4, 4), "w": (16, 16, 4, 4)}
    data, weight = (relay.var(name, shape=shape) for name, shape in shapes.items())
    value = relay.nn.conv2d_transpose(
        data, weight, channels=16, kernel_size=(4, 4), strides=(2, 2), padding=(1, 1)
    )
    mod = tvm.IRModule.from_expr(relay.Function([data, weight], relay.nn.relu(value)))
    params = {"w": np.random.default_rng(1).uniform(-1, 1, shapes["w"]).astype("float32")}
    in_nhwc, within, convolved = changes_for(CPU, libraries=(onednn_library(),))[2:5]
    as_it_is = BuildCandidate(mod=mod, params=params)
    assert within.of(as_it_is, TARGET) is None
    whole = in_nhwc.of(as_it_is, TARGET)
    assert convolved.of(whole, TARGET) is None
    found = within.of(whole, TARGET)
    told = "1 transposed convolutions were written as convolutions"
    laid_out = "1 convolutions were laid out as NHWC; inputs and outputs keep their layout"
    assert found.changes == (f"{told}; {laid_out}",)
    assert found.before("NHWC") is None
    assert found.before(within.name) is as_it_is
    calls = [each for each in graph_order(found.mod["main"].body) if isinstance(each, relay.Call)]
    convolutions = [each for each in calls if each.op.name == "nn.conv2d"]
    assert [each.attrs.data_layout for each in convolutions] == ["NHWC"]
    np.testing.assert_allclose(output_of(found), output_of(as_it_is), rtol=1e-4, atol=1e-5)


def test_those_that_are_not_written_anew_stay_in_one_piece():
    shapes = {"data": (1, 16, 4, 4), "w": (16, 16, 2, 2), "v": (16, 16, 3, 3)}
    data, weight, other = (relay.var(name, shape=shape) for name, shape in shapes.items())
    value = relay.nn.conv2d_transpose(data, weight, channels=16, kernel_size=(2, 2), strides=(2, 2))
    value = relay.nn.conv2d_transpose(value, other, channels=16, kernel_size=(3, 3))
    mod = tvm.IRModule.from_expr(relay.Function([data, weight, other], value))
    params = {name: np.ones(shapes[name], "float32") for name in ("w", "v")}
    in_nhwc, within = changes_for(CPU, libraries=(onednn_library(),))[2:4]
    found = within.of(in_nhwc.of(BuildCandidate(mod=mod, params=params), TARGET), TARGET)
    assert found.changes[0].startswith("1 transposed convolutions were written as convolutions")
    assert found.changes[0].endswith("1 transposed convolutions were kept in one piece")


def test_images_are_computed_one_by_one_in_the_layout_of_a_library_only(narrow):
    mod, params = narrow
    *_, in_nhwc, _, _, _, apart = changes_for(CPU, libraries=(onednn_library(),))
    one = BuildCandidate(mod=mod, params=params)
    data = relay.var("data", shape=(2, *mod["main"].params[0].type_annotation.concrete_shape[1:]))
    rest = mod["main"].params[1:]
    body = relay.bind(mod["main"].body, {mod["main"].params[0]: data})
    two = BuildCandidate(
        mod=tvm.IRModule.from_expr(relay.Function([data, *rest], body)), params=params
    )
    assert apart.of(two, TARGET) is None
    assert apart.of(in_nhwc.of(one, TARGET), TARGET) is None
    found = apart.of(in_nhwc.of(two, TARGET), TARGET)
    assert found.changes[-1].endswith("for one of 2 parts of the batch after the other")


def test_convolutions_are_laid_out_behind_the_same_inputs_and_outputs(as_it_is):
    changed = LAYOUT.of(as_it_is, TARGET)
    told = "3 convolutions were laid out as NCHW; inputs and outputs keep their layout"
    assert (changed.changes, changed.params) == ((told,), None)
    typed = relay.transform.InferType()(as_it_is.mod)["main"]
    main = changed.mod["main"]
    assert [parameter.name_hint for parameter in main.params] == ["data"]
    tvm.ir.assert_structural_equal(main.params[0].checked_type, typed.params[0].checked_type)
    tvm.ir.assert_structural_equal(main.ret_type or main.body.checked_type, typed.body.checked_type)
    assert LAYOUT.of(changed, TARGET) is None


def test_a_prepared_model_stays_in_its_layout(as_it_is):
    prepared = prepare(as_it_is.mod, as_it_is.params, TARGET)
    assert LAYOUT.of(BuildCandidate(mod=prepared.module, params=None), TARGET) is None


@pytest.mark.slow
def test_each_form_of_a_model_computes_the_same(as_it_is):
    forms = list(all_candidates(as_it_is, (LAYOUT, PADDING), TARGET))
    laid_out, padded = forms[1:]
    assert padded.changes[0] == laid_out.changes[0]
    assert padded.changes[1].startswith("the output channels of 2 operators were padded")
    expected = output_of(as_it_is)
    for form in (laid_out, padded):
        np.testing.assert_allclose(output_of(form), expected, rtol=1e-4, atol=1e-5)


def test_what_tvm_cannot_change_is_no_form(as_it_is):
    def refuse(*_):
        raise OptionError("no")

    refused = replace(LAYOUT, rewrite=refuse)
    assert list(all_candidates(as_it_is, (refused, PADDING), TARGET)) == [as_it_is]


def test_tvm_refuses_a_layout_that_a_rule_of_its_own_does_not_know(as_it_is, monkeypatch):
    def unknown(*_):
        raise ValueError("Layout NCHW is not yet supported.")

    operator = relay.op.get("nn.conv2d")
    before = operator.get_attr("FTVMConvertOpLayout")
    operator.reset_attr("FTVMConvertOpLayout")
    operator.set_attr("FTVMConvertOpLayout", unknown)
    try:
        with pytest.raises(OptionError, match="cannot convert this model.*not yet supported"):
            LAYOUT.of(as_it_is, TARGET)
    finally:
        operator.reset_attr("FTVMConvertOpLayout")
        operator.set_attr("FTVMConvertOpLayout", before)
