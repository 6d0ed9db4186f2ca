"""Recognition of fused functions that are one plain convolution and pointwise steps after it.

Such a function can be merged with others of the same operand: kernels padded and laid one after
another along the output channels, and every per-channel argument (bias, scale) likewise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import tvm
from tvm import relay

from tvm_ios.core.graph import Convolution
from tvm_ios.relay.constants import is_array
from tvm_ios.relay.functions.primitive import call_attribute
from tvm_ios.relay.functions.stored_types import StoredFunction, computed_in_float32

__all__ = ["ConvolutionPattern", "describe_convolution", "match_convolution"]

CONVOLUTIONS = frozenset({"nn.conv2d", "nn.contrib_conv2d_NCHWc"})
POINTWISE = frozenset({0, 1})
"""Values of TVM's operator patterns kElemWise and kBroadcast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionPattern:
    """Parts of a fused convolution, as positions among the function's parameters."""

    stored: StoredFunction
    """The function in float32, and types that values have in memory."""
    convolution: relay.Call
    steps: tuple[relay.Call, ...]
    """Pointwise operators after the convolution, in the order they run."""
    data: int
    weight: int
    channelwise: tuple[int, ...]
    """Parameters with one value an output channel, in the order the steps read them."""
    epilogue: str
    """Text of the steps without per-channel values; equal texts mean equal steps."""

    @property
    def packed(self) -> bool:
        """True if data and weights are blocked, as in ``NCHW16c`` and ``OIHW16i16o``."""
        return len(self.convolution.checked_type.shape) == 5

    @property
    def channel_axis(self) -> int:
        """Axis of the output with channels, or blocks of them."""
        return _letters(str(call_attribute(self.convolution, "data_layout"))).index("C")

    @property
    def kernel_axes(self) -> tuple[int, int, int]:
        """Axes of the weight with output channels, rows and columns."""
        letters = _letters(str(call_attribute(self.convolution, "kernel_layout")))
        return letters.index("O"), letters.index("H"), letters.index("W")


def match_convolution(function: relay.Function) -> ConvolutionPattern | None:
    """Pattern of a fused, typed function; None where it is anything but such a convolution."""
    stored = computed_in_float32(function)
    function = stored.computed
    spine = _spine(function.body)
    if spine is None:
        return None
    convolution, *steps = spine
    positions = {parameter: index for index, parameter in enumerate(function.params)}
    if not _is_plain(convolution) or any(arg not in positions for arg in convolution.args):
        return None
    # Steps keep the layout: their shapes are that of the convolution's result.
    letters = _letters(str(call_attribute(convolution, "data_layout")))
    channel_axes = [axis for axis, letter in enumerate(letters) if letter in "Cc"]
    inner: relay.Expr = convolution
    channelwise: list[int] = []
    epilogue: list[str] = []
    for step in steps:
        described = _describe_step(step, inner, positions, channel_axes)
        if described is None:
            return None
        text, extra = described
        epilogue.append(text)
        channelwise.extend(extra)
        inner = step
    if stored.result is not None:
        epilogue.append(stored.result.as_text())
    data, weight = (positions[argument] for argument in convolution.args)
    used = [data, weight, *channelwise]
    if sorted(used) != list(range(len(function.params))):
        return None
    return ConvolutionPattern(
        stored=stored,
        convolution=convolution,
        steps=tuple(steps),
        data=data,
        weight=weight,
        channelwise=tuple(channelwise),
        epilogue="; ".join(epilogue),
    )


def describe_convolution(
    pattern: ConvolutionPattern, call: relay.Call, operand: str
) -> Convolution | None:
    """Convolution for the merge rule; None where weights or biases are no constants of NumPy.

    ``operand`` names the tensor that the convolution reads.
    """
    fixed = {index: call.args[index] for index in (pattern.weight, *pattern.channelwise)}
    if not all(
        is_array(each) or (index in pattern.stored.parameters and isinstance(each, relay.Constant))
        for index, each in fixed.items()
    ):
        return None
    convolution = pattern.convolution
    data, weight = (argument.checked_type for argument in convolution.args)
    layouts = [str(call_attribute(convolution, name)) for name in _LAYOUTS]
    in_memory = [call.op.params[index].checked_type for index in (pattern.data, pattern.weight)]
    types = [str(each.dtype) for each in (*in_memory, convolution.checked_type)]
    extents = dict(zip(_letters(layouts[0]), map(int, data.shape), strict=True))
    window = dict(zip(_letters(layouts[1]), map(int, weight.shape), strict=True))
    return Convolution(
        operand=operand,
        plain_operand=True,
        input_shape=(extents["C"] * extents.get("c", 1), extents["H"], extents["W"]),
        out_channels=window["O"] * window.get("o", 1),
        kernel=(window["H"], window["W"]),
        strides=_pair(convolution, "strides"),
        padding=_padding(convolution),
        dilation=_pair(convolution, "dilation"),
        groups=int(call_attribute(convolution, "groups", 1)),
        epilogue=pattern.epilogue,
        layout="/".join([*layouts, *types]),
    )


_LAYOUTS = ("data_layout", "kernel_layout", "out_layout")
_PLAIN = frozenset({("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC")})


def _letters(layout: str) -> list[str]:
    """Axes of a layout such as ``NCHW16c``, without block sizes."""
    return [letter for letter in layout if letter.isalpha()]


def _spine(body: relay.Expr) -> list[relay.Call] | None:
    """Convolution and the steps after it, if each step reads exactly one earlier step."""
    steps: list[relay.Call] = []
    current = body
    while isinstance(current, relay.Call) and isinstance(current.op, tvm.ir.Op):
        steps.append(current)
        if current.op.name in CONVOLUTIONS:
            return steps[::-1]
        inner = [argument for argument in current.args if isinstance(argument, relay.Call)]
        if len(inner) != 1 or current.op.get_attr("TOpPattern") not in POINTWISE:
            return None
        current = inner[0]
    return None


def _is_plain(convolution: relay.Call) -> bool:
    data_layout, kernel_layout, out_layout = (
        str(call_attribute(convolution, name)) for name in _LAYOUTS
    )
    rewritten = any(
        call_attribute(convolution, name)
        for name in ("auto_scheduler_rewritten_layout", "meta_schedule_original_shape")
    )
    if rewritten:
        return False
    if convolution.op.name == "nn.conv2d":
        return (data_layout, kernel_layout, out_layout or data_layout) in _PLAIN
    blocked = kernel_layout.startswith("OIHW") and len(convolution.args[1].checked_type.shape) == 6
    return blocked and data_layout.startswith("NCHW") and out_layout.startswith("NCHW")


def _describe_step(
    step: relay.Call,
    inner: relay.Expr,
    positions: dict[relay.Var, int],
    channel_axes: list[int],
) -> tuple[str, list[int]] | None:
    """Text of a pointwise step, and the per-channel parameters it reads."""
    shape = [int(extent) for extent in inner.checked_type.shape]
    if [int(extent) for extent in step.checked_type.shape] != shape:
        return None
    words: list[str] = []
    extra: list[int] = []
    for argument in step.args:
        if argument == inner:
            words.append("%")
        elif isinstance(argument, relay.Constant) and not argument.data.shape:
            words.append(f"{argument.data.numpy().item()!r}:{argument.data.dtype}")
        elif argument in positions and _is_channelwise(step, argument, shape, channel_axes):
            # Members of a merge have theirs joined, which needs as many axes of each.
            axes = len(argument.checked_type.shape)
            words.append(f"channels[{axes}]:{argument.checked_type.dtype}")
            extra.append(positions[argument])
        else:
            return None
    attributes = "" if step.attrs is None else _attributes_text(step)
    return f"{step.op.name}({', '.join(words)}{attributes}) -> {step.checked_type.dtype}", extra


def _attributes_text(step: relay.Call) -> str:
    return "".join(f", {name}={step.attrs[name]}" for name in step.attrs.keys())  # noqa: SIM118


def _is_channelwise(
    step: relay.Call, argument: relay.Expr, shape: list[int], channel_axes: list[int]
) -> bool:
    own = [int(extent) for extent in argument.checked_type.shape]
    if step.op.name == "nn.bias_add":
        axis = int(call_attribute(step, "axis")) % len(shape)
        return channel_axes == [axis] and own == [shape[axis]]
    wanted = [extent if axis in channel_axes else 1 for axis, extent in enumerate(shape)]
    leading = len(wanted) - len(own)
    # A shape without the leading ones broadcasts just the same.
    return (
        0 <= leading <= channel_axes[0]
        and own == wanted[leading:]
        and math.prod(own) == math.prod(wanted)
    )


def _pair(call: relay.Call, name: str) -> tuple[int, int]:
    first, second = (int(value) for value in call_attribute(call, name))
    return first, second


def _padding(call: relay.Call) -> tuple[int, int, int, int]:
    values = [int(value) for value in call_attribute(call, "padding")]
    if len(values) == 1:
        values = values * 4
    if len(values) == 2:
        values = values * 2
    top, left, bottom, right = values
    return top, left, bottom, right
