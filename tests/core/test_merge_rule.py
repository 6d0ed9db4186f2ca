"""The merge rule against real convolutions, computed one by one and merged."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.operator_graphs import CONV
from tvm_ios.core.merge_rule import count_padded_kernels, merge_convolutions, why_not_merge
from tvm_ios.errors import ScheduleError


def conv(**changes):
    base = replace(CONV, input_shape=(3, 8, 8), out_channels=2, kernel=(3, 3), padding=(1, 1, 1, 1))
    return replace(base, **changes)


def convolve(data, weight, strides, padding, dilation):
    """Direct convolution, float64, CHW data and OIHW weight."""
    top, left, bottom, right = padding
    data = np.pad(data, ((0, 0), (top, bottom), (left, right)))
    extent_h = dilation[0] * (weight.shape[2] - 1) + 1
    extent_w = dilation[1] * (weight.shape[3] - 1) + 1
    height = (data.shape[1] - extent_h) // strides[0] + 1
    width = (data.shape[2] - extent_w) // strides[1] + 1
    out = np.zeros((weight.shape[0], height, width))
    for y in range(height):
        for x in range(width):
            y0, x0 = y * strides[0], x * strides[1]
            patch = data[:, y0 : y0 + extent_h : dilation[0], x0 : x0 + extent_w : dilation[1]]
            out[:, y, x] = np.einsum("ochw,chw->o", weight, patch)
    return out


def assert_merge_is_exact(members, seed=0):
    rng = np.random.default_rng(seed)
    merged = merge_convolutions(members)
    data = rng.integers(-9, 9, members[0].input_shape).astype(float)
    channels = merged.input_shape[0]
    weight = np.zeros((merged.out_channels, channels, *merged.kernel))
    expected = []
    for member, placed in zip(members, merged.members, strict=True):
        own = rng.integers(-9, 9, (member.out_channels, channels, *member.kernel)).astype(float)
        row, column = placed.kernel_offset
        weight[
            placed.out_channel_begin : placed.out_channel_end,
            :,
            row : row + member.kernel[0],
            column : column + member.kernel[1],
        ] = own
        expected.append(convolve(data, own, member.strides, member.padding, member.dilation))
    first = members[0]
    got = convolve(data, weight, first.strides, merged.padding, first.dilation)
    np.testing.assert_array_equal(got, np.concatenate(expected))


@st.composite
def siblings(draw):
    """Two or three convolutions of one operand that differ in kernel and padding."""
    height, width = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    strides = (draw(st.integers(1, 4)), draw(st.integers(1, 3)))
    dilation = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    members = []
    for _ in range(draw(st.integers(2, 3))):
        member = conv(
            input_shape=(2, height, width),
            kernel=(draw(st.integers(1, 4)), draw(st.integers(1, 4))),
            padding=tuple(draw(st.integers(0, 3)) for _ in range(4)),
            strides=strides,
            dilation=dilation,
            out_channels=draw(st.integers(1, 2)),
        )
        assume(min(member.output_size) >= 1)
        members.append(member)
    return members


def common_kernel_exists(members):
    """By search: is there a kernel of the largest size in which every member can lie?"""
    for axis in (0, 1):
        kernel = max(m.kernel[axis] for m in members)
        dilation = members[0].dilation[axis]
        if not any(
            all(
                any(
                    top - m.padding[axis] == offset * dilation
                    for offset in range(kernel - m.kernel[axis] + 1)
                )
                for m in members
            )
            for top in range(20)
        ):
            return False
    return True


@given(siblings())
def test_what_may_merge_is_exact_and_what_may_not_cannot(members):
    same_size = len({member.output_size for member in members}) == 1
    if why_not_merge(members) is None:
        assert same_size
        merged = merge_convolutions(members)
        assert merged.kernel == tuple(max(m.kernel[axis] for m in members) for axis in (0, 1))
        assert_merge_is_exact(members)
    else:
        assert not (same_size and common_kernel_exists(members))


@given(siblings(), st.booleans())
def test_kernels_that_are_not_padded_are_equal(members, centred):
    """And equal ones merge or not as they do where others may be padded."""
    equal = len({member.kernel for member in members}) == 1
    assert (count_padded_kernels(members) == 0) == equal
    reason = why_not_merge(members, centred=centred, pad_kernels=False)
    if equal:
        assert reason == why_not_merge(members, centred=centred)
    else:
        assert reason


@pytest.mark.parametrize(
    ("kernels", "padded", "reason"),
    [
        ([(3, 3), (3, 3)], 0, None),
        ([(1, 7), (1, 7)], 0, None),
        ([(3, 3), (1, 1), (1, 1)], 2, "member 1 has a kernel of 1x1, .* with zeros to 3x3"),
        ([(1, 7), (7, 1)], 2, "member 0 has a kernel of 1x7, .* with zeros to 7x7"),
        ([(3, 3), (1, 3), (3, 3)], 1, "member 1 has a kernel of 1x3, .* with zeros to 3x3"),
    ],
)
def test_any_kernel_that_is_smaller_on_an_axis_is_padded(kernels, padded, reason):
    members = [
        conv(kernel=(rows, columns), padding=(rows // 2, columns // 2) * 2)
        for rows, columns in kernels
    ]
    assert why_not_merge(members) is None
    assert count_padded_kernels(members) == padded
    if reason is None:
        assert why_not_merge(members, pad_kernels=False) is None
    else:
        assert re.match(reason, why_not_merge(members, pad_kernels=False))


@given(siblings())
def test_centred_is_the_published_placement(members):
    if why_not_merge(members, centred=True) is None:
        merged = merge_convolutions(members)
        for member, placed in zip(members, merged.members, strict=True):
            for axis in (0, 1):
                slack = merged.kernel[axis] - member.kernel[axis]
                assert placed.kernel_offset[axis] == slack // 2


@pytest.mark.parametrize("kernels", [((1, 1), (3, 3)), ((1, 3), (3, 1)), ((1, 1), (3, 3), (5, 5))])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (2, 1)])
def test_same_padded_kernels_of_any_size_merge(kernels, strides):
    members = [
        conv(
            kernel=k,
            strides=strides,
            padding=(k[0] // 2, k[1] // 2, k[0] // 2, k[1] // 2),
            out_channels=index + 1,
        )
        for index, k in enumerate(kernels)
    ]
    assert_merge_is_exact(members)
    assert why_not_merge(members, centred=True) is None
    merged = merge_convolutions(members)
    assert [m.out_channel_begin for m in merged.members] == [0, 1, 3][: len(kernels)]


def test_the_two_wrong_merges_of_the_published_code():
    # 2x2 without padding and 3x3 with padding 1: right at offset (1, 1), wrong in the middle.
    off_centre = [
        conv(kernel=(2, 2), padding=(0, 0, 0, 0), strides=(2, 2)),
        conv(kernel=(3, 3), padding=(1, 1, 1, 1), strides=(2, 2)),
    ]
    assert off_centre[0].output_size == off_centre[1].output_size
    assert_merge_is_exact(off_centre)
    assert merge_convolutions(off_centre).members[0].kernel_offset == (1, 1)
    assert "middle" in why_not_merge(off_centre, centred=True)
    disagreeing = [
        conv(padding=(0, 0, 0, 0), strides=(4, 4), input_shape=(3, 7, 7)),
        conv(padding=(1, 1, 1, 1), strides=(4, 4), input_shape=(3, 7, 7)),
    ]
    assert disagreeing[0].output_size == disagreeing[1].output_size
    assert "paddings disagree on rows" in why_not_merge(disagreeing)
    with pytest.raises(ScheduleError, match="cannot be merged: the paddings disagree"):
        merge_convolutions(disagreeing)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"groups": 3, "out_channels": 3}, "in 3 groups"),
        ({"plain_operand": False}, "sums or concatenates"),
        ({"operand": "y"}, "operand 'y'"),
        ({"input_shape": (3, 9, 8)}, "input_shape"),
        ({"strides": (2, 2)}, "strides"),
        ({"dilation": (2, 2), "padding": (2, 2, 2, 2)}, "dilation"),
        ({"epilogue": "none"}, "epilogue"),
        ({"layout": "NHWC"}, "layout"),
        ({"padding": (0, 0, 0, 0)}, "output size"),
        ({"padding": (2, 1, 0, 1)}, "paddings disagree on rows"),
        ({"padding": (1, 0, 1, 2)}, "paddings disagree on columns"),
    ],
)
def test_every_reason_in_either_place(change, reason):
    for members in ([conv(), conv(**change)], [conv(**change), conv()]):
        refusal = why_not_merge(members)
        assert refusal is not None
        key = reason.split()[0] if reason.startswith("operand") else reason
        assert key in refusal


def test_too_few_and_no_convolution():
    assert "two operators" in why_not_merge([conv()])
    assert "member 1 is not a convolution" in why_not_merge([conv(), None])
    assert "not a convolution" in why_not_merge([None, conv()])
