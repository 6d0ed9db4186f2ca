from __future__ import annotations

from importlib import import_module
from unittest.mock import patch

import pytest

from tests.models.count import count
from tvm_ios.models import densenet_121


def test_totals_are_the_published_ones():
    module, params = densenet_121()
    totals = count(module, params)
    assert round(totals.macs / 1e9, 3) == 2.834
    # Published are two parameters for each normalised channel and no bias of a convolution.
    biases = {name: value.shape[0] for name, value in params.items() if name.endswith(".bias")}
    folded = sum(size for name, size in biases.items() if "conv0" in name or "conv1" in name)
    plain = sum(biases.values()) - folded - biases["classifier.bias"]
    assert totals.parameters + folded - plain == 7_978_856


@pytest.mark.slow
def test_outputs_agree_with_numpy(compare_with_numpy):
    layers_of_blocks = (2, 3, 1, 2)  # layers are alike

    def normal(layers, name, value):
        scale, shift = (layers.params[f"{name}.{kind}"] for kind in ("scale", "shift"))
        return layers.relu(value * scale + shift)

    def forward(layers, image):
        value = layers.max_pool(layers.conv_relu("conv0", image, stride=2), padding=1)
        for block, depth in enumerate(layers_of_blocks, 1):
            if block > 1:
                name = f"transition{block - 1}"
                value = layers.conv(f"{name}.conv", normal(layers, f"{name}.norm", value))
                images, channels, height, width = value.shape
                halves = value.reshape(images, channels, height // 2, 2, width // 2, 2)
                value = halves.mean(axis=(3, 5))
            for layer in range(1, depth + 1):
                name = f"block{block}.layer{layer}"
                narrow = layers.conv_relu(f"{name}.conv1", normal(layers, f"{name}.norm", value))
                value = layers.concat(value, layers.conv(f"{name}.conv2", narrow))
        features = normal(layers, "norm", value).mean(axis=(2, 3))
        return features @ layers.params["classifier.weight"].T + layers.params["classifier.bias"]

    with patch.object(import_module(densenet_121.__module__), "_LAYERS", layers_of_blocks):
        network = densenet_121(image_size=32)
    compare_with_numpy(network, forward)
