"""GoogLeNet (Szegedy et al., CVPR 2015) as torchvision has it.

That is with batch normalisation (folded into the convolutions here), a 3x3 convolution in place of
the paper's 5x5 one, and no auxiliary classifiers. The classifier has 1000 classes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.models.builder import NetworkBuilder, Pooling, Tensor
from tvm_ios.models.weights import Network

__all__ = ["googlenet"]


@dataclass(frozen=True, slots=True)
class _Inception:
    """Output channels of a module's convolutions, as in table 1 of the paper from left to right."""

    name: str
    narrow: int
    reduce3: int
    wide3: int
    reduce5: int
    wide5: int
    pooled: int


_BLOCKS = (
    (
        _Inception("3a", 64, 96, 128, 16, 32, 32),
        _Inception("3b", 128, 128, 192, 32, 96, 64),
    ),
    (
        _Inception("4a", 192, 96, 208, 16, 48, 64),
        _Inception("4b", 160, 112, 224, 24, 64, 64),
        _Inception("4c", 128, 128, 256, 24, 64, 64),
        _Inception("4d", 112, 144, 288, 32, 64, 64),
        _Inception("4e", 256, 160, 320, 32, 128, 128),
    ),
    (
        _Inception("5a", 256, 160, 320, 32, 128, 128),
        _Inception("5b", 384, 192, 384, 48, 128, 128),
    ),
)
"""Modules by group; a max pooling comes between the groups."""


def googlenet(*, batch_size: int = 1, image_size: int = 224, seed: int = 0) -> Network:
    """GoogLeNet with its classifier, for images of at least 15 pixels.

    ``main`` maps ``(batch_size, 3, image_size, image_size)`` to ``(batch_size, 1000)``.
    """
    net = NetworkBuilder.of_images(batch_size=batch_size, image_size=image_size, seed=seed)
    value = net.convolution("conv1", net.input, 64, kernel=(7, 7), stride=2, padding=(3, 3))
    value = _halving_pool(net, "pool1", value)
    value = net.convolution("conv2", value, 64)
    value = net.convolution("conv3", value, 192, kernel=(3, 3), padding=(1, 1))
    value = _halving_pool(net, "pool2", value)
    first, second, third = _BLOCKS
    for block in first:
        value = _inception(net, value, block)
    value = _halving_pool(net, "pool3", value)
    for block in second:
        value = _inception(net, value, block)
    value = _halving_pool(net, "pool4", value, kernel=2)
    for block in third:
        value = _inception(net, value, block)
    pooled = net.global_average("pool", value)
    return net.finish(net.dense("classifier", net.flatten("flatten", pooled), 1000))


def _halving_pool(net: NetworkBuilder, name: str, value: Tensor, kernel: int = 3) -> Tensor:
    return net.pool(name, value, Pooling.MAX, kernel=kernel, stride=2, round_up=True)


def _inception(net: NetworkBuilder, value: Tensor, block: _Inception) -> Tensor:
    def wide(label: str, operand: Tensor, channels: int) -> Tensor:
        return net.convolution(
            f"{block.name}.{label}", operand, channels, kernel=(3, 3), padding=(1, 1)
        )

    def narrow(label: str, operand: Tensor, channels: int) -> Tensor:
        return net.convolution(f"{block.name}.{label}", operand, channels)

    branches = [
        narrow("b0", value, block.narrow),
        wide("b1.conv", narrow("b1.reduce", value, block.reduce3), block.wide3),
        wide("b2.conv", narrow("b2.reduce", value, block.reduce5), block.wide5),
        narrow(
            "b3",
            net.pool(f"{block.name}.b3.pool", value, Pooling.MAX, padding=1, round_up=True),
            block.pooled,
        ),
    ]
    return net.combine(f"{block.name}.concat", [[branch] for branch in branches])
