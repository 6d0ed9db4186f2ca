from __future__ import annotations

import pytest

from tests.models.count import count
from tvm_ios.models import squeezenet


def test_totals_are_the_published_ones():
    totals = count(*squeezenet())
    assert totals.units == 50
    assert round(totals.published_operations / 1e9, 3) == 1.230
    assert round(totals.parameters / 1e6, 3) == 1.590


@pytest.mark.slow
def test_outputs_agree_with_numpy(compare_with_numpy):
    def fire(layers, name, value):
        squeezed = layers.conv_relu(f"{name}.squeeze", value)
        joined = layers.concat(
            layers.conv_relu(f"{name}.expand3x3", squeezed),
            layers.conv_relu(f"{name}.expand1x1", squeezed),
        )
        if f"{name}.bypass.weight" in layers.params:
            value = layers.conv_relu(f"{name}.bypass", value)
        return joined + value

    def forward(layers, image):
        value = layers.max_pool(layers.conv_relu("conv1", image, stride=2))
        for number in (2, 3, 4):
            value = fire(layers, f"fire{number}", value)
        value = layers.max_pool(value)
        for number in (5, 6, 7, 8):
            value = fire(layers, f"fire{number}", value)
        value = fire(layers, "fire9", layers.max_pool(value))
        return layers.global_average(layers.conv_relu("conv10", value))

    network = squeezenet(batch_size=2, image_size=33)
    bypasses = {name for name in network[1] if "bypass.weight" in name}
    assert bypasses == {f"fire{number}.bypass.weight" for number in (2, 4, 6, 8)}
    compare_with_numpy(network, forward)
