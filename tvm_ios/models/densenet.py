"""DenseNet-121 (Huang et al., CVPR 2017): each layer reads the results of all before in its block.

The normalisation in front of a 3x3 convolution is folded into the 1x1 convolution before it;
normalisations that read several tensors stay, as a scale and a shift of each channel. The
classifier has 1000 classes.
"""

from __future__ import annotations

from tvm_ios.models.activation import Activation
from tvm_ios.models.builder import NetworkBuilder, Pooling, Tensor
from tvm_ios.models.weights import Network

__all__ = ["densenet_121"]

_LAYERS = (6, 12, 24, 16)
"""Number of layers of each block."""
_GROWTH = 32
"""Number of channels that each layer adds."""


def densenet_121(*, batch_size: int = 1, image_size: int = 224, seed: int = 0) -> Network:
    """DenseNet-121 with its classifier, for images of at least 29 pixels.

    ``main`` maps ``(batch_size, 3, image_size, image_size)`` to ``(batch_size, 1000)``.
    """
    net = NetworkBuilder.of_images(batch_size=batch_size, image_size=image_size, seed=seed)
    value = net.convolution("conv0", net.input, 64, kernel=(7, 7), stride=2, padding=(3, 3))
    value = net.pool("pool0", value, Pooling.MAX, stride=2, padding=1)
    for block, layers in enumerate(_LAYERS, start=1):
        if block > 1:
            value = _transition(net, f"transition{block - 1}", value)
        for layer in range(1, layers + 1):
            value = _layer(net, f"block{block}.layer{layer}", value)
    pooled = net.global_average("pool", net.scale_shift("norm", value))
    return net.finish(net.dense("classifier", net.flatten("flatten", pooled), 1000))


def _layer(net: NetworkBuilder, name: str, value: Tensor) -> Tensor:
    normal = net.scale_shift(f"{name}.norm", value)
    narrow = net.convolution(f"{name}.conv1", normal, 4 * _GROWTH)
    grown = net.convolution(
        f"{name}.conv2",
        narrow,
        _GROWTH,
        kernel=(3, 3),
        padding=(1, 1),
        activation=Activation.NONE,
    )
    return net.combine(f"{name}.concat", [[value], [grown]])


def _transition(net: NetworkBuilder, name: str, value: Tensor) -> Tensor:
    """Tensor with half the channels, height and width."""
    normal = net.scale_shift(f"{name}.norm", value)
    half = net.convolution(f"{name}.conv", normal, value.channels // 2, activation=Activation.NONE)
    return net.pool(f"{name}.pool", half, Pooling.AVERAGE, kernel=2, stride=2)
