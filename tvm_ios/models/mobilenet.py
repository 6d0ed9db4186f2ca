"""MobileNetV2 (Sandler et al., CVPR 2018) and MobileNetV3-Large (Howard et al., ICCV 2019).

Both are chains of inverted residuals: 1x1 to more channels, depthwise, 1x1 to few. Batch
normalisation is folded into the convolutions. The classifier has 1000 classes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.models.activation import Activation
from tvm_ios.models.builder import NetworkBuilder, Tensor
from tvm_ios.models.weights import Network

__all__ = ["mobilenet_v2", "mobilenet_v3_large"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Residual:
    """An inverted residual; its input is added where the output has the same shape."""

    wide: int
    """Number of channels of the depthwise convolution."""
    out: int
    kernel: int = 3
    stride: int = 1
    squeezes: bool = False
    """True if gates scale the channels behind the depthwise convolution."""
    activation: Activation


def mobilenet_v2(*, batch_size: int = 1, image_size: int = 224, seed: int = 0) -> Network:
    """MobileNetV2 with its classifier, width 1.

    ``main`` maps ``(batch_size, 3, image_size, image_size)`` to ``(batch_size, 1000)``.
    """
    net = NetworkBuilder.of_images(batch_size=batch_size, image_size=image_size, seed=seed)
    value = _stem(net, 32, Activation.RELU6)
    number = 0
    # Times wider, output channels, repetitions, stride of the first one: table 2 of the paper.
    for times, out, repetitions, stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for repetition in range(repetitions):
            number += 1
            residual = _Residual(
                wide=times * value.channels,
                out=out,
                stride=1 if repetition else stride,
                activation=Activation.RELU6,
            )
            value = _residual(net, f"block{number}", value, residual)
    value = net.convolution("last", value, 1280, activation=Activation.RELU6)
    pooled = net.global_average("pool", value)
    return net.finish(net.dense("classifier", net.flatten("flatten", pooled), 1000))


_RE, _HS = Activation.RELU, Activation.HARD_SWISH
_LARGE = (
    _Residual(wide=16, out=16, activation=_RE),
    _Residual(wide=64, out=24, stride=2, activation=_RE),
    _Residual(wide=72, out=24, activation=_RE),
    _Residual(wide=72, out=40, kernel=5, stride=2, squeezes=True, activation=_RE),
    _Residual(wide=120, out=40, kernel=5, squeezes=True, activation=_RE),
    _Residual(wide=120, out=40, kernel=5, squeezes=True, activation=_RE),
    _Residual(wide=240, out=80, stride=2, activation=_HS),
    _Residual(wide=200, out=80, activation=_HS),
    _Residual(wide=184, out=80, activation=_HS),
    _Residual(wide=184, out=80, activation=_HS),
    _Residual(wide=480, out=112, squeezes=True, activation=_HS),
    _Residual(wide=672, out=112, squeezes=True, activation=_HS),
    _Residual(wide=672, out=160, kernel=5, stride=2, squeezes=True, activation=_HS),
    _Residual(wide=960, out=160, kernel=5, squeezes=True, activation=_HS),
    _Residual(wide=960, out=160, kernel=5, squeezes=True, activation=_HS),
)
"""Inverted residuals of MobileNetV3-Large, table 1 of the paper."""


def mobilenet_v3_large(*, batch_size: int = 1, image_size: int = 224, seed: int = 0) -> Network:
    """MobileNetV3-Large with its classifier, width 1; shapes as of :func:`mobilenet_v2`."""
    net = NetworkBuilder.of_images(batch_size=batch_size, image_size=image_size, seed=seed)
    value = _stem(net, 16, Activation.HARD_SWISH)
    for number, residual in enumerate(_LARGE, start=1):
        value = _residual(net, f"block{number}", value, residual)
    value = net.convolution("last", value, 960, activation=Activation.HARD_SWISH)
    features = net.flatten("flatten", net.global_average("pool", value))
    features = net.dense("hidden", features, 1280, activation=Activation.HARD_SWISH)
    return net.finish(net.dense("classifier", features, 1000))


def _stem(net: NetworkBuilder, channels: int, activation: Activation) -> Tensor:
    return net.convolution(
        "stem", net.input, channels, kernel=(3, 3), stride=2, padding=(1, 1), activation=activation
    )


def _residual(net: NetworkBuilder, name: str, value: Tensor, residual: _Residual) -> Tensor:
    inner = value
    if residual.wide != value.channels:
        inner = net.convolution(
            f"{name}.expand", inner, residual.wide, activation=residual.activation
        )
    inner = net.convolution(
        f"{name}.depthwise",
        inner,
        residual.wide,
        kernel=(residual.kernel, residual.kernel),
        stride=residual.stride,
        padding=(residual.kernel // 2, residual.kernel // 2),
        groups=residual.wide,
        activation=residual.activation,
    )
    if residual.squeezes:
        inner = _squeeze_excite(net, name, inner)
    inner = net.convolution(f"{name}.project", inner, residual.out, activation=Activation.NONE)
    if residual.stride == 1 and residual.out == value.channels:
        return net.combine(f"{name}.sum", [[inner, value]])
    return inner


def _squeeze_excite(net: NetworkBuilder, name: str, value: Tensor) -> Tensor:
    """Tensor with channels scaled by gates made of all channels' means (Hu et al., CVPR 2018)."""
    means = net.global_average(f"{name}.means", value)
    squeezed = net.convolution(f"{name}.squeeze", means, _multiple_of_8(value.channels / 4))
    gates = net.convolution(
        f"{name}.excite", squeezed, value.channels, activation=Activation.HARD_SIGMOID
    )
    return net.gate(f"{name}.gate", value, gates)


def _multiple_of_8(channels: float) -> int:
    """Nearest multiple of 8 that is not more than a tenth below, as the authors round."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * channels else rounded + 8
