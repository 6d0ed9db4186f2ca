from __future__ import annotations

import numpy as np
import pytest

from tests.models.count import count
from tvm_ios.models import mobilenet_v2, mobilenet_v3_large


def normalised(params, *plain):
    """Channels that the published network normalises: ours have a bias in its place."""
    return sum(
        value.shape[0]
        for name, value in params.items()
        if name.endswith(".bias") and not any(word in name for word in plain)
    )


def test_totals_of_version_2_are_the_published_ones():
    module, params = mobilenet_v2()
    totals = count(module, params)
    assert round(totals.macs / 1e9, 3) == 0.301
    assert totals.parameters + normalised(params, "classifier") == 3_504_872


def test_totals_of_version_3_are_the_published_ones():
    module, params = mobilenet_v3_large()
    totals = count(module, params)
    assert round(totals.macs / 1e9, 3) == 0.217
    plain = ("classifier", "hidden", "squeeze", "excite")
    assert totals.parameters + normalised(params, *plain) == 5_483_032


@pytest.mark.slow
def test_version_2_agrees_with_numpy(compare_with_numpy):
    def six(values):
        return np.clip(values, 0, 6)

    # Which of the blocks halve, and which add their input.
    halving, adding = {2, 4, 7, 14}, {3, 5, 6, 8, 9, 10, 12, 13, 15, 16}

    def forward(layers, image):
        value = six(layers.conv("stem", image, stride=2))
        for number in range(1, 18):
            name, inner = f"block{number}", value
            if number > 1:
                inner = six(layers.conv(f"{name}.expand", inner))
            stride = 2 if number in halving else 1
            inner = layers.conv(f"{name}.depthwise", inner, stride=stride, groups=inner.shape[1])
            inner = layers.conv(f"{name}.project", six(inner))
            value = inner + value if number in adding else inner
        features = six(layers.conv("last", value)).mean(axis=(2, 3))
        return features @ layers.params["classifier.weight"].T + layers.params["classifier.bias"]

    compare_with_numpy(mobilenet_v2(image_size=32), forward)


def test_hidden_channels_of_gates_are_rounded_as_published():
    _, params = mobilenet_v3_large(image_size=32)
    squeezed = [
        params[f"block{number}.squeeze.weight"].shape[:2] for number in (4, 5, 11, 12, 13, 14)
    ]
    assert [tuple(shape) for shape in squeezed] == [
        (24, 72),
        (32, 120),
        (120, 480),
        (168, 672),
        (168, 672),
        (240, 960),
    ]
