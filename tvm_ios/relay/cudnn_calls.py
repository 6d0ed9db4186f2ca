"""Recognises fused functions that one call of cuDNN computes, and places them.

Such a function is a float32 or float16 convolution in NCHW with the same padding on both sides,
then perhaps one value added per channel, then perhaps a ReLU. A kernel that was tuned to another
algorithm, such as Winograd's with transformed weights, is none any more.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import tvm
from tvm import relay

from tvm_ios.plan.placement import Placement
from tvm_ios.relay.convolution import ConvolutionPattern, match_convolution
from tvm_ios.relay.primitive import call_attribute
from tvm_ios.runtime.cudnn_convolution import CudnnCall, CudnnConvolution, CudnnOffload

__all__ = ["cudnn_calls", "match_cudnn_call", "with_cudnn_calls"]

DTYPES = frozenset({"float32", "float16"})
LAYOUTS = {"data_layout": "NCHW", "kernel_layout": "OIHW", "out_layout": "NCHW"}
BIAS = frozenset({"nn.bias_add", "add"})


def match_cudnn_call(function: relay.Function, *, tf32: bool = False) -> CudnnCall | None:
    """The call that computes a fused, typed function; None where there is no such call.

    Parameters
    ----------
    function
        What an operator runs.
    tf32
        Whether float32 may be rounded to TF32.
    """
    pattern = match_convolution(function)
    if pattern is None:
        return None
    steps = _steps(pattern)
    padding = _same_padding(pattern.convolution)
    dtype = _dtype(function, pattern)
    if steps is None or padding is None or dtype is None or not _is_nchw(pattern.convolution):
        return None
    bias, relu = steps
    data, weight = (_shape(argument) for argument in pattern.convolution.args)
    convolution = CudnnConvolution(
        input_shape=data,
        weight_shape=weight,
        strides=_pair(pattern.convolution, "strides"),
        padding=padding,
        dilation=_pair(pattern.convolution, "dilation"),
        groups=int(call_attribute(pattern.convolution, "groups", 1)),
        bias=bias is not None,
        relu=relu,
        dtype=dtype,
        tf32=tf32 and dtype == "float32",
    )
    if convolution.output_shape != _shape(pattern.convolution):
        return None
    return CudnnCall(convolution=convolution, data=pattern.data, weight=pattern.weight, bias=bias)


def cudnn_calls(calls: Sequence[relay.Call], offload: CudnnOffload) -> tuple[CudnnCall | None, ...]:
    """For each kernel call, the call of cuDNN that computes the same; None where there is none.

    Parameters
    ----------
    calls
        Of an extraction, in its order.
    offload
        What is allowed.
    """
    return tuple(
        match_cudnn_call(call.op, tf32=offload.tf32)
        if isinstance(call.op, relay.Function)
        else None
        for call in calls
    )


def with_cudnn_calls(
    placements: Sequence[Placement],
    calls: Sequence[relay.Call],
    names: Sequence[str],
    offload: CudnnOffload,
    chosen: Collection[str] | None = None,
) -> tuple[Placement, ...]:
    """The placements of operators, with those that cuDNN is to compute marked.

    Parameters
    ----------
    placements, calls, names
        Of all operators of a build, in node order.
    offload
        What is allowed.
    chosen
        Names of the operators to be computed by cuDNN, if it can; all of them where omitted. A
        merged convolution is chosen where all its members are.
    """
    return tuple(
        placement
        if call is None or not (chosen is None or set(name.split("+")) <= set(chosen))
        else replace(placement, cudnn=call)
        for placement, call, name in zip(
            placements, cudnn_calls(calls, offload), names, strict=True
        )
    )


def _steps(pattern: ConvolutionPattern) -> tuple[int | None, bool] | None:
    """The parameter that is the bias, if any, and whether a ReLU ends it; None for other steps."""
    names = [step.op.name for step in pattern.steps]
    relu = names[-1:] == ["nn.relu"]
    if relu:
        names.pop()
    if not names and not pattern.channelwise:
        return None, relu
    if len(names) == 1 and names[0] in BIAS and len(pattern.channelwise) == 1:
        return pattern.channelwise[0], relu
    return None


def _same_padding(convolution: relay.Call) -> tuple[int, int] | None:
    """Zeros on each side of height and width; None where one side has more."""
    values = [int(value) for value in call_attribute(convolution, "padding")]
    if len(values) == 1:
        values *= 4
    if len(values) == 2:
        values *= 2
    top, left, bottom, right = values
    return (top, left) if (top, left) == (bottom, right) else None


def _dtype(function: relay.Function, pattern: ConvolutionPattern) -> str | None:
    """The one type of all tensors; None where there are several, or cuDNN has another name."""
    tensors = [parameter.checked_type for parameter in function.params]
    tensors += [call.checked_type for call in (pattern.convolution, *pattern.steps)]
    dtypes = {str(tensor.dtype) for tensor in tensors}
    return dtypes.pop() if len(dtypes) == 1 and dtypes <= DTYPES else None


def _is_nchw(convolution: relay.Call) -> bool:
    if convolution.op != tvm.ir.Op.get("nn.conv2d"):
        return False
    return all(
        (str(call_attribute(convolution, name)) or LAYOUTS["data_layout"]) == layout
        for name, layout in LAYOUTS.items()
    )


def _shape(expression: relay.Expr) -> tuple[int, int, int, int]:
    first, second, third, fourth = (int(extent) for extent in expression.checked_type.shape)
    return first, second, third, fourth


def _pair(convolution: relay.Call, name: str) -> tuple[int, int]:
    first, second = (int(value) for value in call_attribute(convolution, name))
    return first, second
