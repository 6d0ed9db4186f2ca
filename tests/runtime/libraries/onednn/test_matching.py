"""Fused functions that oneDNN computes, and those that only look like it; calls as data."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from tvm_ios.core.fused_function import FusedFunction, PrimitiveCall, TensorType
from tvm_ios.runtime.libraries.onednn.call import (
    OnednnCall,
    OnednnCut,
    Primitive,
    Step,
    StepKind,
    Window,
)
from tvm_ios.runtime.libraries.onednn.matching.matched_call import match_call
from tvm_ios.support.stored_value import UnreadableValueError, parse_json


def floats(*shape: int) -> TensorType:
    return TensorType(shape, "float32")


def call(operator: str, operands, result, **attributes) -> PrimitiveCall:
    return PrimitiveCall(
        operator=operator,
        operands=tuple(operands),
        result=result,
        attributes=tuple(attributes.items()),
    )


def blocked(data=16, out=16, weight=None, **attributes) -> PrimitiveCall:
    return call(
        "nn.contrib_conv2d_NCHWc",
        (0, 1),
        floats(1, 64 // out, 8, 8, out),
        **{
            "strides": (1, 1),
            "padding": (1, 1, 1, 1),
            "dilation": (1, 1),
            "groups": 1,
            "data_layout": f"NCHW{data}c",
            "kernel_layout": weight or f"OIHW{data}i{out}o",
            "out_layout": f"NCHW{out}c",
        }
        | attributes,
    )


def function(first: PrimitiveCall, *steps: PrimitiveCall, others=(), data=16, out=16):
    images = floats(1, 48 // data, 8, 8, data)
    weights = floats(64 // out, 48 // data, 3, 3, data, out)
    return FusedFunction(parameters=(images, weights, *others), calls=(first, *steps))


RESULT = floats(1, 4, 8, 8, 16)


def clip(low: float, high: float) -> PrimitiveCall:
    return call("clip", (2,), RESULT, a_min=low, a_max=high)


def constant(value: float) -> PrimitiveCall:
    return call("constant", (), TensorType((), "float32"), value=value)


def test_blocks_are_the_formats_of_the_library():
    found = match_call(function(blocked()))
    assert (found.data.format, found.weight.format) == ("aBcd16b", "ABcd16b16a")
    assert (found.data.extents, found.weight.extents) == ((1, 48, 8, 8), (64, 48, 3, 3))
    assert found.result.extents == (1, 64, 8, 8)
    assert match_call(function(blocked(8, 8), data=8, out=8)).weight.format == "ABcd8b8a"
    # All channels in one block are NHWC, and the inputs of the weights one after the other.
    whole = match_call(function(blocked(48, 16), data=48))
    assert (whole.data.format, whole.weight.format) == ("acdb", "Acdb16a")


@pytest.mark.parametrize(
    "other",
    [
        function(blocked(24, 16), data=24),
        function(blocked(16, 32), out=32),
        function(blocked(8, 16), data=8),
        function(blocked(auto_scheduler_rewritten_layout="x")),
        function(blocked(weight="OIHW4i16o4i")),
        function(blocked(), call("exp", (2,), RESULT)),
        function(blocked(), call("multiply", (2, 2), RESULT)),
        function(blocked(), call("subtract", (2, 2), RESULT)),
        function(blocked(), call("subtract", (2, 3), RESULT), others=[RESULT]),
        function(blocked(), call("add", (3, 2), RESULT), others=[floats(1, 1, 8, 8, 16)]),
        # No hard swish: gates that rise without end.
        function(blocked(), clip(0.0, math.inf), call("multiply", (2, 3), RESULT)),
        function(
            blocked(),
            clip(-1.0, 3.4028234663852886e38),
            constant(1.0),
            call("add", (3, 4), RESULT),
            call("multiply", (2, 5), RESULT),
        ),
    ],
)
def test_what_only_looks_like_it_stays_with_tvm(other):
    assert match_call(other) is None


def test_a_value_added_to_itself_is_doubled():
    found = match_call(function(blocked(), call("add", (2, 2), RESULT)))
    [step] = found.steps
    assert (step.kind, step.alpha, step.beta) == (StepKind.LINEAR, 2.0, 0.0)


def test_an_addend_is_kept_however_small_it_is():
    found = match_call(function(blocked(), constant(1e-10), call("add", (2, 3), RESULT)))
    assert [(step.kind, step.beta) for step in found.steps] == [(StepKind.LINEAR, 1e-10)]


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [(0.0, math.inf, StepKind.RELU), (-math.inf, 6.0, StepKind.CLIP)],
)
def test_a_clip_of_one_side_is_stored_without_infinite_numbers(low, high, kind):
    found = match_call(function(blocked(), clip(low, high)))
    assert [step.kind for step in found.steps] == [kind]
    assert OnednnCall.from_data(parse_json(json.dumps(found.to_data()), "the call")) == found


CUT = {"batches": 1, "channels": 2, "rows": 1, "device": "a processor", "version": "3.2.0"}


def test_other_types_stay_with_tvm():
    whole = function(blocked())
    halves = [replace(parameter, dtype="float16") for parameter in whole.parameters]
    assert match_call(replace(whole, parameters=tuple(halves))) is None


def test_a_bias_a_residual_and_a_relu_go_along():
    bias = floats(1, 4, 1, 1, 16)
    found = match_call(
        function(
            blocked(),
            call("add", (4, 2), RESULT),
            call("nn.relu", (5,), RESULT),
            call("add", (3, 6), RESULT),
            others=[bias, RESULT],
        )
    )
    assert (found.bias.extents, found.bias.position) == ((64,), 2)
    assert [step.kind for step in found.steps] == [StepKind.RELU, StepKind.ADD]
    assert found.steps[1].operand.format == "aBcd16b"
    tensors = [floats(1, 3, 8, 8, 16), floats(4, 3, 3, 3, 16, 16), bias, RESULT]
    assert found.fits(tensors, [RESULT])
    assert not found.fits(tensors[:3], [RESULT])
    assert not found.fits(tensors, [floats(1, 4, 8, 9, 16)])
    for each in (found, replace(found, cut=OnednnCut(**CUT))):
        text = json.dumps(each.to_data())
        assert OnednnCall.from_data(parse_json(text, "the call")) == each
    text = json.dumps(found.to_data()).replace("ABcd16b16a", "ABcd5b5a")
    with pytest.raises(UnreadableValueError, match="weight.format is 'ABcd5b5a', which is no form"):
        OnednnCall.from_data(parse_json(text, "the call"))


def test_softmax_is_read_along_the_last_axis_and_stored():
    def softmax(axis, *shape):
        first = call("nn.softmax", (0,), floats(*shape), axis=axis)
        return match_call(FusedFunction(parameters=(floats(*shape),), calls=(first,)))

    found = softmax(-1, 12, 7, 40)
    assert (found.primitive, found.data.format) == (Primitive.SOFTMAX, "abc")
    assert found == softmax(2, 12, 7, 40)
    text = json.dumps(found.to_data())
    assert OnednnCall.from_data(parse_json(text, "the call")) == found
    assert softmax(1, 12, 7, 40) is None
    assert softmax(-1, 40) is None


def test_a_convolution_of_three_dimensions_is_read_and_stored():
    first = call(
        "nn.conv3d",
        (0, 1),
        floats(1, 64, 4, 5, 8),
        strides=(1, 2, 1),
        padding=(1, 0, 2, 1, 1, 0),
        dilation=(1, 1, 1),
        groups=1,
        data_layout="NCDHW",
        kernel_layout="OIDHW",
        out_layout="",
    )
    residual = floats(1, 64, 4, 5, 8)
    whole = FusedFunction(
        parameters=(
            floats(1, 48, 4, 10, 8),
            floats(64, 48, 3, 3, 3),
            floats(64, 1, 1, 1),
            residual,
        ),
        calls=(
            first,
            call("add", (4, 2), residual),
            call("add", (5, 3), residual),
            call("nn.relu", (6,), residual),
        ),
    )
    found = match_call(whole)
    assert found.window == Window(strides=(1, 2, 1), padding=(1, 0, 2, 1, 1, 0), dilation=(1, 1, 1))
    assert (found.window.begins, found.window.ends) == ((1, 0, 2), (1, 1, 0))
    assert [tensor.format for tensor in found.inputs] == ["abcde", "abcde", "a", "abcde"]
    assert not found.grouped
    assert [step.kind for step in found.steps] == [StepKind.ADD, StepKind.RELU]
    data = found.to_data()
    assert OnednnCall.from_data(parse_json(json.dumps(data), "the call")) == found
    data["window"]["strides"] = (1, 2)
    with pytest.raises(UnreadableValueError, match=r"strides is \[1, 2\]; .*3 entries"):
        OnednnCall.from_data(parse_json(json.dumps(data), "the call"))


def bent(threshold=0.0, slopes=(1, 4, 1, 1, 16), compared="less", kept=3) -> FusedFunction:
    """A convolution, and a product with slopes where its result is below a threshold."""
    return function(
        blocked(),
        constant(threshold),
        call(compared, (3, 4), TensorType(RESULT.shape, "bool")),
        call("multiply", (3, 2), RESULT),
        call("where", (5, 6, kept), RESULT),
        others=(floats(*slopes),),
    )


@pytest.mark.parametrize("slopes", [(1, 4, 1, 1, 16), (1,)])
def test_slopes_below_zero_are_a_step(slopes):
    found = match_call(bent(slopes=slopes))
    assert [step.kind for step in found.steps] == [StepKind.PRELU]
    assert found.steps[0].operand.position == 2
    assert OnednnCall.from_data(parse_json(json.dumps(found.to_data()), "a call")) == found


@pytest.mark.parametrize(
    "other",
    [
        bent(threshold=0.5),
        bent(compared="greater"),
        bent(slopes=RESULT.shape),  # oneDNN has one a channel
        bent(kept=6),
        replace(bent(), calls=(*bent().calls, call("add", (7, 6), RESULT))),
    ],
    ids=["threshold", "greater", "slopes", "kept", "read again"],
)
def test_what_is_bent_otherwise_stays_with_tvm(other):
    assert match_call(other) is None


def test_a_value_that_something_else_reads_too_is_no_step():
    twice = function(blocked(), call("nn.relu", (2,), RESULT), call("add", (2, 3), RESULT))
    assert match_call(twice) is None


def pooled(operator="nn.max_pool2d", shape=(1, 3, 9, 9, 16), result=(1, 3, 4, 4, 16), **attributes):
    wholes = {"pool_size": (3, 3), "strides": (2, 2), "padding": (0,), "dilation": (1, 1)}
    layout = {"layout": "NCHW16c" if len(shape) == 5 else "NCHW", "out_layout": ""}
    first = call(operator, (0,), floats(*result), **wholes | layout | attributes)
    return FusedFunction(parameters=(floats(*shape),), calls=(first,))


def followed(first: FusedFunction, operator: str, *shape: int, **attributes) -> FusedFunction:
    """A function whose only call is followed by one that takes another parameter."""
    (one,) = first.calls
    after = call(operator, (2, 1), one.result, **attributes)
    return FusedFunction(parameters=(*first.parameters, floats(*shape)), calls=(one, after))


PLAIN = (1, 64, 14, 14)
SAME = {"shape": PLAIN, "result": PLAIN, "strides": (1, 1), "padding": (1, 1)}
ROWS = {"layout": "NHWC", "shape": (1, 14, 14, 64), "result": (1, 14, 14, 64)}


@pytest.mark.parametrize(
    ("function", "computed"),
    [
        (followed(pooled("nn.avg_pool2d", **SAME), "subtract", *PLAIN), False),
        (followed(pooled("nn.max_pool2d", **SAME), "add", *PLAIN), False),
        (followed(pooled("nn.max_pool2d", **SAME), "nn.prelu", 64, axis=1), False),
        (followed(pooled("nn.max_pool2d", **SAME), "add", 1, 64, 1, 1), True),
        (followed(pooled("nn.avg_pool2d", **SAME | ROWS), "subtract", 1, 14, 14, 64), True),
        (followed(pooled(), "add", 1, 3, 4, 4, 16), True),
    ],
    ids=["average, whole", "max, whole", "slopes", "one a channel", "NHWC, whole", "blocks, whole"],
)
def test_steps_of_poolings_are_taken_where_they_are_done_right(function, computed):
    assert (match_call(function) is not None) == computed


def test_a_stored_pooling_whose_steps_are_got_wrong_is_refused():
    found = match_call(pooled("nn.avg_pool2d", **SAME))
    step = Step(kind=StepKind.SUBTRACT, operand=replace(found.result, position=1))
    text = json.dumps(replace(found, steps=(step,)).to_data())
    with pytest.raises(UnreadableValueError, match="average .*gets wrong; compile the model again"):
        OnednnCall.from_data(parse_json(text, "the call"))


def test_a_pooling_has_no_weights_and_is_stored_with_its_kernel():
    found = match_call(pooled())
    assert (found.primitive, found.weight) == (Primitive.MAX_POOLING, None)
    assert found.inputs == (found.data,)
    assert found.window == Window(
        strides=(2, 2), padding=(0, 0, 0, 0), dilation=(1, 1), pooled=(3, 3)
    )
    assert found.as_text() == (
        "max pooling 1x48x9x9:aBcd16b = 1x48x4x4:aBcd16b "
        "kernel=3x3 strides=2x2 padding=0x0x0x0 dilation=1x1"
    )
    assert OnednnCall.from_data(parse_json(json.dumps(found.to_data()), "the call")) == found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"window": {"pooled": [0, 3]}},
            r"call.window.pooled is \[0, 3\]; expected 2 entries of 1",
        ),
        ({"window": {"padding": [0]}}, r"call.window.padding is \[0\]; expected 4 entries"),
        ({"result": {"shape": [7]}}, r"call.result has shape \(7,\) and extents .* differ in size"),
        ({"cut": CUT | {"rows": 0}}, "call.cut is 1x2x0, which is no number of parts"),
        ({"cut": CUT, "window": {}, "other": 1}, "unknown field 'other'"),
    ],
)
def test_a_stored_call_that_cannot_be_is_refused(change, message):
    data = match_call(pooled()).to_data()
    for name, value in change.items():
        data[name] = data[name] | value if isinstance(data.get(name), dict) else value
    with pytest.raises(UnreadableValueError, match=message):
        OnednnCall.from_data(parse_json(json.dumps(data), "the call"))


def test_what_sizes_rounded_up_need_is_padding_below_and_right():
    rounded = pooled(result=(1, 3, 5, 5, 16), strides=(2, 2), pool_size=(2, 2), ceil_mode=True)
    assert match_call(rounded).window.padding == (0, 0, 1, 1)


@pytest.mark.parametrize(
    "other",
    [
        pooled("nn.avg_pool2d", count_include_pad=True, ceil_mode=True),
        pooled("nn.adaptive_avg_pool2d", output_size=(4, 4)),
        pooled("nn.global_max_pool2d", result=(1, 3, 1, 1, 16)),
        pooled(dilation=(2, 2), strides=(1, 1), result=(1, 3, 5, 5, 16)),
        pooled(padding=(3, 3), result=(1, 3, 7, 7, 16)),  # a place that sees padding only
        pooled(layout="NCHW24c", shape=(1, 2, 9, 9, 24), result=(1, 2, 4, 4, 24)),
    ],
)
def test_other_poolings_stay_with_tvm(other):
    assert match_call(other) is None


def matmul(left, right, result) -> OnednnCall | None:
    """The product of Relax with one value a column added, where oneDNN computes it."""
    row = floats(result[-1])
    first = call("matmul", (0, 1), floats(*result))
    calls = (first, call("add", (3, 2), floats(*result)), call("nn.gelu", (4,), floats(*result)))
    return match_call(FusedFunction(parameters=(floats(*left), floats(*right), row), calls=calls))


def test_rows_of_any_tensor_are_rows_of_one_matrix():
    made = matmul((2, 5, 3), (3, 4), (2, 5, 4))
    assert (made.data.shape, made.data.extents) == ((2, 5, 3), (10, 3))
    assert (made.weight.extents, made.result.extents) == ((3, 4), (10, 4))
    assert made.bias.extents == (1, 4)
    assert [step.kind for step in made.steps] == [StepKind.GELU]
    assert OnednnCall.from_data(parse_json(json.dumps(made.to_data()), "the call")) == made


def test_equally_many_matrices_are_multiplied_pair_by_pair():
    made = matmul((2, 3, 5, 7), (2, 3, 7, 4), (2, 3, 5, 4))
    assert [each.extents for each in (made.data, made.weight, made.result)] == [
        (6, 5, 7),
        (6, 7, 4),
        (6, 5, 4),
    ]


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ((2, 5, 7), (1, 7, 4), (2, 5, 4)),
        ((5, 7), (2, 7, 4), (2, 5, 4)),
        ((7,), (7, 4), (4,)),
        ((5, 7), (7,), (5,)),
    ],
)
def test_products_that_broadcast_or_have_vectors_stay_with_tvm(left, right, result):
    assert matmul(left, right, result) is None
