"""Concatenations that TVM is kept from fusing: which, and that results stay."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_ios
from tests.relay.transforms.test_concatenation import names
from tvm_ios.relay.transforms.bound_model import bound_model
from tvm_ios.relay.transforms.lone_concatenations import keep_concatenations_alone

CPU, GPU = (tvm.target.Target(text) for text in ("llvm -opt-level=0", "cuda -arch=sm_70"))


def image(shape=(1, 16, 8, 8), name="data"):
    return relay.var(name, shape=shape)


def conv(nets, value, name, inputs=16):
    return nets.conv(value, name, 16, (1, 1), (0, 0), in_channels=inputs, activation=None)


def scaled(value, channels):
    return relay.nn.relu(value * relay.const(np.full((1, channels, 1, 1), 3, "float32")))


def kept(nets, output, *inputs, target=CPU):
    """How many are kept alone, and barriers to fusion."""
    module, params = nets.finish(output, *inputs)
    changed, count = keep_concatenations_alone(bound_model(module, params), target)
    return count, names(changed).count("annotation.stop_fusion")


def dense_block(nets, data):
    """Pieces of pieces, each scaled channel by channel."""
    first = relay.concatenate([conv(nets, data, "a"), conv(nets, data, "b")], axis=1)
    third = conv(nets, scaled(first, 32), "c", 32)
    return scaled(relay.concatenate([first, third], axis=1), 48)


@pytest.mark.parametrize("target", [CPU, GPU], ids=["CPU", "GPU"])
def test_views_are_kept_views(nets, target):
    data = image()
    # The inner one has two readers, so TVM fuses it with neither.
    assert kept(nets, dense_block(nets, data), data, target=target) == (1, 1)


@pytest.mark.slow
def test_a_dense_block_has_no_kernel_that_concatenates(nets):
    data = image()
    module, params = nets.finish(dense_block(nets, data), data)
    model = tvm_ios.compile_schedule(module, params, CPU, lanes=1)
    assert not [launch for launch in model.plan.launches if "concatenate" in launch.kernel]
    values = nets.random_input(module)
    with model.executor() as executor:
        executor.run(data=values)
        found = executor.get_output(0).numpy()
    np.testing.assert_allclose(
        found, nets.reference(module, params, values)[0], rtol=1e-4, atol=1e-4
    )


def rows(*values):
    return relay.concatenate(values, axis=-1)


def test_rows_are_copied_by_a_kernel_of_its_own(nets):
    one, two = image((1, 4, 4, 8), "one"), image((1, 2, 2, 8), "two")
    larger = relay.image.resize2d(two, (4, 4), layout="NHWC", method="nearest_neighbor")
    output = relay.nn.relu(rows(one, larger))
    assert kept(nets, output, one, two) == (1, 2)
    assert kept(nets, output, one, two, target=GPU) == (0, 0)
    module, params = nets.finish(output, one, two)
    model = tvm_ios.compile_schedule(module, params, CPU, lanes=1)
    kinds = [operator.kind for operator in model.graph.operators]
    assert sorted(kinds) == ["concatenate", "image.resize2d", "relu"]
    turned = relay.transpose(one, (0, 2, 1, 3))
    assert kept(nets, rows(one, relay.exp(turned)), one) == (1, 2)
    assert kept(nets, relay.nn.relu(rows(*[one] * 9)), one) == (1, 1)
    assert kept(nets, relay.transpose(rows(one, one), (0, 3, 1, 2)), one) == (1, 1)


def test_slices_and_activations_are_part_of_the_copy(nets):
    one = image((1, 4, 4, 8), "one")
    assert kept(nets, rows(one, relay.exp(one)), one) == (0, 0)
    assert kept(nets, relay.nn.relu(rows(one, one)), one) == (0, 0)
    halves = relay.split(one, 2, axis=-1)
    assert kept(nets, rows(halves[1], halves[0]), one) == (0, 0)
    assert kept(
        nets, relay.nn.layer_norm(rows(one, one), *[relay.const(np.ones(16, "float32"))] * 2), one
    ) == (0, 0)


@pytest.mark.parametrize(
    "case",
    [
        "a result",
        "one row",
        "read elsewhere",
        "inputs",
        "read twice",
        "an activation before",
        "batch",
    ],
)
def test_all_others_are_left_to_tvm(nets, case):
    data = image((2, 16, 8, 8) if case == "batch" else (1, 16, 8, 8))
    pieces = [conv(nets, data, "a"), conv(nets, data, "b")]
    output = scaled(relay.concatenate(pieces, axis=1), 32)
    if case == "a result":
        output = relay.concatenate(pieces, axis=1)
    elif case == "one row":
        data = relay.var("data", shape=(1, 5))
        output = relay.nn.relu(rows(data, relay.exp(data)))
    elif case == "read elsewhere":
        piece = relay.exp(relay.var("data", shape=(1, 4, 4, 8)))
        data = piece.args[0]
        output = relay.Tuple([rows(piece, data), piece])
    elif case == "inputs":
        output = scaled(relay.concatenate([data, data], axis=1), 32)
    elif case == "read twice":
        joined = relay.concatenate(pieces, axis=1)
        output = relay.Tuple([scaled(joined, 32), relay.exp(joined)])
    elif case == "an activation before":  # TVM fuses it with the concatenation, which is no view
        tail = relay.exp(relay.transpose(data, (0, 1, 3, 2)))
        output = scaled(relay.concatenate([tail, pieces[1]], axis=1), 32)
    assert kept(nets, output, data) == (0, 0)
