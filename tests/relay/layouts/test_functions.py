"""Convolutions by what they mean: the same function from either layout of a model."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import typed
from tvm_ios.relay.layouts.functions import PlacedConvolution, placed_convolution
from tvm_ios.runtime.libraries.onednn.matching.matched_call import match_call


def convolution(channels: tuple[int, int], layout: str = "NCHW", **more) -> relay.Call:
    inputs, outputs = channels
    shape = {"N": 1, "C": inputs, "H": 9, "W": 11}
    data = relay.var("x", shape=[shape[axis] for axis in layout])
    more = {"kernel_size": (3, 3), "padding": (1, 1), "channels": outputs} | more
    kernel = "OIHW" if layout == "NCHW" else "HWIO"
    sizes = dict(zip("HW", more["kernel_size"], strict=True))
    sizes |= {"O": outputs, "I": inputs // more.get("groups", 1)}
    weight = relay.var("w", shape=[sizes[axis] for axis in kernel])
    value = relay.nn.conv2d(data, weight, data_layout=layout, kernel_layout=kernel, **more)
    return typed(value)["main"].body


def placed(channels: tuple[int, int], **more) -> PlacedConvolution:
    found = placed_convolution(convolution(channels, **more))
    assert found is not None
    return found


def test_the_layout_of_a_model_does_not_matter():
    assert placed((20, 40), layout="NHWC", strides=(2, 2)) == placed((20, 40), strides=(2, 2))


def test_operations_are_counted_as_multiply_adds():
    assert placed((20, 40), kernel_size=(1, 1), padding=0).flops == 2 * 9 * 11 * 20 * 40
    assert placed((32, 32), groups=32).flops == 2 * 9 * 11 * 9 * 32


def test_onednn_reads_it_with_channels_last():
    call = match_call(placed((20, 40), strides=(2, 2)).channels_last())
    assert call.as_text().startswith(
        "convolution 1x20x9x11:acdb * 40x20x3x3:abcd= = 1x40x5x6:acdb strides=2x2"
    )


@pytest.mark.parametrize(
    ("channels", "more", "text"),
    [
        ((32, 64), {}, "1x32x9x11:aBcd16b * 64x32x3x3:abcd= = 1x64x9x11:aBcd16b"),
        ((28, 44), {}, "1x32x9x11:aBcd16b * 48x32x3x3:abcd= = 1x48x9x11:aBcd16b"),
        ((3, 32), {}, "1x3x9x11:abcd * 32x3x3x3:abcd= = 1x32x9x11:aBcd16b"),
        ((44, 44), {"groups": 44}, "1x48x9x11:aBcd16b * 48x1x1x3x3:abcde= = 1x48x9x11:aBcd16b"),
    ],
)
def test_onednn_reads_it_in_whole_blocks(channels, more, text):
    call = match_call(placed(channels, **more).in_blocks(16))
    assert call.as_text().startswith(f"convolution {text} ")


@pytest.mark.parametrize("channels", [(32, 8), (20, 32)])
def test_channels_that_would_grow_too_much_are_in_no_blocks(channels):
    assert placed(channels).in_blocks(16) is None


def test_groups_of_several_channels_stay_plain():
    call = match_call(placed((32, 64), groups=2).in_blocks(16))
    assert call.as_text().startswith(
        "convolution 1x32x9x11:abcd * 2x32x16x3x3:abcde= = 1x64x9x11:abcd "
    )


def test_channels_are_not_padded_where_nobody_wants_it():
    assert placed((32, 44)).in_blocks(16, pads=False) is None
    assert placed((32, 48)).in_blocks(16, pads=False) is not None


def test_a_transposed_convolution_is_in_one_piece_with_channels_last_only():
    data, weight = relay.var("x", shape=(1, 16, 4, 5)), relay.var("w", shape=(16, 24, 2, 2))
    value = relay.nn.conv2d_transpose(data, weight, channels=24, kernel_size=(2, 2), strides=(2, 2))
    found = placed_convolution(typed(value)["main"].body)
    assert found.in_blocks(16) is None
    call = match_call(found.channels_last())
    assert call.as_text().startswith(
        "transposed convolution 1x16x4x5:acdb * 24x16x2x2:bacd= = 1x24x8x10:acdb"
    )
    assert found.flops == 2 * 4 * 5 * 16 * 24 * 4


def test_what_is_laid_out_already_has_no_place():
    data, weight = relay.var("x", shape=(1, 2, 9, 9, 8)), relay.var("w", shape=(2, 2, 1, 1, 8, 8))
    value = relay.nn.contrib_conv2d_nchwc(
        data,
        weight,
        channels=16,
        kernel_size=(1, 1),
        data_layout="NCHW8c",
        kernel_layout="OIHW8i8o",
    )
    assert placed_convolution(typed(value)["main"].body) is None
