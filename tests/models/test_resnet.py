from __future__ import annotations

import pytest

from tests.models.count import count
from tvm_ios.models import resnet_50


def test_totals_are_the_published_ones():
    module, params = resnet_50()
    totals = count(module, params)
    assert round(totals.macs / 1e9, 2) == 4.09
    # Published are two parameters for each normalised channel, where a folded one has its bias.
    normalised = sum(
        value.shape[0]
        for name, value in params.items()
        if name.endswith(".bias") and name != "classifier.bias"
    )
    assert totals.parameters + normalised == 25_557_032


@pytest.mark.slow
def test_outputs_agree_with_numpy(compare_with_numpy):
    def block(layers, name, value, stride):
        inner = layers.conv_relu(f"{name}.conv1", value)
        inner = layers.conv(
            f"{name}.conv3", layers.conv_relu(f"{name}.conv2", inner, stride=stride)
        )
        if f"{name}.shortcut.weight" in layers.params:
            value = layers.conv(f"{name}.shortcut", value, stride=stride)
        return layers.relu(inner + value)

    def forward(layers, image):
        value = layers.max_pool(layers.conv_relu("conv1", image, stride=2), padding=1)
        for group, blocks in ((1, 3), (2, 4), (3, 6), (4, 3)):
            for number in range(1, blocks + 1):
                stride = 2 if number == 1 and group > 1 else 1
                value = block(layers, f"group{group}.block{number}", value, stride)
        features = value.mean(axis=(2, 3))
        return features @ layers.params["classifier.weight"].T + layers.params["classifier.bias"]

    compare_with_numpy(resnet_50(image_size=33), forward)
