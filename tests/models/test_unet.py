from __future__ import annotations

import numpy as np
import pytest

from tests.models.count import count
from tests.small_networks import narrow_unet
from tvm_ios.errors import OptionError
from tvm_ios.models import unet


def test_totals_are_the_published_ones():
    module, params = unet()
    totals = count(module, params)
    # Published are two parameters for each normalised channel, where a folded one has its bias.
    normalised = sum(
        value.shape[0]
        for name, value in params.items()
        if ".conv" in name and name.endswith(".bias")
    )
    assert totals.parameters + normalised == 31_037_633
    # Convolutions of 64 channels at 256x256 and what they become, each as window times channels
    # read; all of it twice less the first layer's 3 channels, and the four transposed ones.
    side = 9 * (64 * 64 * 256**2)
    down = side * 2 * 5 - side // 2 * 4 - (64 - 3) * 9 * 64 * 256**2
    up = side * 3 * 4 + 4 * side * 2 // 9
    assert totals.macs == down + up + 64 * 256**2


@pytest.mark.parametrize("size", [0, 40])
def test_an_image_that_cannot_be_halved_is_refused(size):
    with pytest.raises(OptionError, match=r"multiple of 16|at least 1"):
        unet(image_size=size)


@pytest.mark.slow
def test_outputs_agree_with_numpy(compare_with_numpy):
    def double(layers, name, value):
        return layers.conv_relu(f"{name}.conv2", layers.conv_relu(f"{name}.conv1", value))

    def halved(value):
        images, channels, height, width = value.shape
        return value.reshape(images, channels, height // 2, 2, width // 2, 2).max(axis=(3, 5))

    def raised(layers, name, value):
        images, _, height, width = value.shape
        spread = np.einsum("nchw,coij->nohiwj", value, layers.params[f"{name}.weight"])
        whole = spread.reshape(images, -1, 2 * height, 2 * width)
        return whole + layers.params[f"{name}.bias"][:, None, None]

    def forward(layers, image):
        kept, value = [], double(layers, "down0", image)
        for level in range(1, 3):
            kept.append(value)
            value = double(layers, f"down{level}", halved(value))
        for level in (1, 0):
            value = layers.concat(kept[level], raised(layers, f"up{level}.raise", value))
            value = double(layers, f"up{level}", value)
        return layers.conv("classes", value)

    compare_with_numpy(narrow_unet(), forward)
