"""A model in the layout that TVM has no fast kernels for on a CPU."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay


@pytest.fixture(scope="session")
def in_nhwc():
    """Two NHWC convolutions of 12 channels, which fill no vectors of 8, and one that reads both."""
    random = np.random.default_rng(0)
    data = relay.var("data", shape=(1, 12, 12, 16))
    shapes = {"a": (3, 3, 16, 12), "b": (1, 1, 16, 12), "c": (1, 1, 24, 16)}
    weights = {name: relay.var(name, shape=shape) for name, shape in shapes.items()}

    def conv(value, name):
        *kernel_size, _, channels = shapes[name]
        return relay.nn.conv2d(
            value,
            weights[name],
            padding=tuple(size // 2 for size in kernel_size),
            kernel_size=kernel_size,
            channels=channels,
            data_layout="NHWC",
            kernel_layout="HWIO",
        )

    both = relay.concatenate([conv(data, "a"), conv(data, "b")], axis=3)
    output = conv(relay.nn.relu(both), "c")
    params = {
        name: tvm.nd.array(random.uniform(-1, 1, shape).astype("float32"))
        for name, shape in shapes.items()
    }
    function = relay.Function([data, *weights.values()], output)
    return relay.transform.InferType()(tvm.IRModule.from_expr(function)), params
