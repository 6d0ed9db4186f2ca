"""Rules for recurrent layers: one product of the whole sequence, then step after step.

A sequence that is shorter than others of its batch keeps its states from its end on, where its
outputs are zero. That holds for a direction that goes back, too: it starts at that end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.rules.recurrent.activations import Activation, activations
from tvm_ios.onnx.rules.recurrent.cells import Cell, Weights, gru, lstm, rnn
from tvm_ios.onnx.rules.unrolling import require_few
from tvm_ios.onnx.values import constant, dtype_of, extents, optional, required

__all__ = [
    "gated",
    "long_short",
    "plain",
]

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Whether each direction goes back."""


@rule("RNN")
def plain(node: ir.Node, op: Builder) -> Outputs:
    """A plain recurrent layer, step by step."""
    return _Layer(node, op, gates=1, usual=["Tanh"]).unrolled(rnn)


@rule("LSTM")
def long_short(node: ir.Node, op: Builder) -> Outputs:
    """An LSTM, step by step."""
    return _Layer(node, op, gates=4, usual=["Sigmoid", "Tanh", "Tanh"]).unrolled(lstm)


@rule("GRU")
def gated(node: ir.Node, op: Builder) -> Outputs:
    """A GRU, step by step."""
    linear = node.attributes.get_int("linear_before_reset", 0) != 0
    layer = _Layer(node, op, gates=3, usual=["Sigmoid", "Tanh"], apart=linear)
    return layer.unrolled(partial(gru, linear=linear))


class _Layer:
    """A recurrent layer on its way to nodes.

    ``apart``: the recurrent bias of the last gate is the cell's to add.
    """

    def __init__(
        self, node: ir.Node, op: Builder, *, gates: int, usual: Sequence[str], apart: bool = False
    ) -> None:
        self._node, self._op, self._gates, self._apart = node, op, gates, apart
        self._batch_first = node.attributes.get_int("layout", 0) == 1
        value = required(node)
        self._dtype = dtype_of(value)
        steps, self._batch = extents(value)[:2][:: -1 if self._batch_first else 1]
        self._steps = steps
        self._input = op.op("Transpose", value, perm=[1, 0, 2]) if self._batch_first else value
        count, _, self._hidden = extents(required(node, 2))
        direction = node.attributes.get_string("direction", "forward").lower()
        self._directions = _DIRECTIONS.get(direction, ())
        if len(self._directions) != count:
            raise ModelError(f"has weights of {count} directions, and direction={direction!r}")
        if not steps:
            raise ModelError("has sequences of no step; give at least one")
        require_few(steps * count)
        self._activations = activations(node, op, usual, count)
        self._masks = self._masks_by_step()

    def unrolled(self, cell_of: Callable[[Weights], Cell]) -> Outputs:
        """Outputs of the layer: those of all steps, and the states after the last one."""
        op, count = self._op, len(self._directions)
        rows, states = [], []
        for place, backward in enumerate(self._directions):
            cell = cell_of(self._weights(place, self._activations[place]))
            row, last = self._walked(cell, self._given(place), self._starts(place), backward)
            flat = op.op("Concat", *row, axis=0)
            shape = [self._steps, 1, self._batch, self._hidden]
            rows.append(op.op("Reshape", flat, op.const(shape)))
            states.append(last)
        every = op.op("Concat", *rows, axis=1) if count > 1 else rows[0]
        if self._batch_first:
            every = op.op("Transpose", every, perm=[2, 0, 1, 3])
        lasts = [self._stacked(each) for each in zip(*states, strict=True)]
        return [every, *lasts][: len(self._node.outputs)]

    def _walked(
        self, cell: Cell, given: ir.Value, states: Sequence[ir.Value], backward: bool
    ) -> tuple[list[ir.Value], Sequence[ir.Value]]:
        """Outputs by time, and the states after the last step."""
        op = self._op
        zero = op.const(np.zeros((self._batch, self._hidden), self._dtype))
        row = dict.fromkeys(range(self._steps), zero)
        for time in sorted(range(self._longest()), reverse=backward):
            new = cell(op.op("Gather", given, op.const(time), axis=0), states)
            mask = self._masks[time]
            if mask is None:
                states, row[time] = new, new[0]
                continue
            row[time] = op.op("Where", mask, new[0], zero)
            states = [op.op("Where", mask, *each) for each in zip(new, states, strict=True)]
        some = self._masks[0]
        if some is not None:  # a sequence of no step has no last states, as in onnxruntime
            states = [op.op("Where", some, each, zero) for each in states]
        return list(row.values()), states

    def _longest(self) -> int:
        """Number of steps that a sequence of the batch may have."""
        known = constant(optional(self._node, 4))
        return self._steps if known is None else min(int(known.max()), self._steps)

    def _masks_by_step(self) -> list[ir.Value | None]:
        """Masks of the sequences that have a step, ``[batch, 1]``; None where all have it."""
        op, lengths = self._op, optional(self._node, 4)
        if lengths is None:
            return [None] * self._steps
        known = constant(lengths)
        column = op.op("Unsqueeze", lengths, op.const([1]))
        return [
            None
            if known is not None and (known > time).all()
            else op.op("Less", op.const(time, dtype_of(lengths)), column)
            for time in range(self._steps)
        ]

    def _weights(self, place: int, active: Sequence[Activation]) -> Weights:
        recurrent = self._of_direction(2, place)
        assert recurrent is not None
        bias = self._biases(place)
        return Weights(
            op=self._op,
            hidden=self._hidden,
            one=self._op.const(1, self._dtype),
            recurrent=self._op.op("Transpose", recurrent, perm=[1, 0]),
            bias=bias[1],
            peepholes=self._of_direction(7, place),
            activations=active,
            clip=self._clip(),
            coupled=self._node.attributes.get_int("input_forget", 0) != 0,
        )

    def _given(self, place: int) -> ir.Value:
        """Gates of all steps as far as the input tells them: ``[steps, batch, gates]``."""
        op, weights = self._op, self._of_direction(1, place)
        assert weights is not None
        product = op.op("MatMul", self._input, op.op("Transpose", weights, perm=[1, 0]))
        bias = self._biases(place)[0]
        return product if bias is None else op.op("Add", product, bias)

    def _biases(self, place: int) -> tuple[ir.Value | None, ir.Value | None]:
        """Bias of the product with the input, and that which the cell adds."""
        op, both = self._op, self._of_direction(3, place)
        if both is None:
            return None, None
        width = self._gates * self._hidden
        if not self._apart:
            halves = op.ops("Split", both, op.const([width, width]), count=2, axis=0)
            return op.op("Add", *halves), None
        sizes = op.const([width, width - self._hidden, self._hidden])
        of_input, of_gates, of_last = op.ops("Split", both, sizes, count=3, axis=0)
        zeros = op.const(np.zeros(self._hidden, self._dtype))
        return op.op("Add", of_input, op.op("Concat", of_gates, zeros, axis=0)), of_last

    def _starts(self, place: int) -> list[ir.Value]:
        """States before the first step."""
        starts = []
        for at in (5, 6) if self._gates == 4 else (5,):
            given = self._of_direction(at, place, axis=1 if self._batch_first else 0)
            zeros = np.zeros((self._batch, self._hidden), self._dtype)
            starts.append(self._op.const(zeros) if given is None else given)
        return starts

    def _stacked(self, states: Sequence[ir.Value]) -> ir.Value:
        """States of all directions as one output."""
        op, axis = self._op, 1 if self._batch_first else 0
        parts = [op.op("Unsqueeze", each, op.const([axis])) for each in states]
        return op.op("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]

    def _of_direction(self, at: int, place: int, axis: int = 0) -> ir.Value | None:
        """The part of an input that is of one direction."""
        value = optional(self._node, at)
        if value is None:
            return None
        return self._op.op("Gather", value, self._op.const(place), axis=axis)

    def _clip(self) -> Callable[[ir.Value], ir.Value]:
        bound: Any = self._node.attributes.get_float("clip", None)
        if bound is None:
            return lambda value: value
        low, high = (self._op.const(each, self._dtype) for each in (-bound, bound))
        return lambda value: self._op.op("Clip", value, low, high)
