"""Layouts of single convolutions: what is read of a model, and that it stays the same model."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tvm import relax

from tests.relax.networks import TARGET, Network, answers
from tvm_ios.core.image_layouts import BLOCKS, CHANNELS_LAST, ImageForm
from tvm_ios.errors import ModelError
from tvm_ios.relax.extract import functions_of
from tvm_ios.relax.prepare import fuse
from tvm_ios.relax.target import resolve_target
from tvm_ios.relax.transforms.image_layouts import blocks_of
from tvm_ios.relax.transforms.image_places import sizes_of

OP = relax.op
IMAGE = 16 * 8 * 8 * 4
"""Bytes of the images below."""


def places_of(body):
    """Places of a network of images of 16 channels and 8 x 8 pixels, with blocks of 8."""
    return fuse(Network(1, 16, 8, 8).build(body), None, TARGET, image_layout="NHWC").images.places


def test_what_follows_a_convolution_is_at_its_place_and_moves_nothing():
    def body(net):
        pooled = net.emit(OP.nn.max_pool2d(net.conv(net.x, 16, 3), (2, 2), (2, 2)))
        return net.conv(pooled, 16, 1)

    found = places_of(body)
    assert [each.kernel for each in found.convolutions] == [(16, 16, 3, 3), (16, 16, 1, 1)]
    assert found.moved_bytes == {(0, 1): IMAGE // 4}
    assert found.copied_bytes == [0, 0]


@pytest.mark.parametrize(("channels", "unblocked"), [(16, 0), (12, 2 * 12 * 8 * 8 * 4)])
def test_channels_that_are_joined_or_cut_are_copied_where_they_lie_last(channels, unblocked):
    def body(net):
        one, other = (net.conv(net.x, channels, kernel) for kernel in (1, 3))
        joined = net.emit(OP.concat([one, other], axis=1))
        return net.emit(OP.strided_slice(joined, [1], [0], [8]))

    size, found = channels * 8 * 8 * 4, places_of(body)
    assert found.copied_bytes == [4 * size, 0]
    assert found.unblocked_bytes == [unblocked, 0]
    assert found.moved_bytes == {(1, 0): size}
    assert found.joined_bytes == {(1, 0): 2 * size}


def test_what_needs_plain_axes_is_at_no_place():
    def body(net):
        turned = net.emit(OP.permute_dims(net.conv(net.x, 16, 3), [0, 1, 3, 2]))
        return net.conv(turned, 16, 1)

    assert not places_of(body).moved_bytes


@pytest.mark.parametrize("layout", ["NHWC", "NCHW8c"])
def test_a_function_says_the_sizes_of_its_convolution_in_any_layout(layout):
    def body(net):
        weights = net.constant(16, 1, 3, 3)
        apart = net.emit(OP.nn.conv2d(net.conv(net.x, 16, 1), weights, groups=16, strides=2))
        return net.conv(apart, 24, 3)

    mod = Network(1, 16, 9, 8).build(body)
    prepared = fuse(mod, None, TARGET, image_layout=layout)
    found = [sizes_of(each) for each in functions_of(prepared.extraction) if each]
    assert [each for each in found if each] == prepared.images.places.convolutions


def test_a_form_says_the_layout_of_each_convolution():
    """That of 12 channels has no blocks of 8."""
    mod = Network(1, 8, 6, 6).build(
        lambda net: net.conv(net.conv(net.conv(net.x, 8, 3), 16, 1), 12, 1)
    )
    form = ImageForm(layouts=(CHANNELS_LAST, BLOCKS, BLOCKS))
    prepared = fuse(mod, None, TARGET, image_layout=form)
    assert prepared.images.form == ImageForm(layouts=(CHANNELS_LAST, BLOCKS, CHANNELS_LAST))
    found = [each and each.calls[0] for each in functions_of(prepared.extraction)]
    layouts = [each.attribute("data_layout") for each in found if each]
    assert [each for each in layouts if each] == ["NHWC", "NCHW8c", "NHWC"]
    with pytest.raises(ModelError, match="layouts of 2 convolutions, and the model has 3"):
        fuse(mod, None, TARGET, image_layout=ImageForm(layouts=(BLOCKS, BLOCKS)))


def test_blocks_fill_a_vector():
    assert blocks_of(resolve_target("llvm -mcpu=skylake-avx512")) == "NCHW16c"
    assert blocks_of(resolve_target("llvm -mcpu=haswell")) == "NCHW8c"


def _network(chooser):
    """Convolutions with branches, gates, pools, sums, concatenations and slices of images."""
    network = Network(1, 3, chooser.choice([8, 11]), 12)

    def body(net):
        made = [net.conv(net.x, chooser.choice([8, 16]), 3)]
        for _ in range(7):
            x = chooser.choice(made[-3:])
            made.append(net.emit(_next(net, x, made, chooser)))
        return net.emit(OP.nn.relu(made[-1]))

    return network.build(body), network.value()


def _next(net, x, made, chooser):
    channels = int(x.ty.shape[1])
    kinds = ["conv", "conv", "apart", "pool", "sum", "concat", "gate", "slice", "resize"]
    kind = chooser.choice(kinds)
    if kind == "conv":
        return net.conv(x, chooser.choice([8, 12, 16, 24]), chooser.choice([1, 3]))
    if kind == "apart":
        weights = net.constant(channels, 1, 3, 3)
        return OP.nn.conv2d(x, weights, groups=channels, padding=1)
    if kind == "pool":
        return OP.nn.avg_pool2d(x, (3, 3), padding=(1, 1))
    size = list(x.ty.shape.values)[2:]
    alike = [each for each in made if list(each.ty.shape.values)[2:] == size]
    other = chooser.choice(alike)
    if kind == "sum":
        return OP.add(x, net.conv(other, channels, 1))
    if kind == "concat":
        return OP.concat([x, other], axis=1)
    if kind == "gate":
        squeezed = net.emit(OP.mean(x, [2, 3], keepdims=True))
        gate = net.emit(OP.sigmoid(net.conv(net.conv(squeezed, 8, 1), channels, 1)))
        return OP.multiply(*chooser.sample([x, gate], 2))
    if kind == "slice":
        return OP.strided_slice(x, [1], [0], [8])
    return OP.image.resize2d(x, (10, 9), method="linear", layout="NCHW")


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(n, marks=[] if n < 1 else pytest.mark.slow(2) if n < 3 else pytest.mark.full)
        for n in range(60)
    ],
)
def test_models_in_any_form_compute_the_same(seed):
    chooser = random.Random(seed)
    mod, value = _network(chooser)
    count = len(fuse(mod, None, TARGET, image_layout="NHWC").images.form.layouts)
    form = ImageForm(layouts=tuple(chooser.choices((BLOCKS, CHANNELS_LAST), k=count)))
    prepared = fuse(mod, None, TARGET, image_layout=form)
    (found,), (expected,) = (answers(each, value) for each in (prepared.module, mod))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
