from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tvm import relay

from tvm_ios.core.conversion import AS_IT_IS, Conversion
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.merge_rule import why_not_merge
from tvm_ios.core.precision.stored_type import StoredType
from tvm_ios.core.schedule import InterOpSchedule, Stage, Strategy
from tvm_ios.errors import ScheduleError
from tvm_ios.plan.placement import SliceView
from tvm_ios.relay.build import build
from tvm_ios.relay.extract import extract
from tvm_ios.relay.functions.quantised import fake_quantize
from tvm_ios.relay.merge import merge_stage_module
from tvm_ios.relay.prepare import prepare, with_low_precision
from tvm_ios.relay.rewrite import rewrite
from tvm_ios.relay.transforms.bfloat16 import low_values

CASES = {
    "1x1 and 3x3": [((1, 1), (0, 0)), ((3, 3), (1, 1))],
    "1x3 and 3x1": [((1, 3), (0, 1)), ((3, 1), (1, 0))],
    "1x7, 7x1 and 3x3": [((1, 7), (0, 3)), ((7, 1), (3, 0)), ((3, 3), (1, 1))],
    "5x5 and 1x1 twice": [((5, 5), (2, 2)), ((1, 1), (0, 0)), ((1, 1), (0, 0))],
    "even kernels off the middle": [((2, 2), (0, 0, 1, 1)), ((3, 3), (1, 1))],
}


def members_of(graph: OperatorGraph) -> tuple[int, ...]:
    return tuple(i for i, op in enumerate(graph.operators) if op.convolution is not None)


def merged_schedule(graph: OperatorGraph) -> InterOpSchedule:
    """All convolutions in one merged stage, everything else alone, in a legal order."""
    members = members_of(graph)
    before = [i for i in range(members[0]) if i not in members]
    after = [i for i in range(members[0], len(graph)) if i not in members]
    stages = [Stage(((i,),)) for i in before]
    stages.append(Stage(tuple((i,) for i in members), Strategy.MERGE))
    stages += [Stage(((i,),)) for i in after]
    return InterOpSchedule(
        graph_name=graph.name,
        graph_fingerprint=graph.fingerprint(),
        operator_names=tuple(operator.name for operator in graph.operators),
        stages=tuple(stages),
        scheduler="test",
    )


def parallel_convolutions(nets, kernels, *, batch=1, size=(8, 8), channels=16, **options):
    """Convolutions of one input, their outputs side by side."""
    data = relay.var("data", shape=(batch, channels, *size))
    outputs = [
        nets.conv(data, f"c{i}", 16 * (1 + i % 2), kernel, padding, in_channels=channels, **options)
        for i, (kernel, padding) in enumerate(kernels)
    ]
    return nets.finish(relay.Tuple(outputs), data)


def assert_merges_right(nets, module, params, *, opt_level=3, conversion=AS_IT_IS, atol=1e-4):
    with tvm.transform.PassContext(opt_level=opt_level):
        prepared = prepare(module, params, nets.target, conversion=conversion)
        extraction = extract(prepared.module)
        partitioned = rewrite(prepared.module, merged_schedule(extraction.graph))
        staged = build(partitioned, nets.target)
    data = nets.random_input(module)
    expected = nets.reference(module, params, data)
    actual = nets.run(staged.factory, data)
    for ours, theirs in zip(actual, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=atol)
    return staged


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "1x1 and 3x3",
        "1x7, 7x1 and 3x3",
        pytest.param("5x5 and 1x1 twice", marks=pytest.mark.full),
        "even kernels off the middle",
    ],
)
def test_blocked_convolutions(nets, name):
    module, params = parallel_convolutions(nets, CASES[name])
    staged = assert_merges_right(nets, module, params)
    assert any("c/OIHW" in op.convolution.layout for op in _convolutions(staged))
    views = [
        place.view
        for place, operator in zip(staged.placements, staged.operator_names, strict=True)
        if operator.endswith(".slice")
    ]
    assert len(views) == len(CASES[name])
    assert all(isinstance(view, SliceView) for view in views)
    assert min(view.byte_offset for view in views) == 0


def _convolutions(staged):
    return [op for op in staged.extraction.graph.operators if op.convolution is not None]


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", ["1x1 and 3x3", "even kernels off the middle"])
def test_plain_convolutions(nets, name):
    module, params = parallel_convolutions(nets, CASES[name])
    staged = assert_merges_right(nets, module, params, opt_level=2)
    assert all(op.convolution.layout.startswith("NCHW/OIHW") for op in _convolutions(staged))


@pytest.mark.parametrize(
    ("kernels", "nans"),
    [
        # All within the 3x3 window of the inf but the pixel itself, in each of 16 channels.
        ([((1, 1), (0, 0)), ((3, 3), (1, 1))], [16 * 8, 0]),
        # All of 8x8 pixels from 1 on that 7x7 reaches, but those that the member reads itself.
        ([((1, 7), (0, 3)), ((7, 1), (3, 0))], [16 * (49 - 7), 32 * (49 - 7)]),
        ([((3, 3), (1, 1)), ((3, 3), (1, 1))], [0, 0]),
    ],
)
@pytest.mark.slow
def test_zeros_around_a_kernel_make_nan_of_inf(nets, kernels, nans):
    """Kernels of one size are not padded, and keep what they had."""
    module, params = parallel_convolutions(nets, kernels, activation=None)
    prepared = prepare(module, params, nets.target)
    graph = extract(prepared.module).graph
    staged = build(rewrite(prepared.module, merged_schedule(graph)), nets.target)
    data = nets.random_input(module)
    data[0, 3, 4, 4] = np.inf
    expected = nets.reference(module, params, data)
    assert not any(np.isnan(output).any() for output in expected)
    actual = nets.run(staged.factory, data)
    assert [int(np.isnan(output).sum()) for output in actual] == nans
    for ours, theirs in zip(actual, expected, strict=True):
        there = ~np.isnan(ours)
        np.testing.assert_allclose(ours[there], theirs[there], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_batches_are_copied(nets):
    module, params = parallel_convolutions(nets, CASES["1x1 and 3x3"], batch=2)
    staged = assert_merges_right(nets, module, params)
    assert all(place.view is None for place in staged.placements)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["1x1 and 3x3", "even kernels off the middle"])
def test_channels_last(nets, name):
    module, params = parallel_convolutions(nets, CASES[name])
    conversion = Conversion(desired_layout="NHWC")
    staged = assert_merges_right(nets, module, params, conversion=conversion)
    assert all(op.convolution.layout.startswith("NHWC/HWIO") for op in _convolutions(staged))
    # Channels of a pixel lie together, so a slice is no piece of memory.
    assert not any(isinstance(place.view, SliceView) for place in staged.placements)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["NCHW", pytest.param("NHWC", marks=pytest.mark.full)])
def test_float16(nets, layout):
    module, params = parallel_convolutions(nets, CASES["1x1 and 3x3"])
    conversion = Conversion(desired_layout=layout, mixed_precision=True)
    staged = assert_merges_right(nets, module, params, conversion=conversion, atol=2e-2)
    (merged,) = _convolutions(staged)
    assert merged.convolution.layout.endswith("float16/float16/float32")


@pytest.mark.slow
@pytest.mark.parametrize("layout", [pytest.param("NCHW", marks=pytest.mark.full), "NHWC"])
def test_whole_numbers(nets, layout):
    read, written = (
        StoredType(dtype="uint8", scale=scale, zero_point=zero)
        for scale, zero in ((0.05, 120), (0.02, 99))
    )
    data = relay.var("data", shape=(1, 16, 8, 8))
    value = fake_quantize(data, read)
    outputs = []
    for number, (kernel, padding) in enumerate(CASES["1x1 and 3x3"]):
        shape = (16 * (1 + number), 16, *kernel)
        steps = np.random.default_rng(number).integers(-127, 127, shape, endpoint=True)
        steps[:, 0, 0, 0] = 127
        weight = relay.const((steps * (1e-3 + number * 1e-4)).astype("float32"))
        made = relay.nn.conv2d(
            value, weight, padding=padding, channels=shape[0], kernel_size=kernel
        )
        made = fake_quantize(relay.nn.relu(made), written)
        outputs.append(relay.nn.max_pool2d(made, (2, 2)))
    module = tvm.IRModule.from_expr(relay.Function([data], relay.Tuple(outputs)))
    module = relay.transform.InferType()(module)
    conversion = Conversion(desired_layout=layout)
    prepared = prepare(module, None, "llvm -mcpu=cascadelake", conversion=conversion)
    graph = prepared.extraction.graph
    merged = rewrite(prepared.module, merged_schedule(graph))
    values = nets.random_input(module)
    actual, expected = (
        nets.run(build(each, nets.target).factory, values) for each in (merged, prepared.module)
    )
    (convolution,) = [op for op in extract(merged).graph.operators if op.convolution is not None]
    assert "uint8/int8/float32" in convolution.convolution.layout
    for ours, theirs in zip(actual, expected, strict=True):
        assert np.abs(ours).max() > 0
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.slow
def test_strides(nets):
    module, params = parallel_convolutions(nets, CASES["1x1 and 3x3"], strides=(2, 2), size=(9, 7))
    assert_merges_right(nets, module, params)


@pytest.mark.slow
def test_dilation(nets):
    kernels = [((3, 3), (2, 2)), ((1, 1), (0, 0))]
    module, params = parallel_convolutions(nets, kernels, dilation=(2, 2))
    assert_merges_right(nets, module, params, opt_level=2)


@pytest.mark.slow
def test_without_bias_or_activation(nets):
    module, params = parallel_convolutions(nets, CASES["1x3 and 3x1"], bias=False, activation=None)
    assert_merges_right(nets, module, params)


@pytest.mark.slow
def test_a_clipped_activation(nets):
    module, params = parallel_convolutions(
        nets, CASES["1x3 and 3x1"], activation=lambda value: relay.clip(value, 0.0, 0.5)
    )
    assert_merges_right(nets, module, params)


@st.composite
def axes(draw, members):
    """Size, stride, and kernel and paddings of every member on one axis, mergeable."""
    size, stride = draw(st.integers(5, 9)), draw(st.integers(1, 3))
    kernel, before, after = (
        draw(st.integers(1, 4)),
        draw(st.integers(0, 2)),
        draw(st.integers(0, 2)),
    )
    outputs = (size + before + after - kernel) // stride + 1
    found = [(kernel, before, after)]
    for _ in range(members - 1):
        own = draw(st.integers(1, kernel))
        top = before - draw(st.integers(0, min(kernel - own, before)))
        least = (outputs - 1) * stride + own - size - top
        assume(least > -stride)
        found.append((own, top, max(0, least)))
    return size, stride, draw(st.permutations(found))


@st.composite
def mergeable(draw):
    """Geometries of two or three convolutions of one input that the rule allows to merge."""
    members = draw(st.integers(2, 3))
    (height, row_stride, rows), (width, column_stride, columns) = (
        draw(axes(members)),
        draw(axes(members)),
    )
    kernels = [((r[0], c[0]), (r[1], c[1], r[2], c[2])) for r, c in zip(rows, columns, strict=True)]
    return kernels, (row_stride, column_stride), (height, width)


@pytest.mark.slow(3)
@settings(max_examples=4)
@given(drawn=mergeable(), batch=st.integers(1, 2), layout=st.sampled_from(["NCHW", "NHWC"]))
def test_whatever_the_rule_allows_is_right(nets, drawn, batch, layout):
    kernels, strides, size = drawn
    module, params = parallel_convolutions(
        nets, kernels, strides=strides, size=size, channels=4, batch=batch
    )
    conversion = Conversion(desired_layout=layout)
    with tvm.transform.PassContext(opt_level=2):
        prepared = prepare(module, params, nets.target, conversion=conversion)
    graph = extract(prepared.module).graph
    records = [graph.operators[index].convolution for index in members_of(graph)]
    assert why_not_merge(records) is None
    assert_merges_right(nets, module, params, opt_level=2, conversion=conversion)


@pytest.mark.slow(1)
def test_a_stage_by_itself(nets):
    extraction = nets.extraction()
    members = members_of(extraction.graph)
    staged = build(merge_stage_module(extraction, members), nets.target)
    assert staged.operator_names == ("conv2d_0", *(f"strided_slice_{i}" for i in range(3)))
    operand = np.random.default_rng(0).uniform(-1, 1, (1, 2, 8, 8, 8)).astype("float32")
    shape = [int(e) for e in extraction.calls[members[0]].args[0].checked_type.shape]
    operand = operand.reshape(shape)
    outputs = nets.run(staged.factory, operand)
    for index, ours in zip(members, outputs, strict=True):
        call = extraction.calls[index]
        data = relay.var("data", shape=shape)
        alone = relay.Function([data], relay.Call(call.op, [data, *call.args[1:]]))
        expected = nets.reference(tvm.IRModule.from_expr(alone), None, operand)[0]
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)


def test_members_keep_the_order_they_are_given_in(nets):
    extraction = nets.extraction()
    main = merge_stage_module(extraction, (3, 2, 1))["main"]
    channels = [int(field.shape[1]) for field in main.ret_type.fields]
    forward = merge_stage_module(extraction, (1, 2, 3))["main"]
    assert channels == [int(field.shape[1]) for field in forward.ret_type.fields][::-1]


def test_the_merged_kernel_is_the_expected_one(nets):
    data = relay.var("data", shape=(1, 2, 4, 4))
    output = relay.Tuple(
        [
            nets.conv(data, "a", 3, (1, 1), (0, 0), in_channels=2, bias=False),
            nets.conv(data, "b", 4, (3, 3), (1, 1), in_channels=2, bias=False),
        ]
    )
    module, params = nets.finish(output, data)
    with tvm.transform.PassContext(opt_level=2):
        extraction = extract(prepare(module, params, nets.target).module)
    after = merge_stage_module(extraction, (0, 1))

    weight = np.zeros((7, 2, 3, 3), "float32")
    weight[:3, :, 1:2, 1:2] = params["a_weight"].numpy()
    weight[3:] = params["b_weight"].numpy()
    inner, kernel = relay.var("inner", shape=(1, 2, 4, 4)), relay.var("k", shape=weight.shape)
    body = relay.nn.conv2d(inner, kernel, padding=(1, 1, 1, 1), channels=7, kernel_size=(3, 3))
    convolution = nets.fused(relay.nn.relu(body), inner, kernel)
    operand = relay.var("operand", shape=(1, 2, 4, 4))
    merged = relay.Call(convolution, [operand, relay.const(weight)])
    pieces = []
    for begin, end in ((0, 3), (3, 7)):
        whole = relay.var("whole", shape=(1, 7, 4, 4))
        cut = relay.strided_slice(whole, begin=[begin], end=[end], strides=[1], axes=[1])
        pieces.append(relay.Call(nets.fused(cut, whole), [merged]))
    expected = tvm.IRModule.from_expr(relay.Function([operand], relay.Tuple(pieces)))
    tvm.ir.assert_structural_equal(after, relay.transform.InferType()(expected))


def test_a_grouped_convolution_is_refused(nets):
    data = relay.var("data", shape=(1, 16, 8, 8))
    output = relay.Tuple(
        [
            nets.conv(data, "a", 16, (3, 3), (1, 1), groups=2),
            nets.conv(data, "b", 16, (3, 3), (1, 1)),
        ]
    )
    module, params = nets.finish(output, data)
    with tvm.transform.PassContext(opt_level=2):
        extraction = extract(prepare(module, params, nets.target).module)
    with pytest.raises(ScheduleError, match="stage of conv2d_0, conv2d_1: .*in 2 groups"):
        merge_stage_module(extraction, (0, 1))


def test_biases_of_other_ranks_are_refused(nets):
    data = relay.var("data", shape=(1, 16, 8, 8))
    output = relay.Tuple(
        [
            nets.conv(data, name, 16, (3, 3), (1, 1), bias=False, activation=None)
            + relay.var(f"{name}_wide", shape=shape)
            for name, shape in (("a", (16, 1, 1)), ("b", (1, 16, 1, 1)))
        ]
    )
    module, params = nets.finish(output, data)
    with tvm.transform.PassContext(opt_level=2):
        extraction = extract(prepare(module, params, nets.target).module)
    with pytest.raises(ScheduleError, match="epilogue"):
        merge_stage_module(extraction, (0, 1))


def test_what_is_no_convolution_is_refused(nets):
    with pytest.raises(ScheduleError, match="'max_pool2d_0' is no convolution"):
        merge_stage_module(nets.extraction(), (4, 1))


def test_one_member_is_refused(nets):
    with pytest.raises(ScheduleError, match="needs two operators"):
        merge_stage_module(nets.extraction(), (1,))


def in_bfloat16_with_siblings(nets, batch, joined):
    """A network, prepared in float32 and in bfloat16, and two convolutions of one operand."""
    data = relay.var("data", shape=(batch, 16, 8, 8))
    shared = nets.conv(data, "c", 16, (3, 3), (1, 1))
    branches = [
        nets.conv(shared, f"c{i}", 16, *window) for i, window in enumerate(CASES["1x1 and 3x3"])
    ]
    if joined:
        branches = [relay.concatenate(branches, 1)]
    ends = [
        nets.conv(each, f"end{i}", 8, (1, 1), (0, 0), in_channels=32 if joined else 16)
        for i, each in enumerate(branches)
    ]
    module, params = nets.finish(relay.Tuple(ends), data)
    exact = prepare(module, params, nets.target)
    low = with_low_precision(exact, low_values(exact.extraction).most())
    convolutions = [operator.convolution for operator in exact.extraction.graph.operators]
    siblings = [i for i, each in enumerate(convolutions) if each and each.operand == "conv2d_0"]
    assert len(siblings) == 2
    assert why_not_merge([convolutions[each] for each in siblings]) is None
    return module, exact, low, siblings


@pytest.mark.slow(2)
@pytest.mark.parametrize(("batch", "joined"), [(1, False), (2, True)])
def test_convolutions_in_bfloat16(nets, batch, joined):
    module, _, low, members = in_bfloat16_with_siblings(nets, batch, joined)
    graph = low.extraction.graph
    stages = [Stage(((i,),)) for i in range(len(graph)) if i not in members]
    stages.insert(members[0], Stage(tuple((i,) for i in members), Strategy.MERGE))
    schedule = replace(merged_schedule(graph), stages=tuple(stages))
    staged = build(rewrite(low.module, schedule), nets.target)
    (merged,) = (
        call.op
        for call, names in zip(staged.extraction.calls, staged.members, strict=True)
        if len(names) == 2
    )
    types = [str(each.checked_type.dtype) for each in merged.params[:2]]
    assert [*types, str(merged.ret_type.dtype)] == ["bfloat16"] * 3
    source = nets.random_input(module)
    found = nets.run(staged.factory, source)
    alone = nets.run(build(low.module, nets.target).factory, source)
    for ours, wanted in zip(found, alone, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=2**-7 * abs(wanted).max())


@pytest.mark.slow(1)
def test_convolutions_of_unlike_types_in_memory_are_not_merged(nets):
    _, exact, low, members = in_bfloat16_with_siblings(nets, 1, joined=False)

    def refusal(changed):
        operators = with_low_precision(exact, changed).extraction.graph.operators
        return why_not_merge([operators[each].convolution for each in members])

    results, weights = (
        tuple(each for each in those if each != members[0])
        for those in (low.low.results, low.low.weights)
    )
    assert refusal(low.low) is None
    assert "epilogue" in refusal(replace(low.low, results=results))
    assert "layout" in refusal(replace(low.low, weights=weights))
