"""Calls as bytes for C, which makes them ready (``native/onednn_call.h``). No TVM, no oneDNN here.

Numbers are those of oneDNN's C interface, as all releases 3.x have them; those of formats stand in
:mod:`~tvm_ios.runtime.libraries.onednn.tensors`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType

from tvm_ios.runtime.libraries.onednn.call import OnednnCall, Primitive, Step, StepKind
from tvm_ios.runtime.libraries.onednn.cuts import CallPart, Counts, cut_call, whole_call
from tvm_ios.runtime.libraries.onednn.tensors import (
    DATA_TYPES,
    FORMATS,
    OnednnTensor,
    in_order,
)

__all__ = ["PRIMITIVES", "STEPS", "call_data", "counts_of"]

# The same number is CALL_DATA_VERSION in onednn_call.h, whose structures these are.
_VERSION = 4
_CALL = struct.Struct("6i")
_WINDOW = struct.Struct("15q")
_STEP = struct.Struct("2i2d")
_TENSOR = struct.Struct("6i13q")
_AXES, _WINDOW_AXES = 6, 3
_OUTPUT = -2
"""Position of the result, in place of one among the inputs of the launch."""
PRIMITIVES = MappingProxyType(
    {
        Primitive.PRODUCT: 0,
        Primitive.CONVOLUTION: 1,
        Primitive.TRANSPOSED: 10,
        Primitive.MAX_POOLING: 511,
        Primitive.AVERAGE_POOLING: 767,
        Primitive.AVERAGE_INSIDE: 1023,
        Primitive.SOFTMAX: 0x30000,
    }
)
"""Numbers of algorithms (``dnnl_alg_kind_t``); 0 for products, which have none. Sums are taken as
written, never by Winograd's way."""
STEPS = MappingProxyType(
    {
        StepKind.PRELU: 0,
        StepKind.RELU: 32,
        StepKind.TANH: 33,
        StepKind.LINEAR: 38,
        StepKind.SIGMOID: 41,
        StepKind.GELU_TANH: 43,
        StepKind.SWISH: 44,
        StepKind.CLIP: 46,
        StepKind.GELU: 49,
        StepKind.ROUND: 50,
        StepKind.MISH: 51,
        StepKind.HARD_SWISH: 52,
        StepKind.ADD: 131056,
        StepKind.MULTIPLY: 131057,
        StepKind.MAXIMUM: 131058,
        StepKind.MINIMUM: 131059,
        StepKind.SUBTRACT: 131061,
    }
)
"""Numbers of algorithms of steps; 0 for slopes, which have none."""


def call_data(call: OnednnCall, counts: Counts) -> bytes:
    """A call as a whole and in parts; the whole alone where it is not cut."""
    cut = () if counts == (1, 1, 1) else cut_call(call, counts) or ()
    parts = (whole_call(call), *cut)
    steps = len(call.steps) + (call.bias is not None)
    zeros = [0 if each is None else each.zero_point for each in (call.data, call.weight)]
    head = _CALL.pack(_VERSION, PRIMITIVES[call.primitive], len(parts), steps, *zeros)
    return b"".join([head, *map(_part, parts)])


def counts_of(call: OnednnCall) -> Counts:
    """Numbers of parts of a complete call."""
    assert call.cut is not None, "complete() gives every call one"
    return call.cut.batches, call.cut.channels, call.cut.rows


def _part(part: CallPart) -> bytes:
    call, places = part.call, zip(part.offsets, part.strides, strict=True)

    def lying(tensor: OnednnTensor | None) -> bytes:
        return bytes(_TENSOR.size) if tensor is None else _tensor(tensor, *next(places))

    data, weight, bias = map(lying, (call.data, call.weight, call.bias))
    steps = [_step(step, lying(step.operand)) for step in call.steps]
    if call.bias is not None:
        offset = part.offsets[call.inputs.index(call.bias)]
        steps.insert(0, _bias_step(call.bias, len(call.result.extents), offset))
    return b"".join([_window(call), data, weight, bias, lying(call.result), *steps])


def _window(call: OnednnCall) -> bytes:
    window = call.window
    if window is None:
        return bytes(_WINDOW.size)
    dilation = [each - 1 for each in window.dilation]  # 0 is dense to oneDNN
    rows = (window.strides, window.pooled or (), dilation, window.begins, window.ends)
    return _WINDOW.pack(*(number for row in rows for number in _filled(row, _WINDOW_AXES)))


def _bias_step(bias: OnednnTensor, axes: int, offset: int) -> bytes:
    """The bias as a sum with a tensor of all axes of the result, one value a channel."""
    extents = (1, *bias.extents, *(1,) * (axes - 2))
    wide = replace(bias, extents=extents, format=in_order(axes))
    return _step(Step(kind=StepKind.ADD, operand=wide), _tensor(wide, offset, None))


def _step(step: Step, operand: bytes) -> bytes:
    extents = () if step.operand is None else step.operand.extents
    axes = sum(1 << axis for axis, extent in enumerate(extents) if extent > 1)
    return _STEP.pack(STEPS[step.kind], axes, step.alpha, step.beta) + operand


def _tensor(tensor: OnednnTensor, offset: int, strides: tuple[int, ...] | None) -> bytes:
    """A tensor as it lies, or as it does once it is unpacked."""
    format_ = FORMATS["ab" if tensor.packed else tensor.format] if strides is None else 0
    return _TENSOR.pack(
        len(tensor.extents),
        _OUTPUT if tensor.position is None else tensor.position,
        format_,
        tensor.block(1) if tensor.packed else 0,
        tensor.constant,
        DATA_TYPES[tensor.dtype].number,
        offset,
        *_filled(tensor.extents, _AXES),
        *_filled(strides or (), _AXES),
    )


def _filled(numbers: Sequence[int], count: int) -> Iterator[int]:
    """Numbers, and zeros up to a count."""
    yield from numbers
    yield from [0] * (count - len(numbers))
