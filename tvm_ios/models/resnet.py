"""ResNet-50 (He et al., CVPR 2016), with the stride in the 3x3 convolutions, as usually trained.

Batch normalisation is folded into the convolutions. The classifier has 1000 classes.
"""

from __future__ import annotations

from tvm_ios.models.activation import Activation
from tvm_ios.models.builder import NetworkBuilder, Pooling, Tensor
from tvm_ios.models.weights import Network

__all__ = ["resnet_50"]

_BLOCKS = (3, 4, 6, 3)
"""Number of bottleneck blocks of each group; groups halve the size and double the channels."""
_WIDENING = 4
"""Ratio of channels behind a block to channels within it."""


def resnet_50(*, batch_size: int = 1, image_size: int = 224, seed: int = 0) -> Network:
    """ResNet-50 with its classifier.

    ``main`` maps ``(batch_size, 3, image_size, image_size)`` to ``(batch_size, 1000)``.
    """
    net = NetworkBuilder.of_images(batch_size=batch_size, image_size=image_size, seed=seed)
    value = net.convolution("conv1", net.input, 64, kernel=(7, 7), stride=2, padding=(3, 3))
    value = net.pool("pool1", value, Pooling.MAX, stride=2, padding=1)
    for group, blocks in enumerate(_BLOCKS, start=1):
        for block in range(1, blocks + 1):
            halves = block == 1 and group > 1
            value = _bottleneck(net, f"group{group}.block{block}", value, 32 << group, halves)
    pooled = net.global_average("pool", value)
    return net.finish(net.dense("classifier", net.flatten("flatten", pooled), 1000))


def _bottleneck(net: NetworkBuilder, name: str, value: Tensor, width: int, halves: bool) -> Tensor:
    """Block of 1x1, 3x3, 1x1, and a sum with the input, fitted by a 1x1 convolution if needed."""
    stride = 2 if halves else 1
    inner = net.convolution(f"{name}.conv1", value, width)
    inner = net.convolution(
        f"{name}.conv2", inner, width, kernel=(3, 3), stride=stride, padding=(1, 1)
    )
    wide = net.convolution(f"{name}.conv3", inner, _WIDENING * width, activation=Activation.NONE)
    shortcut = value
    if value.channels != wide.channels:
        shortcut = net.convolution(
            f"{name}.shortcut", value, wide.channels, stride=stride, activation=Activation.NONE
        )
    return net.relu(f"{name}.relu", net.combine(f"{name}.sum", [[wide, shortcut]]))
