from __future__ import annotations

from importlib import import_module
from unittest.mock import patch

import numpy as np
import pytest

from tests.models.count import count
from tvm_ios.models import googlenet


def test_totals_are_the_published_ones():
    module, params = googlenet()
    totals = count(module, params)
    assert round(totals.macs / 1e9, 3) == 1.498
    # Published are two parameters for each normalised channel, where a folded one has its bias.
    normalised = sum(
        value.shape[0]
        for name, value in params.items()
        if name.endswith(".bias") and name != "classifier.bias"
    )
    assert totals.parameters + normalised == 6_624_904


@pytest.mark.slow
def test_outputs_agree_with_numpy(compare_with_numpy):
    def halved(layers, value):
        """3x3 windows that hang over the edge where the size is even."""
        odd = [(0, 1 - extent % 2) for extent in value.shape[2:]]
        padded = np.pad(value, ((0, 0), (0, 0), *odd), constant_values=-np.inf)
        return layers.max_pool(padded)

    def block(layers, name, value):
        pooled = layers.max_pool(value, stride=1, padding=1)
        return layers.concat(
            layers.conv_relu(f"{name}.b0", value),
            *(
                layers.conv_relu(f"{name}.{b}.conv", layers.conv_relu(f"{name}.{b}.reduce", value))
                for b in ("b1", "b2")
            ),
            layers.conv_relu(f"{name}.b3", pooled),
        )

    def forward(layers, image):
        value = halved(layers, layers.conv_relu("conv1", image, stride=2))
        value = layers.conv_relu("conv3", layers.conv_relu("conv2", value))
        value = halved(layers, value)
        for name in ("3a", "3b"):
            value = block(layers, name, value)
        value = halved(layers, value)
        value = block(layers, "4a", value)
        images, channels, height, width = value.shape
        quarters = value.reshape(images, channels, height // 2, 2, width // 2, 2)
        value = quarters.max(axis=(3, 5))
        value = block(layers, "5a", value)
        features = value.mean(axis=(2, 3))
        return features @ layers.params["classifier.weight"].T + layers.params["classifier.bias"]

    module = import_module(googlenet.__module__)
    first, *others = module._BLOCKS
    with patch.object(module, "_BLOCKS", (first, *(blocks[:1] for blocks in others))):
        network = googlenet(image_size=64)
    compare_with_numpy(network, forward)
