"""SqueezeNet 1.0 with complex bypass (Iandola et al., 2016), as the IOS paper benchmarks it.

There is no rectifier after the sum of a fire module and its bypass, as in the published IOS.
50 schedule units.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.models.builder import NetworkBuilder, Pooling, Tensor
from tvm_ios.models.weights import Network

__all__ = ["squeezenet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fire:
    squeeze: int
    expand: int
    """Number of channels of each of the two expansions."""
    pooled: bool = False
    """True if a max pooling comes before the module."""


_FIRES = (
    _Fire(squeeze=16, expand=64),
    _Fire(squeeze=16, expand=64),
    _Fire(squeeze=32, expand=128),
    _Fire(squeeze=32, expand=128, pooled=True),
    _Fire(squeeze=48, expand=192),
    _Fire(squeeze=48, expand=192),
    _Fire(squeeze=64, expand=256),
    _Fire(squeeze=64, expand=256, pooled=True),
)


def squeezenet(*, batch_size: int = 1, image_size: int = 224, seed: int = 0) -> Network:
    """SqueezeNet with complex bypass, for images of at least 29 pixels.

    ``main`` maps ``(batch_size, 3, image_size, image_size)`` to ``(batch_size, 1000, 1, 1)``.
    """
    net = NetworkBuilder(
        batch_size=batch_size, channels=3, height=image_size, width=image_size, seed=seed
    )
    value = net.convolution("conv1", net.input, 96, kernel=(7, 7), stride=2, padding=(3, 3))
    value = net.pool("pool1", value, Pooling.MAX, stride=2)
    for number, fire in enumerate(_FIRES, start=2):
        if fire.pooled:
            value = net.pool(f"pool{number - 1}", value, Pooling.MAX, stride=2)
        value = _fire(net, f"fire{number}", value, fire)
    value = net.convolution("conv10", value, 1000)
    return net.finish(net.global_average("pool10", value))


def _fire(net: NetworkBuilder, name: str, value: Tensor, fire: _Fire) -> Tensor:
    squeezed = net.convolution(f"{name}.squeeze", value, fire.squeeze)
    wide = net.convolution(
        f"{name}.expand3x3", squeezed, fire.expand, kernel=(3, 3), padding=(1, 1)
    )
    narrow = net.convolution(f"{name}.expand1x1", squeezed, fire.expand)
    joined = net.combine(f"{name}.concat", [[wide], [narrow]])
    bypass = value
    if value.channels != joined.channels:
        bypass = net.convolution(f"{name}.bypass", value, joined.channels)
    return net.combine(f"{name}.sum", [[joined, bypass]])
