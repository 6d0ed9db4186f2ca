"""Writes transposed convolutions as convolutions, before layouts are chosen.

A transposed convolution of stride s computes s by s outputs for each place of its data, each by a
convolution of its own with some of the kernel's elements. One convolution with s * s as many output
channels computes them all, with zeros where an output does not see an element, and
``nn.depth_to_space`` puts them side by side. Where the kernel is as large as the stride there are
no such zeros. TVM's own kernels for CPUs spread the data with zeros, and compute with these.

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
"""Where zeros make a convolution's products more than this many times those it needs, it stays."""
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

    Those of one group and no dilation whose output is a whole number of strides high and wide.

    Parameters
    ----------
    mod, params
        A Relay module with a ``main`` of static shapes, and its parameters, which are bound.

    Returns
    -------
    module, written
        The module, and how many convolutions were written so. Where there are none, nothing has
        changed but that parameters are bound.

    Raises
    ------
    ModelError
        If ``main`` cannot run on the graph executor, or a parameter does not fit.
    """
    bound = bound_model(mod, params)
    if not any(_form_of(call) for call in kernel_calls(bound["main"].body)):
        return bound, 0
    bound = in_parts(bound)
    rewriter = _Rewriter()
    body = rebuild(bound["main"].body, {}, rewriter.rewritten)
    return with_body(bound, body), rewriter.written


class _Rewriter:
    def __init__(self) -> None:
        self.written = 0
        self._blocks: dict[relay.Expr, tuple[int, int]] = {}
        """The ``nn.depth_to_space`` that were made, their strides, and channels they give."""

    def rewritten(self, call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        """The call on new arguments, or what takes its place."""
        name = call.op.name if isinstance(call.op, tvm.ir.Op) else ""
        if name == TRANSPOSED:
            return self._convolution(call, arguments) or copy_call(call, arguments)
        stride = next((self._blocks[each][0] for each in arguments if each in self._blocks), 0)
        if stride and _moves(call, name):
            before = [self._before(each, call, stride) for each in arguments]
            if None not in before:
                return self._spread(copy_call(call, before), stride, call)
        return copy_call(call, arguments)

    def _before(self, argument: relay.Expr, call: relay.Call, stride: int) -> relay.Expr | None:
        """An operand in front of ``nn.depth_to_space``; None where it has to stay behind it."""
        channels = int(call.checked_type.shape[1])
        if argument in self._blocks:
            # One channel for all, as a mask has, cannot be told from those of other outputs there.
            alike = self._blocks[argument] == (stride, channels)
            return argument.args[0] if alike else None
        if not is_array(argument):
            return None
        values = argument.data.numpy()
        axis = 0 if call.op.name == BIAS else values.ndim - 3
        if call.op.name != BIAS and values.size == 1:
            return argument
        if axis < 0 or values.shape[axis] != channels or values.size != channels:
            return None
        # Each of the outputs that are put side by side has all channels.
        return constant(np.concatenate([values] * stride**2, axis))

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
        return self._spread(convolution, form.stride, call)

    def _spread(self, value: relay.Expr, stride: int, call: relay.Call) -> relay.Expr:
        """The channels of a value put side by side, those of one output after the other."""
        spread = relay.nn.depth_to_space(value, stride, mode="DCR")
        self._blocks[spread] = stride, int(call.checked_type.shape[1])
        return spread


def _moves(call: relay.Call, name: str) -> bool:
    """Whether an operator does the same to channels, wherever they lie."""
    if name == BIAS:
        return int(call_attribute(call, "axis")) == 1
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

    @classmethod
    def of(cls, extents: tuple[int, int], kernel: int, stride: int, padding: int) -> _Axis | None:
        """The axis of a transposed convolution, from data to output; None where it is not written.

        Output o = stride * place + turn sees, through element e, data (o + padding - e) / stride.
        """
        read, made = extents
        if made % stride:
            return None
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
        return cls(before=before, after=after, elements=elements)


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
    if vertical.elements.size * horizontal.elements.size > MOST_WORK * prod(kernel):
        return None
    return _Form(stride=stride, vertical=vertical, horizontal=horizontal)
