"""Cuts of a call into parts that different lanes compute: pure geometry. No TVM, no oneDNN here.

A part is a call on boxes of the tensors. oneDNN's fast code for convolutions wants each tensor in
one piece, so the cuts keep it so: by images; by output channels with one image, or one image a
part; by rows where the channels of a row lie together. Output channels are also cut where channels
lie innermost, and in products, whose channels are columns; there the pieces lie apart. Every part
writes its own bytes and reads what it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import lcm

from tvm_ios.runtime.libraries.onednn.call import OnednnCall, Primitive, Window
from tvm_ios.runtime.libraries.onednn.tensors import CHANNELS_LAST, OnednnTensor, Piece, Range

__all__ = ["CallPart", "Counts", "candidates", "cut_call", "is_spread", "whole_call"]

Counts = tuple[int, int, int]
"""Numbers of parts by images, by output channels, by rows of the output (or its depth if any)."""
CHANNELS_TOGETHER = 16
"""Output channels that stay in one part, at least: the fast code computes that many at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPart:
    """A part of a call: the call on its boxes, and where the boxes begin."""

    call: OnednnCall
    """The call on the boxes alone."""
    offsets: tuple[int, ...]
    """Bytes from the begin of each input, in the order of ``call.inputs``, then of the result."""
    strides: tuple[tuple[int, ...] | None, ...]
    """Elements from one to the next along each axis, of inputs and result; None: the format says
    it."""


class _GapError(Exception):
    """A box that would not lie in one piece where it has to."""


def whole_call(call: OnednnCall) -> CallPart:
    """The call as its only part."""
    count = len(call.inputs) + 1
    return CallPart(call=call, offsets=(0,) * count, strides=(None,) * count)


def cut_call(call: OnednnCall, counts: Counts) -> tuple[CallPart, ...] | None:
    """Parts of a call; None where it cannot be cut into these numbers."""
    call = _as_one_column(call)
    axes = [list(_ranges(call, axis, count)) for axis, count in enumerate(counts)]
    if any(len(ranges) != count for ranges, count in zip(axes, counts, strict=True)):
        return None
    try:
        return tuple(_part(call, *box) for box in product(*axes))
    except _GapError:
        return None


def candidates(call: OnednnCall, lanes: int) -> tuple[Counts, ...]:
    """Numbers of parts worth trying on a number of lanes, the fewest first.

    The whole; one or two parts a lane; and powers of two below, since an operator may have fewer
    blocks of channels than there are lanes. Rows come before channels: a lane that computed the
    same rows of the operator before has them in its own cache.
    """
    images = call.result.extents[0]
    wanted: list[Counts] = [(1, 1, 1)]
    powers = {2**power for power in range(1, lanes.bit_length())}
    for parts in sorted({*powers, lanes, 2 * lanes} if lanes > 1 else ()):
        wanted += [(min(parts, images), 1, 1), (1, 1, parts), (1, parts, 1)]
        if 1 < images < parts:
            wanted.append((images, -(-parts // images), 1))
    return tuple(counts for counts in dict.fromkeys(wanted) if cut_call(call, counts) is not None)


def _as_one_column(call: OnednnCall) -> OnednnCall:
    """A call whose pixels are computed each by itself, as one on images of one column.

    They lie one after the other where channels lie last, so any number of them is a part, and seven
    rows of seven pixels are halved.
    """
    images = [call.data, call.result, *(s.operand for s in call.steps if s.operand is not None)]
    if not _is_pixel_wise(call) or any(each.format != CHANNELS_LAST[4] for each in images[:2]):
        return call
    whole = call.result.extents
    spread = [each for each in images[2:] if each.extents[2:] != (1, 1)]
    if any(each.extents != whole or each.format != CHANNELS_LAST[4] for each in spread):
        return call

    def column(tensor: OnednnTensor) -> OnednnTensor:
        batch, channels, high, wide = tensor.extents
        return replace(tensor, extents=(batch, channels, high * wide, 1))

    steps = (s if s.operand is None else replace(s, operand=column(s.operand)) for s in call.steps)
    return replace(call, data=column(call.data), result=column(call.result), steps=tuple(steps))


def _is_pixel_wise(call: OnednnCall) -> bool:
    """True for a convolution of one pixel to one pixel, without groups."""
    window, weight = call.window, call.weight
    return (
        call.primitive is Primitive.CONVOLUTION
        and window is not None
        and weight is not None
        and weight.extents[2:] == (1, 1)
        and {*window.strides} == {1}
        and not any(window.padding)
    )


def _ranges(call: OnednnCall, axis: int, count: int) -> Iterator[Range]:
    """About equal ranges of whole units along an axis of the result, at most `count`."""
    extents = call.result.extents
    extent = extents[axis] if axis < len(extents) else 1
    unit = _unit(call, axis)
    units = -(-extent // unit)
    for part in range(min(count, units)):
        begin, end = (units * (part + step) // min(count, units) * unit for step in (0, 1))
        yield begin, min(end, extent)


def _unit(call: OnednnCall, axis: int) -> int:
    """Number of elements along an axis of the result that stay in one part."""
    if call.primitive is Primitive.SOFTMAX:
        return call.result.extents[axis] if axis == len(call.result.extents) - 1 else 1
    if axis == 2 and call.window is not None and call.primitive is Primitive.TRANSPOSED:
        # A row of the data makes so many rows of the result.
        return call.window.strides[0]
    return _channel_unit(call) if axis == 1 else 1


def _channel_unit(call: OnednnCall) -> int:
    if call.weight is None:
        return lcm(call.data.block(1), call.result.block(1))
    axis = len(call.weight.extents) - 1 if call.window is None else 0
    blocks = lcm(call.result.block(1), call.weight.block(axis))
    if call.grouped:
        # The first axis of these weights counts groups, and no group is cut.
        return lcm(blocks * call.weight.extents[1], CHANNELS_TOGETHER)
    return blocks * -(-CHANNELS_TOGETHER // blocks)


def _part(call: OnednnCall, images: Range, channels: Range, rows: Range) -> CallPart:
    result_box, window = _box(call.result, {0: images, 1: channels, 2: rows}), call.window
    if call.primitive is Primitive.PRODUCT:
        boxes = _product_boxes(call, result_box)
    elif call.primitive is Primitive.SOFTMAX:
        boxes = (result_box, [])
    else:
        window, boxes = _convolution_boxes(call, images, channels, rows)
    # Products read and write what does not lie together at no cost.
    gaps = call.primitive is Primitive.PRODUCT or is_spread(call)

    def cut(tensor: OnednnTensor | None, box: Sequence[Range]) -> Piece | None:
        return None if tensor is None else _piece(tensor, box, gaps=gaps)

    def following(tensor: OnednnTensor | None) -> Piece | None:
        return None if tensor is None else cut(tensor, _following(tensor, result_box))

    data = _piece(call.data, boxes[0], gaps=gaps)
    result = _piece(call.result, result_box, gaps=gaps)
    weight, bias = cut(call.weight, boxes[1]), following(call.bias)
    operands = [following(step.operand) for step in call.steps]
    if result.strides is not None and any(
        operand is not None
        and operand.tensor.extents == result.tensor.extents
        and operand.tensor.dtype != result.tensor.dtype
        for operand in operands
    ):
        # oneDNN 3.2 takes bytes between rows of the result for those between rows of the operand.
        raise _GapError
    pieces = [data, *(each for each in (weight, bias, *operands) if each is not None), result]
    return CallPart(
        call=replace(
            call,
            data=data.tensor,
            weight=_tensor_of(weight),
            bias=_tensor_of(bias),
            result=result.tensor,
            window=window,
            steps=tuple(
                replace(step, operand=_tensor_of(operand))
                for step, operand in zip(call.steps, operands, strict=True)
            ),
            cut=None,
        ),
        offsets=tuple(each.offset_bytes for each in pieces),
        strides=tuple(each.strides for each in pieces),
    )


def is_spread(call: OnednnCall) -> bool:
    """True if a part writes its channels together, and a reorder spreads them.

    That holds for convolutions whose channels lie innermost; the reorder is little work beside that
    of the weights. With transposed convolutions oneDNN would take its reference code.
    """
    last = call.result.format in CHANNELS_LAST.values()
    return call.primitive is Primitive.CONVOLUTION and last


def _product_boxes(
    call: OnednnCall, result_box: Sequence[Range]
) -> tuple[list[Range], list[Range]]:
    """Boxes of both operands of a product: rows of the left one, columns of the right one."""
    matrices = [
        [_shared(tensor, axis, each) for axis, each in enumerate(result_box[:-2])]
        for tensor in (call.data, call.weight)
        if tensor is not None
    ]
    inner = (0, call.data.extents[-1])
    return [*matrices[0], result_box[-2], inner], [*matrices[1], inner, result_box[-1]]


def _convolution_boxes(
    call: OnednnCall, images: Range, channels: Range, rows: Range
) -> tuple[Window, tuple[list[Range], list[Range]]]:
    """Window, and boxes of data and weights for a box of the result; rows need rows around."""
    window, extents = call.window, call.data.extents
    assert window is not None, "who made the call gave every convolution a window"
    own, inputs = channels, (0, extents[1])
    if call.weight is None:
        inputs = channels
    elif call.grouped:
        _, outputs_each, inputs_each = call.weight.extents[:3]
        own = (channels[0] // outputs_each, channels[1] // outputs_each)
        inputs = (own[0] * inputs_each, own[1] * inputs_each)
    lines: Range = (0, extents[2])
    if rows != (0, call.result.extents[2]):
        if call.primitive is Primitive.TRANSPOSED:
            return _transposed_boxes(call, images, (own, inputs), rows)
        reach = window.dilation[0] * (_height(call) - 1) + 1
        begin = rows[0] * window.strides[0] - window.begins[0]
        end = (rows[1] - 1) * window.strides[0] + reach - window.begins[0]
        lines = (max(0, begin), min(extents[2], end))
        if lines[0] >= lines[1]:  # all of it is padding
            raise _GapError
        before = (max(0, -begin), *window.begins[1:])
        after = (max(0, end - extents[2]), *window.ends[1:])
        window = replace(window, padding=before + after)
    weight_box = [] if call.weight is None else _box(call.weight, {0: own})
    return window, ([images, inputs, lines, *((0, extent) for extent in extents[3:])], weight_box)


def _transposed_boxes(
    call: OnednnCall, images: Range, channels: tuple[Range, Range], rows: Range
) -> tuple[Window, tuple[list[Range], list[Range]]]:
    """Window and boxes where each row of a transposed convolution makes its own rows."""
    window, (own, inputs) = call.window, channels
    assert window is not None, "who made the call gave every convolution a window"
    assert call.weight is not None, "a transposed convolution has weights"
    stride = window.strides[0]
    if _height(call) != stride or window.dilation[0] > 1 or window.begins[0] or window.ends[0]:
        raise _GapError
    lines = (rows[0] // stride, rows[1] // stride)
    across = ((0, extent) for extent in call.data.extents[3:])
    return window, ([images, inputs, lines, *across], _box(call.weight, {0: own}))


def _height(call: OnednnCall) -> int:
    """Rows of the kernel, or its depth if it has one."""
    assert call.window is not None, "who made the call gave every convolution a window"
    if call.weight is not None:
        return call.weight.extents[-len(call.window.strides)]
    assert call.window.pooled is not None, "who made the call gave every pooling a kernel"
    return call.window.pooled[0]


def _following(operand: OnednnTensor, box: Sequence[Range]) -> list[Range]:
    """Box of an operand for a box of the result; a bias has one axis only."""
    if len(operand.extents) == 1:
        return [box[1] if len(box) >= 4 else box[-1]]
    return [_shared(operand, axis, each) for axis, each in enumerate(box)]


def _shared(tensor: OnednnTensor, axis: int, range_: Range) -> Range:
    return (0, 1) if tensor.extents[axis] == 1 else range_


def _box(tensor: OnednnTensor, ranges: dict[int, Range]) -> list[Range]:
    return [ranges.get(axis, (0, extent)) for axis, extent in enumerate(tensor.extents)]


def _piece(tensor: OnednnTensor, box: Sequence[Range], *, gaps: bool) -> Piece:
    piece = tensor.piece(box, gaps=gaps)
    if piece is None:
        raise _GapError
    return piece


def _tensor_of(piece: Piece | None) -> OnednnTensor | None:
    return None if piece is None else piece.tensor
