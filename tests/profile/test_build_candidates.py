"""Forms of a model: what changes make of it computes the same, behind the same inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.stock import stock_executor
from tvm_ios.core.image_layouts import BLOCKS, CHANNELS_LAST, ImageForm
from tvm_ios.devices.traits import CPU, GPU
from tvm_ios.errors import OptionError
from tvm_ios.profile.build_candidates import (
    BuildCandidate,
    ModelChange,
    all_candidates,
    changes_for,
)
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.prepare import prepare
from tvm_ios.runtime.libraries.cudnn.provider import CudnnLibrary
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary

TARGET = resolve_target("llvm -mcpu=core-avx2 -opt-level=0")
LAYOUT, CONVOLVED, PADDING, ROWS = changes_for(CPU)


@pytest.fixture
def as_it_is(in_nhwc):
    mod, params = in_nhwc
    return BuildCandidate(mod=mod, params=params)


@pytest.fixture
def output_of(reference_build):
    def output(candidate):
        library = reference_build(candidate.mod, candidate.params, TARGET)
        module = stock_executor(library)
        shape = module.get_input(0).shape
        module.run(data=np.random.default_rng(1).uniform(-1, 1, shape).astype("float32"))
        return module.get_output(0).numpy()

    return output


def test_a_gpu_has_nothing_to_change_and_padding_can_be_left_out():
    assert changes_for(GPU) == ()
    names = ["NCHW", "convolutions for transposed ones", "padded channels", "padded rows"]
    assert [change.name for change in changes_for(CPU)] == names
    assert [change.name for change in changes_for(CPU, pad_channels=False)] == names[:2]


def liked(form: ImageForm | None = None) -> tuple[ModelChange, ...]:
    """Changes with oneDNN, whose form of images is this one."""
    return changes_for(CPU, libraries=(OnednnLibrary(),), choose_form=lambda *_: form)


def test_prices_choose_the_form_where_a_library_likes_a_layout():
    assert [(change.name, change.priced) for change in liked()] == [("layouts by prices", True)]
    assert changes_for(CPU, libraries=(OnednnLibrary(),)) == ()
    assert changes_for(GPU, libraries=(CudnnLibrary(tf32=False),)) == ()


def test_without_races_of_forms_only_layouts_change():
    assert [change.name for change in changes_for(CPU, race_forms=False)] == ["NCHW"]
    onednn = (OnednnLibrary(),)
    priced = changes_for(CPU, race_forms=False, libraries=onednn, choose_form=lambda *_: None)
    assert [change.name for change in priced] == ["layouts by prices"]


@pytest.mark.slow
def test_a_model_computes_the_same_in_the_form_that_was_chosen(narrow, output_of):
    as_it_is = BuildCandidate(mod=narrow[0], params=narrow[1])
    form = ImageForm(layouts=(CHANNELS_LAST, BLOCKS, CHANNELS_LAST))
    found = liked(form)[0].of(as_it_is, TARGET)
    assert found.form == form
    assert found.changes[0].startswith("2 convolutions have channels last and 1 blocks")
    np.testing.assert_allclose(output_of(found), output_of(as_it_is), rtol=1e-4, atol=1e-5)
    assert liked()[0].of(as_it_is, TARGET) is None


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
    candidate = BuildCandidate(mod=prepared.module, params=None)
    assert LAYOUT.of(candidate, TARGET) is None
    assert liked(ImageForm(layouts=()))[0].of(candidate, TARGET) is None


@pytest.mark.slow
def test_each_form_of_a_model_computes_the_same(as_it_is, output_of):
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
