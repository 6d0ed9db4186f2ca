"""Cells of recurrent layers: the nodes of one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import onnx_ir as ir

from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rules.recurrent.activations import Activation

__all__ = ["Cell", "Weights", "gru", "lstm", "rnn"]

States: TypeAlias = Sequence[ir.Value]
"""Hidden state, ``[batch, hidden]``, and in an LSTM the cell's."""
Cell: TypeAlias = Callable[[ir.Value, States], States]
"""Function of one step: from gates by the input, ``[batch, gates * hidden]``, and states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Weights, activations and bounds of a cell of one direction."""

    op: Builder
    hidden: int
    one: ir.Value
    recurrent: ir.Value
    """Weights of the hidden state, ``[hidden, gates * hidden]``."""
    bias: ir.Value | None = None
    """Bias of the product with the hidden state, where it is not added to that with the input."""
    peepholes: ir.Value | None = None
    """Weights of the cell's state in gates i, o, f, ``[3 * hidden]``."""
    activations: Sequence[Activation]
    clip: Callable[[ir.Value], ir.Value]
    coupled: bool = False
    """Whether an LSTM forgets what it does not let in."""

    def parts(self, value: ir.Value, count: int, axis: int = 1) -> Sequence[ir.Value]:
        """Parts of one gate each."""
        return self.split(value, [self.hidden] * count, axis)

    def split(self, value: ir.Value, sizes: Sequence[int], axis: int = 1) -> Sequence[ir.Value]:
        """Parts of these sizes."""
        return self.op.ops("Split", value, self.op.const(sizes), count=len(sizes), axis=axis)

    def active(self, place: int, value: ir.Value) -> ir.Value:
        """An activation of a value within the clipping bounds."""
        return self.activations[place](self.clip(value))


def rnn(weights: Weights) -> Cell:
    """Cell of a plain recurrent layer."""
    op = weights.op

    def step(given: ir.Value, states: States) -> States:
        product = op.op("MatMul", states[0], weights.recurrent)
        return [weights.active(0, op.op("Add", given, product))]

    return step


def lstm(weights: Weights) -> Cell:
    """Cell of an LSTM, whose gates are i, o, f, c in this order."""
    op = weights.op
    looks = weights.peepholes
    peepholes = [None] * 3 if looks is None else weights.parts(looks, 3, axis=0)

    def seen(value: ir.Value, cell: ir.Value, peephole: ir.Value | None) -> ir.Value:
        return value if peephole is None else op.op("Add", value, op.op("Mul", peephole, cell))

    def step(given: ir.Value, states: States) -> States:
        hidden, cell = states
        product = op.op("MatMul", hidden, weights.recurrent)
        i, o, f, c = weights.parts(op.op("Add", given, product), 4)
        let_in = weights.active(0, seen(i, cell, peepholes[0]))
        if weights.coupled:
            kept = op.op("Sub", weights.one, let_in)
        else:
            kept = weights.active(0, seen(f, cell, peepholes[2]))
        new = op.op("Mul", let_in, weights.active(1, c))
        cell = op.op("Add", op.op("Mul", kept, cell), new)
        let_out = weights.active(0, seen(o, cell, peepholes[1]))
        return [op.op("Mul", let_out, weights.activations[2](cell)), cell]

    return step


def gru(weights: Weights, *, linear: bool) -> Cell:
    """Cell of a GRU, whose gates are z, r, h; ``linear``: r scales the product, not the state."""
    op, hidden = weights.op, weights.hidden
    both, last = weights.split(weights.recurrent, [2 * hidden, hidden])

    def step(given: ir.Value, states: States) -> States:
        (state,) = states
        of_gates, of_new = weights.split(given, [2 * hidden, hidden])
        z, r = weights.parts(op.op("Add", of_gates, op.op("MatMul", state, both)), 2)
        kept, reset = weights.active(0, z), weights.active(0, r)
        if linear:
            product = op.op("MatMul", state, last)
            if weights.bias is not None:
                product = op.op("Add", product, weights.bias)
            product = op.op("Mul", reset, product)
        else:
            product = op.op("MatMul", op.op("Mul", reset, state), last)
        new = weights.active(1, op.op("Add", of_new, product))
        fresh = op.op("Mul", op.op("Sub", weights.one, kept), new)
        return [op.op("Add", fresh, op.op("Mul", kept, state))]

    return step
