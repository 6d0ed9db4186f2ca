"""Parts of calls: boxes that cover the result once, begin where they should, and need enough."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tvm_ios.runtime.libraries.onednn.call import OnednnCall, Primitive, Step, StepKind, Window
from tvm_ios.runtime.libraries.onednn.cuts import candidates, cut_call, whole_call
from tvm_ios.runtime.libraries.onednn.tensors import OnednnTensor


def tensor(extents, format_, position=None, shape=None) -> OnednnTensor:
    return OnednnTensor(position=position, shape=shape or extents, extents=extents, format=format_)


def convolution(images=1, inputs=32, outputs=64, size=10, kernel=3, stride=1) -> OnednnCall:
    out = (size + 2 - kernel) // stride + 1
    extents = (images, outputs, out, out)
    return OnednnCall(
        primitive=Primitive.CONVOLUTION,
        data=tensor((images, inputs, size, size), "aBcd16b", 0),
        weight=tensor((outputs, inputs, kernel, kernel), "ABcd16b16a", 1),
        bias=tensor((outputs,), "a", 2),
        result=tensor(extents, "aBcd16b"),
        window=Window(strides=(stride, stride), padding=(1, 1, 1, 1), dilation=(1, 1)),
        steps=(Step(kind=StepKind.ADD, operand=tensor(extents, "aBcd16b", 3)),),
    )


def test_channels_are_cut_in_whole_blocks():
    call = convolution(outputs=80)
    parts = cut_call(call, (1, 2, 1))
    assert [part.call.result.extents[1] for part in parts] == [32, 48]
    assert [part.call.weight.extents[0] for part in parts] == [32, 48]
    line, kernel = 10 * 10 * 4, 32 * 9 * 4
    assert parts[0].offsets == (0, 0, 0, 0, 0)
    assert parts[1].offsets == (0, 32 * kernel, 32 * 4, 32 * line, 32 * line)
    assert cut_call(call, (1, 6, 1)) is None  # five blocks
    assert whole_call(call).offsets == (0, 0, 0, 0, 0)


def test_images_are_cut_and_channels_of_one_image_too():
    call = convolution(images=3)
    assert cut_call(call, (1, 2, 1)) is None  # channels of three images lie apart
    parts = cut_call(call, (3, 2, 1))
    assert len(parts) == 6
    image = 64 * 10 * 10 * 4
    assert [part.offsets[-1] for part in parts] == [
        image * each + half for each in range(3) for half in (0, image // 2)
    ]
    assert cut_call(call, (2, 1, 1))[0].call.data.extents[0] == 1


def pixel_wise(**attributes) -> OnednnCall:
    call = convolution(size=7, kernel=1)
    data, result = (tensor((1, each, 7, 7), "acdb", place) for each, place in ((32, 0), (64, None)))
    window = replace(call.window, padding=(0,) * 4)
    made = replace(call, data=data, result=result, window=window, steps=())
    return replace(made, **attributes)


def test_pixels_are_cut_anywhere_where_each_is_computed_by_itself():
    operands = [tensor((1, 64, 7, 7), "acdb", 3), tensor((1, 64, 1, 1), "abcd", 4)]
    steps = tuple(Step(kind=StepKind.ADD, operand=each) for each in operands)
    first, second = cut_call(pixel_wise(steps=steps), (1, 1, 2))
    assert first.call.result.extents == (1, 64, 24, 1)
    assert second.call.data.extents == (1, 32, 25, 1)
    assert second.offsets == (24 * 32 * 4, 0, 0, 24 * 64 * 4, 0, 24 * 64 * 4)
    assert whole_call(pixel_wise()).call.result.extents == (1, 64, 7, 7)


@pytest.mark.parametrize(
    "attributes",
    [
        {"steps": (Step(kind=StepKind.ADD, operand=tensor((1, 64, 7, 7), "abcd", 3)),)},
        {"window": Window(strides=(1, 1), padding=(0, 1, 0, 1), dilation=(1, 1))},
        {"weight": tensor((4, 16, 8, 1, 1), "abcde", 1)},
    ],
)
def test_rows_are_cut_where_pixels_lie_otherwise_or_read_others(attributes):
    parts = cut_call(pixel_wise(**attributes), (1, 1, 2))
    assert parts is None or [part.call.result.extents[2] for part in parts] == [3, 4]


def test_rows_are_cut_where_the_channels_of_a_row_lie_together():
    assert cut_call(convolution(), (1, 1, 2)) is None
    call = convolution(stride=2, size=11)
    assert call.result.extents[2] == 6
    nhwc = replace(
        call,
        data=replace(call.data, format="acdb"),
        result=replace(call.result, format="acdb"),
        steps=(),
    )
    top, bottom = cut_call(nhwc, (1, 1, 2))
    assert (top.call.data.extents[2], bottom.call.data.extents[2]) == (6, 6)
    assert top.call.window.padding == (1, 1, 0, 1)
    assert bottom.call.window.padding == (0, 1, 1, 1)
    assert bottom.offsets[0] == 5 * 11 * 32 * 4
    assert bottom.offsets[-1] == 3 * 6 * 64 * 4
    _, last = cut_call(nhwc, (1, 2, 1))
    assert (last.call.weight.extents[0], last.call.result.extents[1]) == (32, 32)
    assert (last.offsets[0], last.offsets[-1]) == (0, 32 * 4)
    # All channels of a pixel lie between one of these and the next.
    assert last.strides == (None, None, None, (6 * 6 * 64, 1, 6 * 64, 64))


def test_the_depth_is_cut_where_the_channels_of_a_frame_lie_together():
    extents, cut = (1, 64, 6, 10, 10), (1, 1, 2)
    plain = OnednnCall(
        primitive=Primitive.CONVOLUTION,
        data=tensor((1, 32, 11, 10, 10), "abcde", 0),
        weight=tensor((64, 32, 3, 3, 3), "abcde", 1),
        bias=tensor((64,), "a", 2),
        result=tensor(extents, "abcde"),
        window=Window(strides=(2, 1, 1), padding=(1,) * 6, dilation=(1, 1, 1)),
    )
    assert not plain.grouped
    assert cut_call(plain, cut) is None
    _, second = cut_call(plain, (1, 2, 1))
    assert second.offsets == (0, 32 * 32 * 27 * 4, 32 * 4, 32 * 600 * 4)
    last = replace(
        plain,
        data=replace(plain.data, format="acdeb"),
        result=replace(plain.result, format="acdeb"),
    )
    front, back = cut_call(last, cut)
    assert (front.call.data.extents[2], back.call.data.extents[2]) == (6, 6)
    assert front.call.window.padding == (1, 1, 1, 0, 1, 1)
    assert back.call.window.padding == (0, 1, 1, 1, 1, 1)
    assert back.offsets == (5 * 100 * 32 * 4, 0, 0, 3 * 100 * 64 * 4)


def test_groups_go_with_their_channels():
    call = convolution(inputs=64)
    depthwise = replace(call, weight=tensor((64, 1, 1, 3, 3), "Abcde16a", 1), bias=None, steps=())
    _, second = cut_call(depthwise, (1, 2, 1))
    assert second.call.data.extents[1] == second.call.weight.extents[0] == 32
    assert second.offsets == (32 * 400, 32 * 9 * 4, 32 * 400)


def test_products_are_cut_by_rows_matrices_and_columns():
    product = OnednnCall(
        primitive=Primitive.PRODUCT,
        data=tensor((8, 32), "ab", 0),
        weight=tensor((32, 64), "ba", 1),
        bias=tensor((1, 64), "ab", 2),
        result=tensor((8, 64), "ab"),
    )
    assert candidates(product, 2) == ((1, 1, 1), (2, 1, 1), (1, 2, 1), (4, 1, 1), (1, 4, 1))
    _, rows = cut_call(product, (2, 1, 1))
    assert (rows.call.data.extents, rows.call.weight.extents) == ((4, 32), (32, 64))
    assert rows.strides == (None,) * 4
    _, columns = cut_call(product, (1, 2, 1))
    assert (columns.call.weight.extents, columns.call.result.extents) == ((32, 32), (8, 32))
    assert columns.offsets == (0, 32 * 32 * 4, 32 * 4, 32 * 4)
    assert columns.strides == (None, None, None, (64, 1))  # rows of the result are 64 wide
    one = replace(product, data=tensor((1, 32), "ab", 0), result=tensor((1, 64), "ab"))
    _, columns = cut_call(one, (1, 2, 1))
    assert columns.strides == (None,) * 4
    assert columns.offsets == (0, 32 * 32 * 4, 32 * 4, 32 * 4)
    assert columns.call.bias.extents == (1, 32)


def test_softmax_is_cut_anywhere_but_along_its_own_axis():
    shape = (12, 4, 20)
    softmax = OnednnCall(
        primitive=Primitive.SOFTMAX,
        data=tensor(shape, "abc", 0),
        weight=None,
        bias=None,
        result=tensor(shape, "abc"),
    )
    _, second = cut_call(softmax, (2, 1, 1))
    assert (second.call.data.extents, second.offsets) == ((6, 4, 20), (6 * 80 * 4,) * 2)
    assert cut_call(softmax, (1, 1, 2)) is None
    row = replace(softmax, data=tensor((1, 20), "ab", 0), result=tensor((1, 20), "ab"))
    assert candidates(row, 4) == ((1, 1, 1),)


@pytest.mark.parametrize("lanes", [1, 2, 4])
@pytest.mark.parametrize("call", [convolution(), convolution(images=3), convolution(outputs=16)])
def test_parts_cover_every_byte_of_the_result_once(call, lanes):
    for counts in candidates(call, lanes):
        seen = np.zeros(np.prod(call.result.extents), int)
        for part in cut_call(call, counts):
            begin = part.offsets[-1] // 4
            seen[begin : begin + np.prod(part.call.result.extents)] += 1
        assert (seen == 1).all()
    assert candidates(call, lanes)[0] == (1, 1, 1)


def test_few_blocks_are_cut_on_many_lanes_too():
    assert candidates(convolution(outputs=64), 16) == ((1, 1, 1), (1, 2, 1), (1, 4, 1))
    assert candidates(convolution(outputs=64), 1) == ((1, 1, 1),)
    assert candidates(convolution(outputs=96), 3) == (
        (1, 1, 1),
        (1, 2, 1),
        (1, 3, 1),
        (1, 6, 1),
    )


def test_rows_of_padding_alone_are_no_part():
    call = convolution(size=4, kernel=1)
    padded = replace(
        call,
        data=replace(call.data, format="acdb"),
        result=tensor((1, 64, 12, 12), "acdb"),
        window=replace(call.window, padding=(4, 4, 4, 4)),
        steps=(),
    )
    assert cut_call(padded, (1, 1, 3)) is None
    assert len(cut_call(padded, (1, 1, 2))) == 2
