"""Transposed convolutions written as convolutions, before layouts are chosen.

A transposed convolution of stride s computes s by s outputs for each place of its data, each by a
convolution of its own with some of the kernel's elements. One convolution with s * s as many output
channels computes them all, with zeros where an output does not see an element, and
``nn.depth_to_space`` puts them side by side. If the kernel is a multiple of the stride there are no
such zeros, provided that places begin with outputs that see the same data; results beyond the ends
are cut off. TVM's own CPU kernels spread the data with zeros, and compute with these.

Bias, batch norm and activations behind it go in front of ``nn.depth_to_space``, into the
convolution. Only zeros times data are added, so results change by the order of summation; inf and
NaN in the data reach as far as the larger kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
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

__all__ = ["convolve_transposed", "has_transposed", "written_as_convolution"]

TRANSPOSED = "nn.conv2d_transpose"
MOST_WORK = 2.5
"""Ratio of products, with zeros and ends, to needed ones above which a convolution stays."""
RANK = 4
"""Number of axes of images: a constant with more axes would enlarge its sum."""
BIAS = "nn.bias_add"
BINARY = frozenset({"add", "multiply", "subtract"})
ACTIVATIONS = frozenset({"clip", "nn.leaky_relu", "nn.relu", "sigmoid", "tanh"})


def has_transposed(typed: tvm.IRModule) -> bool:
    """True if ``main`` of a typed module calls a transposed convolution.

    Never in a prepared module: its kernels hold the operators, and ``main`` calls only kernels.
    """
    return any(is_call_of(call, TRANSPOSED) for call in kernel_calls(typed["main"].body))


def convolve_transposed(
    mod: tvm.IRModule | CheckedModule,
    params: Mapping[str, Any] | None,
    chosen: Collection[int] | None = None,
) -> tuple[tvm.IRModule, int]:
    """Module with transposed convolutions of NCHW data and constant weights as convolutions.

    Only those of one group without dilation, whose zeros and ends do not make too many products,
    and of these the chosen ones by their number among the transposed ones; all where omitted.
    Parameters are bound, as by :func:`bound_model`; with it comes the number of such convolutions.
    """
    bound = bound_model(mod, params)
    parts = in_parts(bound)  # where weights that were computed of constants are constants
    rewriter = _Rewriter(chosen)
    body = rebuild(parts["main"].body, {}, rewriter.rewritten)
    return (with_body(parts, body), rewriter.written) if rewriter.written else (bound, 0)


def written_as_convolution(call: relay.Call) -> relay.Call | None:
    """Typed convolution that computes the products of a transposed one; None for others."""
    form = _form_of(call)
    if form is None:
        return None
    data = relay.var("data", call.args[0].checked_type)
    body = form.convolution(data, form.weight(call.args[1].data.numpy()))
    return relay.transform.InferType()(tvm.IRModule.from_expr(body))["main"].body


class _Rewriter:
    def __init__(self, chosen: Collection[int] | None) -> None:
        self.written = 0
        self._chosen = chosen
        self._seen = 0
        self._spreads: dict[relay.Expr, _Spread] = {}
        """Values with channels put side by side, and how they were made."""

    def rewritten(self, call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        """Call on new arguments, or its replacement."""
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
        """Operand in front of ``nn.depth_to_space``; None where it has to stay behind it."""
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
        number, self._seen = self._seen, self._seen + 1
        wanted = self._chosen is None or number in self._chosen
        form = _form_of(call) if wanted else None
        if form is None:
            return None
        self.written += 1
        convolution = form.convolution(arguments[0], form.weight(arguments[1].data.numpy()))
        return self._spread(convolution, form, call)

    def _spread(self, value: relay.Expr, form: _Form, call: relay.Call) -> relay.Expr:
        """Channels of a value put side by side, those of one output after the other."""
        spread = form.spread(value)
        self._spreads[spread] = _Spread(value, form, int(call.checked_type.shape[1]))
        return spread


@dataclass(frozen=True, slots=True)
class _Spread:
    """Channels that were put side by side."""

    value: relay.Expr
    """Value before, with the channels of all outputs of a place."""
    form: _Form
    channels: int
    """Number of channels of the result."""


def _moves(call: relay.Call, name: str) -> bool:
    """True if an operator does the same to channels, wherever they lie."""
    if name == BIAS:
        return int(call_attribute(call, "axis")) % RANK == 1
    return name in BINARY or name in ACTIVATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """Axis of the convolution that replaces a transposed one."""

    before: int
    after: int
    """Zeros before and after the data."""
    elements: np.ndarray[Any, Any]
    """Element of the old kernel for each output of a place and each element of the new kernel; -1
    where there is none."""
    kept: tuple[int, int]
    """First wanted output among the computed ones, and the one behind the last."""

    @property
    def places(self) -> int:
        """Number of computed places."""
        return -(-self.kept[1] // len(self.elements))

    @property
    def products(self) -> int:
        """Number of products along the axis, for all outputs of a place."""
        return self.places * self.elements.size

    @classmethod
    def of(cls, extents: tuple[int, int], kernel: int, stride: int, padding: int) -> _Axis | None:
        """Axis of a transposed convolution; None where it cannot be written.

        Extents go from data to output. Its first place may begin with any of ``stride`` outputs,
        whichever makes fewest products.
        """
        axes = (cls._cut(cut, extents, kernel, stride, padding) for cut in range(stride))
        found = [axis for axis in axes if axis is not None]
        return min(found, key=lambda axis: axis.products, default=None)

    @classmethod
    def _cut(
        cls, cut: int, extents: tuple[int, int], kernel: int, stride: int, padding: int
    ) -> _Axis | None:
        """Axis whose first place has ``cut`` outputs in front of the wanted ones.

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
    """Convolution that computes the same as a transposed one."""

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
        """Number of products of one input and one output channel."""
        return self.vertical.products * self.horizontal.products

    @property
    def order(self) -> tuple[int, tuple[int, int], tuple[int, int]]:
        """Facts that decide where channels come to lie."""
        return self.stride, self.vertical.kept, self.horizontal.kept

    def convolution(self, data: relay.Expr, weight: np.ndarray[Any, Any]) -> relay.Call:
        """Convolution of data with the weights of :meth:`weight`."""
        return relay.nn.conv2d(
            data,
            constant(weight),
            channels=weight.shape[0],
            kernel_size=weight.shape[2:],
            padding=self.padding,
        )

    def spread(self, value: relay.Expr) -> relay.Expr:
        """Channels of a value put side by side, those of one output after the other."""
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
