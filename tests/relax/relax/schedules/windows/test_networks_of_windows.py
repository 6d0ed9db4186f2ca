"""Networks of windows in every layout: our loops compute what TVM's do on the same kernels."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tvm import relax

from tests.relax.networks import TARGET, Network, answers
from tvm_ios.relax.prepare import prepare

OP = relax.op
LAYOUTS = (None, "NHWC", "NCHW8c")


def _network(seed):
    """A chain of convolutions, depthwise ones and pools of any geometry, with residuals."""
    chooser = random.Random(seed)
    channels = chooser.choice([8, 12, 24, 27])
    network = Network(1, 3, 31, chooser.choice([17, 30]))

    def body(net):
        made = net.emit(OP.nn.relu(net.conv(net.x, channels, 3)))
        for _ in range(5):
            made = net.emit(_window(net, made, channels, chooser))
        return made

    return network.build(body), network.value()


def _window(net, x, channels, chooser):
    height, width = (int(n) for n in x.ty.shape.values[2:])
    fits = [n for n in (1, 2, 3, 5) if n <= min(height, width)]
    kernel = [chooser.choice(fits) for _ in range(2)]
    padding = [chooser.randrange((kernel[n % 2] + 1) // 2) for n in range(4)]
    dilation = chooser.choice([1, 2]) if max(kernel) * 2 <= min(height, width) else 1
    shape = {"strides": chooser.choice([1, 1, 2]), "padding": padding, "dilation": dilation}
    kind = chooser.choice(["depthwise", "max", "avg", "dense"])
    if kind == "max":
        return OP.nn.max_pool2d(x, kernel, **shape)
    if kind == "avg":
        inside = chooser.choice([True, False])
        pooled = OP.nn.avg_pool2d(x, kernel, **shape, count_include_pad=inside)
        return OP.add(pooled, pooled)
    inputs, groups = (1, channels) if kind == "depthwise" else (channels, 1)
    made = OP.nn.conv2d(x, net.constant(channels, inputs, *kernel), groups=groups, **shape)
    made = net.emit(OP.add(made, net.constant(1, channels, 1, 1)))
    return OP.clip(made, 0, 6) if chooser.random() < 0.5 else OP.nn.silu(made)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(n, marks=[] if n < 3 else pytest.mark.slow(3) if n < 6 else pytest.mark.full)
        for n in range(18)
    ],
)
def test_our_loops_compute_what_tvms_do(seed):
    mod, value = _network(seed)
    prepared = prepare(mod, None, TARGET, image_layout=LAYOUTS[seed % len(LAYOUTS)])
    found, expected = answers(prepared.module, value), answers(prepared.fused, value)
    # exp of ours is arithmetic; the target has no instruction that multiplies and adds at once.
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)
