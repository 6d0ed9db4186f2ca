"""Builder of a network, one schedule unit at a time.

Every call of a unit carries the unit's name as its span in Relay, as TVM's own frontends record the
layer of a call. So units can be counted from the module alone (:mod:`tests.models.count`), and a
profile of the network names layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Self

from tvm_ios.errors import OptionError
from tvm_ios.models.activation import Activation, activated
from tvm_ios.models.operators import op
from tvm_ios.models.weights import Network, Weights, named

__all__ = ["KEEPS_SIGNAL", "NetworkBuilder", "Pooling", "Tensor", "Vector"]

KEEPS_SIGNAL = math.sqrt(6)
"""Gain with which rectified layers keep the size of their signal (He et al., ICCV 2015)."""
_UNIT_VARIANCE = math.sqrt(3)
"""Bound of a uniform distribution around 0 whose variance is 1."""


class Pooling(Enum):
    """Kind of a pooling window. An average counts the padding, as the published IOS does."""

    MAX = "max"
    AVERAGE = "average"


@dataclass(frozen=True, slots=True)
class Tensor:
    """Float32 value of the network under construction, NCHW."""

    expr: Any
    channels: int
    height: int
    width: int


@dataclass(frozen=True, slots=True)
class Vector:
    """Float32 value of the network under construction, (images, features)."""

    expr: Any
    features: int


class NetworkBuilder:
    """Builder that emits units in program order; each method but :meth:`finish` emits one.

    Parameters
    ----------
    gain
        Largest weight times the root of the number of inputs of an output. With 1 the signal
        shrinks layer by layer, as in the published benchmark; :data:`KEEPS_SIGNAL` keeps it.

    Raises
    ------
    OptionError
        If a size is not positive.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        channels: int,
        height: int,
        width: int,
        seed: int,
        gain: float = 1.0,
    ) -> None:
        if min(batch_size, channels, height, width) < 1:
            raise OptionError(
                f"network input {batch_size}x{channels}x{height}x{width} is empty; "
                "batch size, channels, height and width must all be at least 1"
            )
        data = op.var("data", shape=(batch_size, channels, height, width))
        self._weights = Weights(data, seed)
        self._gain = gain
        self.input = Tensor(data, channels, height, width)

    @classmethod
    def of_images(cls, *, batch_size: int, image_size: int, seed: int) -> Self:
        """A network of square images with three channels, whose weights keep the signal."""
        return cls(
            batch_size=batch_size,
            channels=3,
            height=image_size,
            width=image_size,
            seed=seed,
            gain=KEEPS_SIGNAL,
        )

    def finish(self, output: Tensor | Vector) -> Network:
        """Module that computes ``output``, type-checked, and its weights."""
        return self._weights.network(output.expr)

    def convolution(
        self,
        unit: str,
        operand: Tensor,
        out_channels: int,
        *,
        kernel: tuple[int, int] = (1, 1),
        stride: int = 1,
        padding: tuple[int, int] = (0, 0),
        groups: int = 1,
        activation: Activation = Activation.RELU,
        part: str = "",
    ) -> Tensor:
        """Convolution and bias, then the activation; ``part`` goes into the names of weights."""
        height = self._extent(unit, operand.height, kernel[0], stride, padding[0])
        width = self._extent(unit, operand.width, kernel[1], stride, padding[1])
        in_channels = operand.channels // groups
        inputs = kernel[0] * kernel[1] * in_channels
        weight = self._weights.draw(
            f"{unit}.{part}weight",
            (out_channels, in_channels, *kernel),
            self._gain / math.sqrt(inputs),
        )
        bias = self._bias(f"{unit}.{part}".removesuffix("."), out_channels, inputs)
        convolved = op.nn.conv2d(
            operand.expr,
            weight,
            strides=(stride, stride),
            padding=padding,
            groups=groups,
            channels=out_channels,
            kernel_size=kernel,
        )
        biased = named(unit, op.nn.bias_add(named(unit, convolved), bias))
        return self._activate(unit, Tensor(biased, out_channels, height, width), activation)

    def transposed_convolution(self, unit: str, operand: Tensor, out_channels: int) -> Tensor:
        """Transposed 2x2 convolution of stride 2 and bias: doubles height and width."""
        bound = self._gain / math.sqrt(operand.channels)
        weight = self._weights.draw(f"{unit}.weight", (operand.channels, out_channels, 2, 2), bound)
        bias = self._bias(unit, out_channels, operand.channels)
        call = op.nn.conv2d_transpose(
            operand.expr, weight, strides=(2, 2), channels=out_channels, kernel_size=(2, 2)
        )
        biased = named(unit, op.nn.bias_add(named(unit, call), bias))
        return Tensor(biased, out_channels, 2 * operand.height, 2 * operand.width)

    def scale_shift(self, unit: str, operand: Tensor) -> Tensor:
        """Batch normalisation with folded statistics, then a rectifier.

        Each channel is multiplied by a weight, and another weight is added.
        """
        shape = (operand.channels, 1, 1)
        scale = self._weights.draw(f"{unit}.scale", shape, _UNIT_VARIANCE)
        shift = self._weights.draw(f"{unit}.shift", shape, 1.0)
        scaled = named(unit, op.multiply(operand.expr, scale))
        shifted = named(unit, op.add(scaled, shift))
        normal = Tensor(shifted, operand.channels, operand.height, operand.width)
        return self._activate(unit, normal, Activation.RELU)

    def gate(self, unit: str, operand: Tensor, gates: Tensor) -> Tensor:
        """Product of each channel of each image with its gate; gates have one row, one column."""
        gated = named(unit, op.multiply(operand.expr, gates.expr))
        return Tensor(gated, operand.channels, operand.height, operand.width)

    def flatten(self, unit: str, operand: Tensor) -> Vector:
        """Vector of an image's channels, rows and columns."""
        features = operand.channels * operand.height * operand.width
        return Vector(named(unit, op.nn.batch_flatten(operand.expr)), features)

    def dense(
        self,
        unit: str,
        operand: Vector,
        out_features: int,
        *,
        activation: Activation = Activation.NONE,
    ) -> Vector:
        """Product with a matrix of weights and bias, then the activation."""
        bound = self._gain / math.sqrt(operand.features)
        weight = self._weights.draw(f"{unit}.weight", (out_features, operand.features), bound)
        bias = self._bias(unit, out_features, operand.features)
        product = named(unit, op.nn.dense(operand.expr, weight))
        biased = named(unit, op.nn.bias_add(product, bias))
        return Vector(activated(unit, biased, activation), out_features)

    def relu_convolution(
        self, unit: str, operand: Tensor, out_channels: int, *, stride: int = 1
    ) -> Tensor:
        """The paper's ReluConv: a rectifier, then a 1x1 convolution and bias."""
        activated = self._activate(unit, operand, Activation.RELU)
        return self.convolution(
            unit, activated, out_channels, stride=stride, activation=Activation.NONE
        )

    def relu_separable_convolution(
        self,
        unit: str,
        operands: Sequence[Tensor],
        out_channels: int,
        *,
        kernel: int = 3,
        stride: int = 1,
    ) -> Tensor:
        """The paper's ReluSepConv over a sum: rectifier, depthwise kxk, pointwise 1x1."""
        activated = self._activate(unit, self._sum(unit, operands), Activation.RELU)
        depthwise = self.convolution(
            unit,
            activated,
            activated.channels,
            kernel=(kernel, kernel),
            stride=stride,
            padding=(kernel // 2, kernel // 2),
            groups=activated.channels,
            activation=Activation.NONE,
            part="depthwise.",
        )
        return self.convolution(
            unit, depthwise, out_channels, activation=Activation.NONE, part="pointwise."
        )

    def pool(
        self,
        unit: str,
        operand: Tensor,
        pooling: Pooling,
        *,
        kernel: int = 3,
        stride: int = 1,
        padding: int = 0,
        round_up: bool = False,
    ) -> Tensor:
        """Square pooling window; sizes round down, or up, the last window cut off at the edge."""
        height, width = (
            self._extent(unit, size, kernel, stride, padding, round_up=round_up)
            for size in (operand.height, operand.width)
        )
        make = op.nn.max_pool2d
        if pooling is Pooling.AVERAGE:
            make = partial(op.nn.avg_pool2d, count_include_pad=True)
        call = make(
            operand.expr,
            (kernel, kernel),
            (stride, stride),
            padding=(padding, padding),
            ceil_mode=round_up,
        )
        return Tensor(named(unit, call), operand.channels, height, width)

    def global_average(self, unit: str, operand: Tensor) -> Tensor:
        """Mean of each channel over height and width."""
        call = op.nn.global_avg_pool2d(operand.expr)
        return Tensor(named(unit, call), operand.channels, 1, 1)

    def relu(self, unit: str, operand: Tensor) -> Tensor:
        """Rectifier as a unit of its own."""
        return self._activate(unit, operand, Activation.RELU)

    def combine(self, unit: str, terms: Sequence[Sequence[Tensor]]) -> Tensor:
        """Sum the tensors of each term, then concatenate the terms along the channels."""
        summed = [self._sum(unit, term) for term in terms]
        if len(summed) == 1:
            return summed[0]
        call = op.concatenate([term.expr for term in summed], axis=1)
        channels = sum(term.channels for term in summed)
        return Tensor(named(unit, call), channels, summed[0].height, summed[0].width)

    def _sum(self, unit: str, tensors: Sequence[Tensor]) -> Tensor:
        total, *others = tensors
        for other in others:
            call = op.add(total.expr, other.expr)
            total = Tensor(named(unit, call), total.channels, total.height, total.width)
        return total

    def _activate(self, unit: str, operand: Tensor, activation: Activation) -> Tensor:
        expr = activated(unit, operand.expr, activation)
        return Tensor(expr, operand.channels, operand.height, operand.width)

    def _bias(self, name: str, size: int, inputs: int) -> Any:
        return self._weights.draw(f"{name}.bias", (size,), 1 / math.sqrt(inputs))

    def _extent(
        self,
        unit: str,
        size: int,
        kernel: int,
        stride: int,
        padding: int,
        *,
        round_up: bool = False,
    ) -> int:
        steps = size + 2 * padding - kernel
        extent = (-(-steps // stride) if round_up else steps // stride) + 1
        if extent < 1:
            raise OptionError(
                f"layer {unit!r}: a window of {kernel} with padding {padding} does not fit an "
                f"input of {size}; choose a larger image"
            )
        return extent
