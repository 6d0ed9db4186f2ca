"""Writes transposed convolutions as convolutions, before layouts are chosen.

A transposed convolution of stride s computes s by s outputs for each place of its data, each by a
convolution of its own with some of the kernel's elements. One convolution with s * s as many output
channels computes them all, with zeros where an output does not see an element, and
``nn.depth_to_space`` puts them side by side. Where the kernel is a multiple of the stride there are
no such zeros, if places begin with outputs that see the same data; what is computed beyond the ends
for that is cut off. TVM's own kernels for CPUs spread the data with zeros, and compute with these.

Bias, batch norm and activations behind it go in front of ``nn.depth_to_space``, into the
convolution. Only zeros times data are added, so results change by the order of summation; inf and
NaN in the data reach as far as the larger kernel does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_ios.relay.constants import constant, is_array
from tvm_ios.relay.dataflow import copy_call, is_call_of, kernel_calls, rebuild, with_body
from tvm_ios.relay.functions.primitive import call_attribute
from tvm_ios.relay.inputs import CheckedModule
from tvm_ios.relay.transforms.bound_model import bound_model, in_parts

__all__ = ["convolve_transposed", "has_transposed"]

TRANSPOSED = "nn.conv2d_transpose"
MOST_WORK = 2.5
"""Where zeros and ends make products more than this many times those that are needed, it stays."""
RANK = 4
"""Of images: a constant with more axes makes more of what it is added to."""
BIAS = "nn.bias_add"
BINARY = frozenset({"add", "multiply", "subtract"})
ACTIVATIONS = frozenset({"clip", "nn.leaky_relu", "nn.relu", "sigmoid", "tanh"})


def has_transposed(typed: tvm.IRModule) -> bool:
    """Whether ``main`` of a typed module calls a transposed convolution; in a prepared one, none.

    Kernels of a prepared module hold their operators, and ``main`` calls kernels only.
    """
    return any(is_call_of(call, TRANSPOSED) for call in kernel_calls(typed["main"].body))


def convolve_transposed(
    mod: tvm.IRModule | CheckedModule, params: Mapping[str, Any] | None
) -> tuple[tvm.IRModule, int]:
    """Write transposed convolutions of NCHW data with constant weights as convolutions.

    Those of one group and no dilation, where zeros and ends do not make too many products of it.

    Parameters
    ----------
    mod, params
        A Relay module with a ``main`` of static shapes, and its parameters, which are bound.

    Returns
    -------
    module, written
        The module, and how many convolutions were written so. Where there are none, nothing has
        changed but that parameters are bound.
    """
    bound = bound_model(mod, params)
    parts = in_parts(bound)  # where weights that were computed of constants are constants
    rewriter = _Rewriter()
    body = rebuild(parts["main"].body, {}, rewriter.rewritten)
    return (with_body(parts, body), rewriter.written) if rewriter.written else (bound, 0)


class _Rewriter:
    def __init__(self) -> None:
        self.written = 0
        self._spreads: dict[relay.Expr, _Spread] = {}
        """What was made of channels that were put side by side."""

    def rewritten(self, call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        """The call on new arguments, or what takes its place."""
        name = call.op.name if isinstance(call.op, tvm.ir.Op) else ""
        if name == TRANSPOSED:
            return self._convolution(call, arguments) or copy_call(call, arguments)
        spread = next((self._spreads[each] for each in arguments if each in self._spreads), None)
        if spread and _moves(call, name) and len(call.checked_type.shape) == RANK:
            before = [self._before(each, call, spread) for each in arguments]
            if None not in before:
                return self._spread(copy_call(call, before), spread.form, call)
        return copy_call(call, arguments)

    def _before(self, argument: relay.Expr, call: relay.Call, spread: _Spread) -> relay.Expr | None:
        """An operand in front of ``nn.depth_to_space``; None where it has to stay behind it."""
        channels = int(call.checked_type.shape[1])
        if argument in self._spreads:
            # One channel for all, as a mask has, cannot be told from those of other outputs there.
            other = self._spreads[argument]
            alike = other.channels == channels and other.form.order == spread.form.order
            return other.value if alike else None
        if not is_array(argument):
            return None
        values = argument.data.numpy()
        axis = 0 if call.op.name == BIAS else values.ndim - 3
        if call.op.name != BIAS and values.size == 1:
            return argument
        if axis < 0 or values.shape[axis] != channels or values.size != channels:
            return None
        # Each of the outputs that are put side by side has all channels.
        return constant(np.concatenate([values] * spread.form.stride**2, axis))

    def _convolution(self, call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr | None:
        form = _form_of(call)
        if form is None:
            return None
        self.written += 1
        weight = form.weight(arguments[1].data.numpy())
        convolution = relay.nn.conv2d(
            arguments[0],
            constant(weight),
            channels=weight.shape[0],
            kernel_size=weight.shape[2:],
            padding=form.padding,
        )
        return self._spread(convolution, form, call)

    def _spread(self, value: relay.Expr, form: _Form, call: relay.Call) -> relay.Expr:
        """The channels of a value put side by side, those of one output after the other."""
        spread = form.spread(value)
        self._spreads[spread] = _Spread(value, form, int(call.checked_type.shape[1]))
        return spread


@dataclass(frozen=True, slots=True)
class _Spread:
    """Channels that were put side by side."""

    value: relay.Expr
    """What was, with the channels of all outputs of a place."""
    form: _Form
    channels: int
    """Of the result."""


def _moves(call: relay.Call, name: str) -> bool:
    """Whether an operator does the same to channels, wherever they lie."""
    if name == BIAS:
        return int(call_attribute(call, "axis")) % RANK == 1
    return name in BINARY or name in ACTIVATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """One axis of the convolution."""

    before: int
    after: int
    """Zeros around the data."""
    elements: np.ndarray[Any, Any]
    """For each of the outputs of a place, and each element of the new kernel, the element of the
    old one; -1 where there is none."""
    kept: tuple[int, int]
    """Of the outputs that are made the first that is wanted, and the one behind the last."""

    @property
    def places(self) -> int:
        """Places that are computed."""
        return -(-self.kept[1] // len(self.elements))

    @property
    def products(self) -> int:
        """Products along the axis, for all outputs of a place."""
        return self.places * self.elements.size

    @classmethod
    def of(cls, extents: tuple[int, int], kernel: int, stride: int, padding: int) -> _Axis | None:
        """The axis of a transposed convolution, from data to output; None where it is not written.

        Its first place may begin with any of ``stride`` outputs, whichever makes fewest products.
        """
        axes = (cls._cut(cut, extents, kernel, stride, padding) for cut in range(stride))
        found = [axis for axis in axes if axis is not None]
        return min(found, key=lambda axis: axis.products, default=None)

    @classmethod
    def _cut(
        cls, cut: int, extents: tuple[int, int], kernel: int, stride: int, padding: int
    ) -> _Axis | None:
        """The axis whose first place has ``cut`` outputs in front of those that are wanted.

        Output o = stride * place + turn sees, through element e, data (o + padding - e) / stride.
        """
        read, wanted = extents
        padding -= cut
        made = -(-(cut + wanted) // stride) * stride
        seen = {
            (turn, element): (turn + padding - element) // stride
            for turn in range(stride)
            for element in range(kernel)
            if not (turn + padding - element) % stride
        }
        first, last = min(seen.values()), max(seen.values())
        before, after = -first, made // stride + last - read
        if before < 0 or after < 0:
            return None
        elements = np.full((stride, last - first + 1), -1)
        for (turn, element), place in seen.items():
            elements[turn, place - first] = element
        return cls(before=before, after=after, elements=elements, kept=(cut, cut + wanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """The convolution that computes what a transposed one does."""

    stride: int
    vertical: _Axis
    horizontal: _Axis

    @property
    def padding(self) -> tuple[int, int, int, int]:
        """Zeros above, left, below, right."""
        down, across = self.vertical, self.horizontal
        return down.before, across.before, down.after, across.after

    @property
    def products(self) -> int:
        """Products of one input and one output channel."""
        return self.vertical.products * self.horizontal.products

    @property
    def order(self) -> tuple[int, tuple[int, int], tuple[int, int]]:
        """What says where channels come to lie."""
        return self.stride, self.vertical.kept, self.horizontal.kept

    def spread(self, value: relay.Expr) -> relay.Expr:
        """The channels of a value put side by side, those of one output after the other."""
        whole = relay.nn.depth_to_space(value, self.stride, mode="DCR")
        axes = self.vertical, self.horizontal
        if all(axis.kept == (0, axis.places * self.stride) for axis in axes):
            return whole
        begin, end = zip(*(axis.kept for axis in axes), strict=True)
        return relay.strided_slice(whole, begin, end, strides=(1, 1), axes=(2, 3))

    def weight(self, weight: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Weights as OIHW, the output channels once for each output of a place, from IOHW."""
        rows, columns = self.vertical.elements, self.horizontal.elements
        picked = weight[:, :, rows[:, None, :, None], columns[None, :, None, :]]
        there = (rows >= 0)[:, None, :, None] & (columns >= 0)[None, :, None, :]
        # Input, output, turn down, turn across, height, width.
        turned = np.where(there, picked, np.zeros((), weight.dtype)).transpose(2, 3, 1, 0, 4, 5)
        return turned.reshape(-1, *turned.shape[3:])


def _form_of(call: relay.Call) -> _Form | None:
    if not is_call_of(call, TRANSPOSED):
        return None
    layouts = [str(call_attribute(call, f"{name}_layout")) for name in ("data", "kernel", "out")]
    data, weight = (argument.checked_type for argument in call.args)
    if layouts[:2] != ["NCHW", "IOHW"] or layouts[2] not in ("", "NCHW"):
        return None
    if not is_array(call.args[1]) or call.checked_type.dtype != data.dtype:
        return None
    strides, dilation, padding = (
        tuple(int(each) for each in call_attribute(call, name))
        for name in ("strides", "dilation", "padding")
    )
    stride, kernel = strides[0], [int(extent) for extent in weight.shape[2:]]
    if strides != (stride, stride) or stride == 1 or min(kernel) < stride or max(dilation) > 1:
        return None
    if int(call_attribute(call, "groups")) != 1:
        return None
    sizes = [
        (int(read), int(made))
        for read, made in zip(data.shape[2:], call.checked_type.shape[2:], strict=True)
    ]
    vertical, horizontal = (
        _Axis.of(sizes[axis], kernel[axis], stride, padding[axis]) for axis in (0, 1)
    )
    if vertical is None or horizontal is None:
        return None
    form = _Form(stride=stride, vertical=vertical, horizontal=horizontal)
    needed = prod(kernel) * prod(read for read, _ in sizes)
    return form if form.products <= MOST_WORK * needed else None
