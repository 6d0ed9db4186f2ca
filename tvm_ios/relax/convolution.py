"""Recognition, by notes, of kernels that are one plain convolution and pointwise steps after it.

Such a kernel can be merged with others of the same operand: weights padded and laid one after
another along the output channels, and every per-channel argument (bias, scale) likewise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from tvm import relax

from tvm_ios.core.fused_function import FusedFunction, PrimitiveCall
from tvm_ios.core.graph import Convolution

__all__ = ["OPERATORS", "ConvolutionPattern", "describe_convolution", "match_convolution"]

LAYOUTS = frozenset({("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC")})


def _clip(data: relax.Expr, *, a_min: float, a_max: float) -> relax.Expr:
    return relax.op.clip(data, a_min, a_max)


OPERATORS: Mapping[str, Callable[..., relax.Expr]] = MappingProxyType(
    {
        "add": relax.op.add,
        "subtract": relax.op.subtract,
        "multiply": relax.op.multiply,
        "divide": relax.op.divide,
        "maximum": relax.op.maximum,
        "minimum": relax.op.minimum,
        "power": relax.op.power,
        "clip": _clip,
        "sigmoid": relax.op.sigmoid,
        "tanh": relax.op.tanh,
        "erf": relax.op.erf,
        "exp": relax.op.exp,
        "log": relax.op.log,
        "nn.relu": relax.op.nn.relu,
        "nn.leaky_relu": relax.op.nn.leakyrelu,
        "nn.silu": relax.op.nn.silu,
        "nn.gelu": relax.op.nn.gelu,
        "nn.gelu_tanh": relax.op.nn.gelu_tanh,
    }
)
"""Operators that work element by element, by their names in notes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionPattern:
    """Parts of a fused convolution, as positions among the kernel's arguments."""

    function: FusedFunction
    convolution: PrimitiveCall
    data: int
    weight: int
    channelwise: tuple[int, ...]
    """Arguments with one value an output channel, in the order the steps read them."""
    epilogue: str
    """Text of the steps without per-channel values; equal texts mean equal steps."""

    @property
    def channel_axis(self) -> int:
        """Axis of the output with channels, or blocks of them."""
        return _letters(self.convolution, "data_layout").index("C")

    @property
    def block(self) -> int:
        """Channels of a block, as in ``NCHW16c``; 1 where they are in none."""
        letters = _letters(self.convolution, "data_layout")
        shape = self.convolution.result.shape
        return shape[letters.index("c")] if "c" in letters else 1

    @property
    def kernel_axes(self) -> tuple[int, int, int]:
        """Axes of the weight with output channels, rows and columns."""
        letters = _letters(self.convolution, "kernel_layout")
        return letters.index("O"), letters.index("H"), letters.index("W")


def match_convolution(
    function: FusedFunction | None, fixed: Sequence[np.ndarray | None]
) -> ConvolutionPattern | None:
    """Pattern of a noted kernel; None where it is anything but such a convolution.

    ``fixed`` are the arguments of the kernel that are constants, None for tensors.
    """
    if function is None or any(function.stored) or function.rounded_to is not None:
        return None  # merged weights would have to be stored in these types as well
    numbers = len(function.parameters)
    results = range(numbers, numbers + len(function.calls))
    made = dict(zip(results, function.calls, strict=True))
    spine = [result for result in results if made[result].operator != "constant"]
    if not spine or not _is_plain(made[spine[0]]):
        return None
    convolution = made[spine[0]]
    data, weight = convolution.operands
    channelwise: list[int] = []
    epilogue: list[str] = []
    for before, result in itertools.pairwise(spine):
        described = _describe_step(function, made, before, result, convolution)
        if described is None:
            return None
        epilogue.append(described[0])
        channelwise += described[1]
    used = [data, weight, *channelwise]
    if sorted(used) != list(range(numbers)):
        return None
    if fixed[data] is not None or any(fixed[index] is None for index in used[1:]):
        return None
    return ConvolutionPattern(
        function=function,
        convolution=convolution,
        data=data,
        weight=weight,
        channelwise=tuple(channelwise),
        epilogue="; ".join(epilogue),
    )


def _describe_step(
    function: FusedFunction,
    made: Mapping[int, PrimitiveCall],
    before: int,
    result: int,
    convolution: PrimitiveCall,
) -> tuple[str, list[int]] | None:
    """Text of a pointwise step that reads the step before it, and its per-channel parameters."""
    step, shape = made[result], convolution.result.shape
    if step.operator not in OPERATORS or step.result.shape != shape:
        return None
    letters = _letters(convolution, "data_layout")
    axes = [axis for axis, letter in enumerate(letters) if letter in "Cc"]
    words: list[str] = []
    extra: list[int] = []
    for operand in step.operands:
        if operand == before:
            words.append("%")
        elif operand in made and made[operand].operator == "constant":
            number = made[operand]
            words.append(f"{number.attribute('value')!r}:{number.result.dtype}")
        elif operand not in made and _is_channelwise(
            function.parameters[operand].shape, shape, axes
        ):
            # Members of a merge have theirs joined, which needs as many axes of each.
            given = function.parameters[operand]
            words.append(f"channels[{len(given.shape)}]:{given.dtype}")
            extra.append(operand)
        else:
            return None
    if words.count("%") != 1:
        return None
    text = f"{step.operator}({', '.join(words)}, {step.attributes}) -> {step.result.dtype}"
    return text, extra


def describe_convolution(pattern: ConvolutionPattern, operand: str) -> Convolution:
    """Convolution for the merge rule; ``operand`` names the tensor that it reads."""
    convolution = pattern.convolution
    layouts = [str(convolution.attribute(name)) for name in _LAYOUTS]
    data, weight = (pattern.function.parameters[each] for each in (pattern.data, pattern.weight))
    types = [data.dtype, weight.dtype, convolution.result.dtype]
    extents = dict(zip(_letters(convolution, "data_layout"), data.shape, strict=True))
    window = dict(zip(_letters(convolution, "kernel_layout"), weight.shape, strict=True))
    first, second = convolution.wholes("strides")
    down, across = convolution.wholes("dilation")
    top, left, bottom, right = convolution.wholes("padding")
    return Convolution(
        operand=operand,
        plain_operand=True,
        input_shape=(extents["C"] * extents.get("c", 1), extents["H"], extents["W"]),
        out_channels=window["O"] * window.get("o", 1),
        kernel=(window["H"], window["W"]),
        strides=(first, second),
        padding=(top, left, bottom, right),
        dilation=(down, across),
        groups=convolution.wholes("groups")[0],
        epilogue=pattern.epilogue,
        layout="/".join([*layouts, *types]),
    )


_LAYOUTS = ("data_layout", "kernel_layout", "out_layout")


def _is_plain(convolution: PrimitiveCall) -> bool:
    if convolution.operator != "nn.conv2d":
        return False
    data, kernel, out = (str(convolution.attribute(name)) for name in _LAYOUTS)
    blocked = "".join(_letters(convolution, "data_layout")) == "NCHWc"
    in_blocks = blocked and "".join(_letters(convolution, "kernel_layout")) == "OIHWio"
    return (data, kernel, out) in LAYOUTS or (in_blocks and data == out)


def _letters(convolution: PrimitiveCall, name: str) -> list[str]:
    """Axes of a layout such as ``NCHW16c``, without sizes of blocks."""
    return [letter for letter in str(convolution.attribute(name)) if letter.isalpha()]


def _is_channelwise(own: tuple[int, ...], shape: tuple[int, ...], axes: list[int]) -> bool:
    """True if an argument has one value for each channel of a result of this shape."""
    wanted = tuple(extent if each in axes else 1 for each, extent in enumerate(shape))
    # A shape without the leading ones broadcasts just the same.
    leading = len(shape) - len(own)
    return 0 <= leading <= axes[0] and own == wanted[leading:]
