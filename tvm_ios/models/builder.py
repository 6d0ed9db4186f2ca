"""Build a network in Relay, one schedule unit at a time.

Every call of a unit carries the unit's name as its Relay span, the way TVM's own frontends record
the layer a call came from. Units can therefore be counted from the module alone
(:mod:`tvm_ios.models.count`), and a profile of the network names layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import tvm
from tvm import relay

from tvm_ios.errors import OptionError

__all__ = ["Network", "NetworkBuilder", "Pooling", "Tensor"]

Network = tuple[tvm.IRModule, dict[str, tvm.nd.NDArray]]
"""A module whose ``main`` takes the image and the weights, and the weights by name."""


class Pooling(Enum):
    """What a pooling window computes. An average counts the padding, as the published IOS does."""

    MAX = "max"
    AVERAGE = "average"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A float32 NCHW value of the network under construction."""

    expr: relay.Expr
    channels: int
    height: int
    width: int


class NetworkBuilder:
    """Emits units in program order; each public method but :meth:`finish` emits one unit.

    Parameters
    ----------
    batch_size
        Images in the input.
    channels, height, width
        Shape of one image.
    seed
        Seeds the weights; equal seeds and equal calls give equal weights.

    Raises
    ------
    OptionError
        If a size is not positive.
    """

    def __init__(
        self, *, batch_size: int, channels: int, height: int, width: int, seed: int
    ) -> None:
        if min(batch_size, channels, height, width) < 1:
            raise OptionError(
                f"network input {batch_size}x{channels}x{height}x{width} is empty; "
                "batch size, channels, height and width must all be at least 1"
            )
        self._random = np.random.default_rng(seed)
        self._variables = [relay.var("data", shape=(batch_size, channels, height, width))]
        self._params: dict[str, tvm.nd.NDArray] = {}
        self.input = Tensor(self._variables[0], channels, height, width)

    def finish(self, output: Tensor) -> Network:
        """The module that computes ``output``, type-checked, and its weights."""
        module = tvm.IRModule.from_expr(relay.Function(self._variables, output.expr))
        return relay.transform.InferType()(module), self._params

    def convolution(
        self,
        unit: str,
        operand: Tensor,
        out_channels: int,
        *,
        kernel: tuple[int, int] = (1, 1),
        stride: int = 1,
        padding: tuple[int, int] = (0, 0),
        activate: bool = True,
    ) -> Tensor:
        """Convolution and bias, then a rectifier if ``activate``."""
        output = self._convolve(
            unit, operand, out_channels, kernel=kernel, stride=stride, padding=padding
        )
        return self._relu(unit, output) if activate else output

    def relu_convolution(
        self, unit: str, operand: Tensor, out_channels: int, *, stride: int = 1
    ) -> Tensor:
        """The paper's ReluConv: a rectifier, then a 1x1 convolution and bias."""
        activated = self._relu(unit, operand)
        return self._convolve(unit, activated, out_channels, stride=stride)

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
        activated = self._relu(unit, self._sum(unit, operands))
        depthwise = self._convolve(
            unit,
            activated,
            activated.channels,
            part="depthwise.",
            kernel=(kernel, kernel),
            stride=stride,
            padding=(kernel // 2, kernel // 2),
            groups=activated.channels,
        )
        return self._convolve(unit, depthwise, out_channels, part="pointwise.")

    def pool(
        self,
        unit: str,
        operand: Tensor,
        pooling: Pooling,
        *,
        kernel: int = 3,
        stride: int = 1,
        padding: int = 0,
    ) -> Tensor:
        """Square pooling window; sizes round down."""
        height, width = (
            self._extent(unit, size, kernel, stride, padding)
            for size in (operand.height, operand.width)
        )
        if pooling is Pooling.MAX:
            call = relay.nn.max_pool2d(
                operand.expr, (kernel, kernel), (stride, stride), padding=(padding, padding)
            )
        else:
            call = relay.nn.avg_pool2d(
                operand.expr,
                (kernel, kernel),
                (stride, stride),
                padding=(padding, padding),
                count_include_pad=True,
            )
        return Tensor(_named(unit, call), operand.channels, height, width)

    def global_average(self, unit: str, operand: Tensor) -> Tensor:
        """Mean over height and width."""
        call = relay.nn.global_avg_pool2d(operand.expr)
        return Tensor(_named(unit, call), operand.channels, 1, 1)

    def relu(self, unit: str, operand: Tensor) -> Tensor:
        """A rectifier that is a unit of its own."""
        return self._relu(unit, operand)

    def combine(self, unit: str, terms: Sequence[Sequence[Tensor]]) -> Tensor:
        """Sum the tensors of each term, then concatenate the terms along the channels."""
        summed = [self._sum(unit, term) for term in terms]
        if len(summed) == 1:
            return summed[0]
        call = relay.concatenate([term.expr for term in summed], axis=1)
        channels = sum(term.channels for term in summed)
        return Tensor(_named(unit, call), channels, summed[0].height, summed[0].width)

    def _sum(self, unit: str, tensors: Sequence[Tensor]) -> Tensor:
        total, *others = tensors
        for other in others:
            call = relay.add(total.expr, other.expr)
            total = Tensor(_named(unit, call), total.channels, total.height, total.width)
        return total

    def _relu(self, unit: str, operand: Tensor) -> Tensor:
        call = _named(unit, relay.nn.relu(operand.expr))
        return Tensor(call, operand.channels, operand.height, operand.width)

    def _convolve(
        self,
        unit: str,
        operand: Tensor,
        out_channels: int,
        *,
        part: str = "",
        kernel: tuple[int, int] = (1, 1),
        stride: int = 1,
        padding: tuple[int, int] = (0, 0),
        groups: int = 1,
    ) -> Tensor:
        height = self._extent(unit, operand.height, kernel[0], stride, padding[0])
        width = self._extent(unit, operand.width, kernel[1], stride, padding[1])
        in_channels = operand.channels // groups
        bound = 1 / math.sqrt(kernel[0] * kernel[1] * in_channels)
        weight = self._weight(f"{unit}.{part}weight", (out_channels, in_channels, *kernel), bound)
        bias = self._weight(f"{unit}.{part}bias", (out_channels,), bound)
        convolved = relay.nn.conv2d(
            operand.expr,
            weight,
            strides=(stride, stride),
            padding=padding,
            groups=groups,
            channels=out_channels,
            kernel_size=kernel,
        )
        biased = relay.nn.bias_add(_named(unit, convolved), bias)
        return Tensor(_named(unit, biased), out_channels, height, width)

    def _weight(self, name: str, shape: tuple[int, ...], bound: float) -> relay.Var:
        values = self._random.random(shape, dtype=np.float32)
        self._params[name] = tvm.nd.array((values * 2 - 1) * np.float32(bound))
        self._variables.append(relay.var(name, shape=shape))
        return self._variables[-1]

    def _extent(self, unit: str, size: int, kernel: int, stride: int, padding: int) -> int:
        extent = (size + 2 * padding - kernel) // stride + 1
        if extent < 1:
            raise OptionError(
                f"layer {unit!r}: a window of {kernel} with padding {padding} does not fit an "
                f"input of {size}; choose a larger image"
            )
        return extent


def _named(unit: str, call: relay.Call) -> relay.Call:
    span = relay.Span(relay.SourceName(unit), 0, 0, 0, 0)
    return relay.Call(call.op, call.args, call.attrs, call.type_args, span)
