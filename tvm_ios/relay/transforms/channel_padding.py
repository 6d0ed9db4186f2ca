"""Padding of channels of convolutions and dense layers to whole vectors, before layouts are chosen.

TVM's CPU convolutions compute a block of channels at a time, and a block has to divide the
channels: 44 channels are computed 11 at a time, 154 are 14, where a vector holds 16. A dense layer
suffers most: 1000 classes are computed 25 at a time, forty times as slow as 1024 for 32 rows, and
the 50257 words of a vocabulary 29 at a time. Such an operator gets more output channels, with
weights of zero. Later operators carry them along until one needs the original channels. Added
values are exact zeros times finite numbers, so results change at most by the order of summation.
Where a padded operator reads inf or NaN, the added channels are NaN, and so is what a later
convolution makes of them.

Places of channels are followed through concatenations: the next convolution gathers its weights
accordingly, and nothing is copied.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.target.x86 import get_simd_32bit_lanes

from tvm_ios.relay.constants import constant, is_array
from tvm_ios.relay.dataflow import (
    copy_call,
    graph_order,
    is_call_of,
    kernel_calls,
    resolve_field,
    spanned,
    with_body,
)
from tvm_ios.relay.functions.primitive import call_attribute
from tvm_ios.relay.inputs import CheckedModule, resolve_target
from tvm_ios.relay.transforms.bound_model import bound_model, in_parts
from tvm_ios.relay.transforms.channel_rules import PADDING, RULES, Value, gathered
from tvm_ios.relay.transforms.fold import fold_exactly
from tvm_ios.relay.transforms.products.shared_matrices import multiply_rows_at_once

__all__ = ["MOST_WORK", "float32_lanes", "may_pad", "pad_channels"]

MOST_WORK = 4 / 3
"""Ratio of output channels to the original ones above which an operator is left unchanged."""
FEWEST_ROWS = 4
"""Fewest rows of a padded dense layer: with fewer it waits for its weights in any case."""


def pad_channels(
    mod: tvm.IRModule | CheckedModule,
    params: Mapping[str, Any] | None,
    target: Any,
    *,
    dense: bool = True,
) -> tuple[tvm.IRModule, int]:
    """Module with convolutions of NCHW data padded to whole vectors of a CPU, and dense layers.

    Without ``dense`` the latter stay. Parameters are bound, as by :func:`bound_model`; with it
    comes the number of padded operators.
    """
    bound = bound_model(mod, params)
    rewriter = _Rewriter(float32_lanes(target), dense=dense)
    # Importers transpose the weights of dense layers, and repeat them for each entry of a batch.
    folded = fold_exactly(multiply_rows_at_once(bound))
    if not any(rewriter.pads(call) for call in kernel_calls(folded["main"].body)):
        return bound, 0
    parts = in_parts(folded)
    return with_body(parts, rewriter.rewrite(parts["main"].body)), rewriter.padded


def may_pad(typed: tvm.IRModule, target: Any) -> bool:
    """True if ``main`` of a typed module has something to pad, if its weights are constants."""
    rewriter = _Rewriter(float32_lanes(target))
    body = multiply_rows_at_once(typed)["main"].body
    return any(rewriter.pads(call, unbound=True) for call in kernel_calls(body))


def float32_lanes(target: Any) -> int:
    """Float32 numbers in a vector of a CPU."""
    with resolve_target(target):
        return int(get_simd_32bit_lanes())


class _Rewriter:
    """Rewriter of one function, from its inputs to its result."""

    def __init__(self, lanes: int, *, dense: bool = True) -> None:
        self.padded = 0
        self._pads_dense = dense
        self._lanes = lanes
        self._values: dict[relay.Expr, Value] = {}
        self._plains: dict[relay.Expr, relay.Expr] = {}

    def rewrite(self, body: relay.Expr) -> relay.Expr:
        """Body with padded convolutions and with results of the original channels."""
        for expression in graph_order(body):
            self._values[expression] = self._rewritten(expression)
        return self._plain(body)

    def pads(self, call: relay.Call, *, unbound: bool = False) -> bool:
        """True if an operator gets more channels; with ``unbound``, if weights were constants."""
        if _is_convolution(call, unbound=unbound):
            suits = int(call_attribute(call, "groups", 1)) == 1
        else:
            suits = (
                self._pads_dense
                and _is_dense(call, unbound=unbound)
                and int(call.checked_type.shape[0]) >= FEWEST_ROWS
            )
        channels = int(call.args[1].checked_type.shape[0]) if suits else 0
        return suits and channels < self._wanted(call) <= MOST_WORK * channels

    def _wanted(self, call: relay.Call) -> int:
        """Number of output channels with which TVM's blocks are whole vectors."""
        channels = int(call.args[1].checked_type.shape[0])
        if not is_call_of(call, "nn.dense"):
            return _multiple(channels, self._lanes)
        most = 2 * self._lanes  # what TVM has in a block of a dense layer, if that divides them
        block = next(size for size in range(most, 0, -1) if channels % size == 0)
        return _multiple(channels, most) if block % self._lanes else channels

    def _rewritten(self, expression: relay.Expr) -> Value:
        if isinstance(expression, relay.TupleGetItem):
            whole = self._plain(expression.tuple_value)
            return Value(resolve_field(relay.TupleGetItem(whole, expression.index)))
        if not isinstance(expression, relay.Call):
            return Value(expression)  # a tuple is made anew where it is read
        return self._call(expression) or Value(self._as_it_was(expression))

    def _call(self, call: relay.Call) -> Value | None:
        """Call on padded operands; None where it needs the original ones."""
        if not isinstance(call.op, tvm.ir.Op):
            return None
        name = call.op.name
        if _is_convolution(call):
            return self._convolution(call)
        if _is_dense(call):
            return self._dense(call)
        if name == "concatenate":
            return self._concatenation(call)
        rule = RULES.get(name)
        operands = [self._values[argument] for argument in call.args]
        if rule is None or all(operand.channels is None for operand in operands):
            return None
        return rule(call, operands)

    def _as_it_was(self, call: relay.Call) -> relay.Expr:
        return copy_call(call, [self._plain(argument) for argument in call.args])

    def _plain(self, expression: relay.Expr) -> relay.Expr:
        """Expression with its original channels: runs of them, cut out and joined."""
        if expression not in self._plains:
            value = self._values[expression]
            if isinstance(expression, relay.Tuple):
                plain = relay.Tuple([self._plain(field) for field in expression.fields])
            elif value.channels is None:
                plain = value.expression
            else:
                pieces = [
                    relay.strided_slice(value.expression, [begin], [end], axes=[1])
                    for begin, end in _runs(value.channels)
                ]
                plain = pieces[0] if len(pieces) == 1 else relay.concatenate(pieces, axis=1)
            self._plains[expression] = plain  # cut once, however many read it
        return self._plains[expression]

    def _convolution(self, call: relay.Call) -> Value | None:
        data = self._values[call.args[0]]
        weight = call.args[1].data.numpy()
        groups = int(call_attribute(call, "groups", 1))
        if groups == 1:
            weight, channels = self._weights(call)
        elif data.channels is not None and weight.shape[:2] == (groups, 1):
            channels = data.channels
            weight = gathered(weight, channels, axis=0)
            groups = len(channels)
        else:
            return None
        attributes = {
            name: call_attribute(call, name)
            for name in ("strides", "padding", "dilation", "out_layout", "out_dtype")
        }
        made = relay.nn.conv2d(
            data.expression,
            constant(weight),
            groups=groups,
            channels=weight.shape[0],
            kernel_size=weight.shape[2:],
            **attributes,
        )
        return Value(spanned(made, call), channels)

    def _dense(self, call: relay.Call) -> Value:
        weight, channels = self._weights(call)
        made = relay.nn.dense(
            self._values[call.args[0]].expression,
            constant(weight),
            units=weight.shape[0],
            out_dtype=call_attribute(call, "out_dtype"),
        )
        return Value(spanned(made, call), channels)

    def _weights(self, call: relay.Call) -> tuple[np.ndarray, np.ndarray | None]:
        """Weights for the data's present channels and the result's new ones, and their map."""
        weight, data = call.args[1].data.numpy(), self._values[call.args[0]]
        if data.channels is not None:
            weight = gathered(weight, data.channels, axis=1)
        if not self.pads(call):
            return weight, None
        self.padded += 1
        added = self._wanted(call) - weight.shape[0]
        channels = np.append(np.arange(weight.shape[0]), [PADDING] * added)
        return gathered(weight, channels, axis=0), channels

    def _concatenation(self, call: relay.Call) -> Value | None:
        if not isinstance(call.args[0], relay.Tuple) or int(call_attribute(call, "axis")) != 1:
            return None
        fields = call.args[0].fields
        pieces = [self._values[field] for field in fields]
        if all(piece.channels is None for piece in pieces):
            return None
        extents = [int(field.checked_type.shape[1]) for field in fields]
        starts = itertools.accumulate(extents, initial=0)
        channels = [
            np.arange(extent) + start
            if piece.channels is None
            else np.where(piece.channels == PADDING, PADDING, piece.channels + start)
            for piece, extent, start in zip(pieces, extents, starts, strict=False)
        ]
        joined = copy_call(call, [relay.Tuple([piece.expression for piece in pieces])])
        return Value(joined, np.concatenate(channels))


def _is_convolution(call: relay.Call, *, unbound: bool = False) -> bool:
    """True if a call convolves NCHW data with constant weights, or ``unbound`` with any."""
    return (
        is_call_of(call, "nn.conv2d")
        and (unbound or is_array(call.args[1]))
        and str(call_attribute(call, "data_layout")) == "NCHW"
        and str(call_attribute(call, "kernel_layout")) == "OIHW"
        and str(call_attribute(call, "out_layout")) in ("", "NCHW")
    )


def _is_dense(call: relay.Call, *, unbound: bool = False) -> bool:
    """True if a call multiplies a matrix with constant weights, or ``unbound`` with any."""
    return (
        is_call_of(call, "nn.dense")
        and (unbound or is_array(call.args[1]))
        and len(call.args[0].checked_type.shape) == 2
    )


def _multiple(count: int, of: int) -> int:
    """Smallest multiple that is not below a number."""
    return -(-count // of) * of


def _runs(channels: np.ndarray) -> list[tuple[int, int]]:
    """Begin and end of each run of original channels."""
    real = np.concatenate([[False], channels != PADDING, [False]])
    edges = np.flatnonzero(real[1:] != real[:-1])
    return [(int(begin), int(end)) for begin, end in edges.reshape(-1, 2)]
