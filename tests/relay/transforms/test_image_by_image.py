"""Image by image: up to where, past which operators, and that results stay."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_ios
from tests.relay.transforms.test_channel_padding import calls
from tvm_ios.relay.inputs import check_module
from tvm_ios.relay.transforms.image_by_image import has_several_images, run_image_by_image

IMAGES = 4


def convolved(value, name, channels=8):
    """A convolution of few weights beside what it reads and writes; ``channels`` in and out."""
    weight = relay.var(name, shape=(channels, channels, 1, 1))
    return relay.nn.conv2d(value, weight, kernel_size=(1, 1), channels=channels)


def images(count=IMAGES):
    return relay.var("data", shape=(count, 8, 6, 6))


def same(nets, module, params, changed):
    nets.assert_same((module, params), (changed, None), rtol=1e-4, atol=1e-6)


def test_the_first_layers_run_for_each_image_before_the_next(nets):
    data = images(2)
    weights = relay.var("w", shape=(16, 8 * 36))
    module, params = nets.finish(
        relay.nn.dense(relay.nn.batch_flatten(relay.nn.relu(convolved(data, "a"))), weights), data
    )
    changed, parts = run_image_by_image(module, params)
    assert parts == 2
    main = changed["main"]
    [kernel] = {call.args[1] for call in calls(changed, "nn.conv2d")}
    [matrix] = [call.args[1] for call in calls(changed, "nn.dense")]
    image = relay.var("data", shape=(2, 8, 6, 6))
    pieces = [
        relay.nn.conv2d(
            relay.strided_slice(image, [begin], [begin + 1], axes=[0]),
            kernel,
            kernel_size=(1, 1),
            channels=8,
        )
        for begin in range(2)
    ]
    # What is behind the convolution is fused into it, and the large matrix is read once.
    together = relay.nn.relu(relay.concatenate(pieces, axis=0))
    expected = relay.Function([image], relay.nn.dense(relay.nn.batch_flatten(together), matrix))
    tvm.ir.assert_structural_equal(
        main, relay.transform.InferType()(tvm.IRModule.from_expr(expected))["main"]
    )
    same(nets, module, params, changed)


PASSED = {
    "relu": relay.nn.relu,
    "bias": lambda value: relay.nn.bias_add(value, relay.const(np.arange(8, dtype="float32"))),
    "scale of a channel": lambda value: value * relay.const(np.ones((8, 1, 1), "float32") / 3),
    "scale of all": lambda value: value * relay.const(np.ones((1, 8, 1, 1), "float32") / 3),
    "residual": lambda value: value + relay.tanh(value),
    "pooling": lambda value: relay.nn.max_pool2d(value, (3, 3), padding=(1, 1)),
    "gate": lambda value: value * relay.sigmoid(relay.nn.global_avg_pool2d(value)),
    "channels joined": lambda value: relay.concatenate([value, relay.exp(value)], axis=1),
    "softmax": lambda value: relay.nn.softmax(value, axis=-3),
    "means": lambda value: value + relay.mean(value, axis=[2, -1], keepdims=True),
    "zeros around": lambda value: relay.nn.avg_pool2d(
        relay.nn.pad(value, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3)
    ),
    "turned": lambda value: relay.transpose(relay.transpose(value, (0, 2, 3, 1)), (0, 3, 1, 2)),
    "another shape": lambda value: relay.reshape(relay.reshape(value, (IMAGES, -1)), (0, -1, 6, 6)),
    "an axis more": lambda value: relay.squeeze(relay.expand_dims(value, 2), axis=[2]),
    "cut": lambda value: relay.strided_slice(
        relay.nn.pad(value, ((0, 0), (0, 0), (1, 1), (1, 1))),
        [1, 1],
        [7, 7],
        strides=[1, 1],
        axes=[2, 3],
    ),
    "resized": lambda value: relay.image.resize2d(value, (6, 6), layout="NCHW", method="linear"),
    "layout": lambda value: relay.layout_transform(
        relay.layout_transform(value, "NCHW", "NCHW4c"), "NCHW4c", "NCHW"
    ),
}
STOPS = {
    "batch in blocks": lambda value: relay.layout_transform(
        relay.exp(relay.layout_transform(value, "NCHW", "NCHW4n")), "NCHW4n", "NCHW"
    ),
    "two axes before": lambda value: relay.squeeze(relay.expand_dims(value, -5, 2), axis=[0, 1]),
    "tiled": lambda value: relay.strided_slice(
        relay.tile(value, (2, 1, 1, 1)), [0], [IMAGES], axes=[0]
    ),
    "spread to the batch": lambda value: (
        value * relay.broadcast_to(relay.nn.global_avg_pool2d(value), (IMAGES, 8, 6, 6))
    ),
    "slopes of images": lambda value: relay.nn.prelu(
        value, relay.const(np.full(IMAGES, 0.1, "float32")), axis=0
    ),
    "repeated": lambda value: relay.reshape(relay.repeat(value, 2, 0), (IMAGES, 16, 6, 6)),
    "an operator of no known kind": lambda value: relay.nn.l2_normalize(value, 1e-3, axis=[0]),
    "sum of images": lambda value: value + relay.sum(value, axis=0, keepdims=True),
    "softmax of images": lambda value: relay.nn.softmax(value, axis=0),
    "values of images": lambda value: value * relay.const(np.ones((IMAGES, 1, 1, 1), "float32")),
    "images reversed": lambda value: relay.reverse(value, axis=0),
    "an image more": lambda value: relay.nn.pad(value, ((1, 0), (0, 0), (0, 0), (0, 0))),
    "twice as many": lambda value: relay.concatenate([value, value], axis=0),
    "images as rows": lambda value: relay.reshape(
        relay.transpose(value, (1, 0, 2, 3)), (IMAGES, 8, 6, 6)
    ),
    "as one image": lambda value: relay.reshape(value, (1, 8, 6 * IMAGES, 6)),
    "half an image": lambda value: relay.reshape(value, (2 * IMAGES, 8, 3, 6)),
    "all but images": lambda value: (
        value + relay.mean(value, axis=[1, 2, 3], keepdims=True, exclude=True)
    ),
    "an axis before": lambda value: relay.squeeze(
        relay.transpose(relay.expand_dims(value, 0), (0, 1, 2, 3, 4)), axis=[0]
    ),
}


def channels_of(value):
    typed = relay.transform.InferType()(tvm.IRModule.from_expr(value))
    return int(typed["main"].body.checked_type.shape[1])


@pytest.mark.slow
def test_what_keeps_images_apart_is_passed(nets):
    value = data = images()
    for position, passed in enumerate(PASSED.values()):
        value = passed(convolved(value, f"w{position}", channels_of(value)))
    module, params = nets.finish(convolved(value, "last", channels_of(value)), data)
    changed, parts = run_image_by_image(module, params)
    assert parts == IMAGES
    assert len(calls(changed, "nn.conv2d")) == (len(PASSED) + 1) * IMAGES
    same(nets, module, params, changed)


@pytest.mark.parametrize("name", STOPS)
def test_what_may_mix_images_is_computed_for_all_at_once(nets, name):
    data = images()
    value = STOPS[name](convolved(data, "a"))
    module, params = nets.finish(convolved(value, "b", channels_of(value)), data)
    changed, parts = run_image_by_image(module, params)
    assert (parts, len(calls(changed, "nn.conv2d"))) == (IMAGES, IMAGES + 1)


def test_a_tensor_that_is_read_later_keeps_what_is_before_it_together(nets):
    data = images()
    early = convolved(data, "a")
    late = convolved(relay.nn.relu(early), "b")
    mixed = relay.nn.softmax(late, axis=0) + early
    module, params = nets.finish(mixed, data)
    changed, parts = run_image_by_image(module, params)
    # Behind `early` is the one place where nothing else is read later.
    assert (parts, len(calls(changed, "nn.conv2d"))) == (IMAGES, IMAGES + 1)
    same(nets, module, params, changed)


@pytest.mark.parametrize(("count", "parts"), [(1, 1), (2, 2), (11, 1), (12, 6), (16, 8)])
def test_a_large_batch_has_parts_of_several_images(nets, count, parts):
    data = images(count)
    module, params = nets.finish(convolved(data, "a"), data)
    assert has_several_images(check_module(module), params) == (count > 1)
    changed, found = run_image_by_image(module, params)
    assert (found, len(calls(changed, "nn.conv2d"))) == (parts, parts)


def test_images_are_joined_without_a_kernel(nets):
    data = relay.var("data", shape=(IMAGES, 16, 8, 8))
    pooled = relay.nn.max_pool2d(PASSED["pooling"](data), (2, 2), strides=(2, 2))
    module, params = nets.finish(relay.nn.softmax(pooled, axis=0), data)
    changed, parts = run_image_by_image(module, params)
    compiled = tvm_ios.compile_schedule(changed, target="llvm -opt-level=0", lanes=1)
    launched = [launch.operator.rpartition("_")[0] for launch in compiled.plan.launches]
    image = ["strided_slice", "max_pool2d", "max_pool2d"]  # the caller's memory has no views
    assert (parts, launched) == (IMAGES, [*image * IMAGES, "softmax"])


def test_large_weights_are_read_once(nets):
    data = relay.var("data", shape=(IMAGES, 512, 1, 1))
    module, params = nets.finish(convolved(data, "a", 512), data)
    changed, parts = run_image_by_image(module, params)
    assert (parts, len(calls(changed, "nn.conv2d"))) == (1, 1)


def test_inputs_have_as_many_images(nets):
    one, two = (relay.var(name, shape=(IMAGES, 8, 6, 6)) for name in ("one", "two"))
    module = tvm.IRModule.from_expr(relay.Function([one, two], one + two))
    assert has_several_images(check_module(module), None)
    other = relay.var("other", shape=(1, 8, 6, 6))
    module = tvm.IRModule.from_expr(relay.Function([one, other], one + other))
    assert not has_several_images(check_module(module), None)
