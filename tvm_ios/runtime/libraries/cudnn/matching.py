"""Recognises fused functions that one call of cuDNN computes. No TVM here.

Such a function is a float32 or float16 convolution in NCHW with the same padding on both sides,
then perhaps one value added per channel, then perhaps a ReLU. A kernel that was tuned to another
algorithm, such as Winograd's with transformed weights, is none any more.
"""

from __future__ import annotations

from tvm_ios.core.fused_function import FusedFunction, PrimitiveCall
from tvm_ios.runtime.libraries.cudnn.convolution import CudnnCall, CudnnConvolution

__all__ = ["match_call"]

DTYPES = frozenset({"float32", "float16"})
LAYOUTS = {"data_layout": "NCHW", "kernel_layout": "OIHW", "out_layout": "NCHW"}
REWRITTEN = ("auto_scheduler_rewritten_layout", "meta_schedule_original_shape")
"""Attributes by which TVM's tuners say that the weights lie in another order."""


def match_call(function: FusedFunction, *, tf32: bool = False) -> CudnnCall | None:
    """The call that computes a fused function; None where there is no such call.

    With ``tf32`` it may round float32 to TF32.
    """
    first, *steps = function.calls
    parameters = len(function.parameters)
    if not _is_nchw(first) or any(operand >= parameters for operand in first.operands):
        return None
    relu = bool(steps) and steps[-1].operator == "nn.relu"
    adding = steps[:-1] if relu else steps
    bias = None
    value = function.result_of(0)
    if adding:
        bias = _bias(function, adding[0], value)
        if bias is None or len(adding) > 1:
            return None
        value = function.result_of(1)
    if relu and steps[-1].operands != (value,):
        return None
    padding, dtype = _same_padding(first), _dtype(function)
    if padding is None or dtype is None:
        return None
    data, weight = first.operands
    convolution = CudnnConvolution(
        input_shape=_four(function.parameters[data].shape),
        weight_shape=_four(function.parameters[weight].shape),
        strides=_pair(first, "strides"),
        padding=padding,
        dilation=_pair(first, "dilation"),
        groups=first.wholes("groups")[0],
        bias=bias is not None,
        relu=relu,
        dtype=dtype,
        tf32=tf32 and dtype == "float32",
    )
    if convolution.output_shape != first.result.shape:
        return None
    return CudnnCall(convolution=convolution, data=data, weight=weight, bias=bias)


def _is_nchw(call: PrimitiveCall) -> bool:
    return (
        call.operator == "nn.conv2d"
        and all(
            (call.attribute(name) or LAYOUTS["data_layout"]) == layout
            for name, layout in LAYOUTS.items()
        )
        and not any(call.attribute(name) for name in REWRITTEN)
    )


def _bias(function: FusedFunction, step: PrimitiveCall, value: int) -> int | None:
    """Index of the parameter with one value a channel that a step adds; None for other steps."""
    others = [operand for operand in step.operands if operand != value]
    if len(step.operands) != 2 or len(others) != 1 or others[0] >= len(function.parameters):
        return None
    own = function.parameters[others[0]].shape
    channels = step.result.shape[1]
    if step.operator == "nn.bias_add":
        axis = step.wholes("axis")[0] % len(step.result.shape)
        return others[0] if axis == 1 and own == (channels,) else None
    if step.operator != "add":
        return None
    # A shape without the leading one broadcasts just the same.
    return others[0] if own in ((1, channels, 1, 1), (channels, 1, 1)) else None


def _same_padding(call: PrimitiveCall) -> tuple[int, int] | None:
    """Zeros on each side of height and width; None where two sides differ."""
    values = call.wholes("padding")
    if len(values) == 1:
        values *= 4
    if len(values) == 2:
        values *= 2
    top, left, bottom, right = values
    return (top, left) if (top, left) == (bottom, right) else None


def _dtype(function: FusedFunction) -> str | None:
    """The one data type of all tensors; None where there are several, or cuDNN lacks it."""
    dtypes = {parameter.dtype for parameter in function.parameters}
    dtypes |= {call.result.dtype for call in function.calls}
    return dtypes.pop() if len(dtypes) == 1 and dtypes <= DTYPES else None


def _four(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    first, second, third, fourth = shape
    return first, second, third, fourth


def _pair(call: PrimitiveCall, name: str) -> tuple[int, int]:
    first, second = call.wholes(name)
    return first, second
