"""Recognition of fused functions that are one plain convolution and pointwise steps after it.

Such a function can be merged with others of the same operand: weights padded and laid one after
another along the output channels, and every per-channel argument (bias, scale) likewise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm_ios.core.fused_function import FusedFunction, PrimitiveCall
from tvm_ios.core.graph import Convolution

__all__ = ["IN_BLOCKS", "ConvolutionPattern", "match_convolution"]

IN_BLOCKS = "nn.contrib_conv2d_NCHWc"
"""Relay's convolution of channels in blocks."""
PLAIN = frozenset({("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC")})
LAYOUTS = ("data_layout", "kernel_layout", "out_layout")
REWRITTEN = ("auto_scheduler_rewritten_layout", "meta_schedule_original_shape")
"""Attributes of convolutions whose weights a tuner has laid out anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionPattern:
    """Parts of a fused convolution, as positions among the function's parameters."""

    function: FusedFunction
    convolution: PrimitiveCall
    data: int
    weight: int
    channelwise: tuple[int, ...]
    """Parameters with one value an output channel, in the order the steps read them."""
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

    def described(self, operand: str) -> Convolution:
        """Convolution for the merge rule; ``operand`` names the tensor that it reads."""
        convolution = self.convolution
        layouts = [str(convolution.attribute(name)) for name in LAYOUTS]
        data, weight = (self.function.parameters[each] for each in (self.data, self.weight))
        types = [data.dtype, weight.dtype, convolution.result.dtype]
        extents = dict(zip(_letters(convolution, "data_layout"), data.shape, strict=True))
        window = dict(zip(_letters(convolution, "kernel_layout"), weight.shape, strict=True))
        first, second = convolution.wholes("strides")
        down, across = convolution.wholes("dilation")
        padding = convolution.wholes("padding")
        top, left, bottom, right = padding * (4 // len(padding))
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
            epilogue=self.epilogue,
            layout="/".join([*layouts, *types]),
        )


def match_convolution(
    function: FusedFunction, is_pointwise: Callable[[str], bool]
) -> ConvolutionPattern | None:
    """Pattern of a function; None where it is anything but such a convolution.

    ``is_pointwise`` is True of operators, by name, that a dialect merges as steps.
    """
    numbers = len(function.parameters)
    made = {function.result_of(n): call for n, call in enumerate(function.calls)}
    spine = [result for result in made if made[result].operator != "constant"]
    if not spine or not _is_plain(made[spine[0]]):
        return None
    convolution = made[spine[0]]
    data, weight = convolution.operands
    channelwise: list[int] = []
    epilogue: list[str] = []
    for before, result in itertools.pairwise(spine):
        if not is_pointwise(made[result].operator):
            return None
        described = _describe_step(function, made, before, result, convolution)
        if described is None:
            return None
        epilogue.append(described[0])
        channelwise += described[1]
    if sorted([data, weight, *channelwise]) != list(range(numbers)):
        return None
    if function.rounded_to is not None:
        epilogue.append(function.rounded_to.as_text())
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
    if step.result.shape != shape:
        return None
    letters = _letters(convolution, "data_layout")
    axes = [axis for axis, letter in enumerate(letters) if letter in "Cc"]
    words: list[str] = []
    extra: list[int] = []
    for operand in step.operands:
        if operand == before:
            words.append("%")
        elif operand in made:
            number = made[operand].attribute("value")
            if made[operand].operator != "constant" or number is None:
                return None
            words.append(f"{number!r}:{made[operand].result.dtype}")
        elif _is_channelwise(step, function.parameters[operand].shape, shape, axes):
            # Members of a merge have theirs joined, which needs as many axes of each.
            given = function.parameters[operand]
            words.append(f"channels[{len(given.shape)}]:{given.dtype}")
            extra.append(operand)
        else:
            return None
    if words.count("%") != 1:
        return None
    words += [f"{name}={value}" for name, value in step.attributes]
    return f"{step.operator}({', '.join(words)}) -> {step.result.dtype}", extra


def _is_plain(convolution: PrimitiveCall) -> bool:
    if any(convolution.attribute(name) for name in REWRITTEN):
        return False
    data, kernel, out = (str(convolution.attribute(name)) for name in LAYOUTS)
    in_blocks = "".join(_letters(convolution, "data_layout")) == "NCHWc" and (
        "".join(_letters(convolution, "kernel_layout")) == "OIHWio"
    )
    if convolution.operator == IN_BLOCKS:
        return in_blocks
    layouts = (data, kernel, out or data)
    return convolution.operator == "nn.conv2d" and (layouts in PLAIN or (in_blocks and data == out))


def _letters(convolution: PrimitiveCall, name: str) -> list[str]:
    """Axes of a layout such as ``NCHW16c``, without sizes of blocks."""
    return [letter for letter in str(convolution.attribute(name)) if letter.isalpha()]


def _is_channelwise(
    step: PrimitiveCall, own: tuple[int, ...], shape: tuple[int, ...], axes: list[int]
) -> bool:
    """True if an argument has one value for each channel of a result of this shape."""
    if step.operator == "nn.bias_add":
        axis = step.wholes("axis")[0] % len(shape)
        return axes == [axis] and own == (shape[axis],)
    wanted = tuple(extent if each in axes else 1 for each, extent in enumerate(shape))
    # A shape without the leading ones broadcasts just the same.
    leading = len(shape) - len(own)
    return 0 <= leading <= axes[0] and own == wanted[leading:]
