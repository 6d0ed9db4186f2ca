"""Rules for ``Scan``: a step for each slice, along axes in either direction."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.functions import constants_of, inlined
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.rules.unrolling import require_few
from tvm_ios.onnx.values import extents, require_constant

__all__ = [
    "unrolled",
]

_OF_BATCHES = 8
"""The opset in which scans are of batches, whose axis comes first."""


@rule("Scan")
def unrolled(node: ir.Node, op: Builder) -> Outputs:
    """A scan becomes its steps; that of a batch, those of each of its elements."""
    scan = _Scan(node, op)
    if node.version != _OF_BATCHES:
        inputs = [value for value in node.inputs if value is not None]
        return scan.steps(inputs, scan.length(inputs[-1]))
    inputs = [value for value in node.inputs[1:] if value is not None]
    batch, length = extents(inputs[-1])[:2]
    lengths = require_constant(node, 0, "sequence_lens")
    if lengths is not None and (lengths != length).any():
        raise ModelError(f"has sequence_lens other than {length}; give sequences of one length")
    require_few(batch * length)
    rows = [
        scan.steps([op.op("Gather", value, op.const(at), axis=0) for value in inputs], length)
        for at in range(batch)
    ]
    return [_stacked(op, parts, 0) for parts in zip(*rows, strict=True)]


class _Scan:
    """A scan on its way to its steps."""

    def __init__(self, node: ir.Node, op: Builder) -> None:
        self._op = op
        self._body = node.attributes["body"].as_graph()
        self._constants = constants_of(self._body)
        self._scanned = node.attributes.get_int("num_scan_inputs")
        self._carried = len(self._body.inputs) - self._scanned
        given, none = node.attributes, [0] * (len(self._body.outputs) + self._scanned)
        old = given.get_ints("directions", none)  # of opset 8, which has no other
        self._back = given.get_ints("scan_input_directions", old)
        self._axes = given.get_ints("scan_input_axes", none)
        self._made_back = given.get_ints("scan_output_directions", none)
        self._made_axes = given.get_ints("scan_output_axes", none)

    def length(self, last: ir.Value) -> int:
        """Number of steps, which is the extent of each input that is scanned."""
        return extents(last)[self._axes[self._scanned - 1]]

    def steps(self, inputs: Sequence[ir.Value], count: int) -> list[ir.Value]:
        """Outputs of the scan: last states, and what its steps made, of each a tensor."""
        require_few(count)
        if not count:
            raise ModelError("takes no step, so that the shape of what it makes is not known")
        states, scanned = list(inputs[: self._carried]), inputs[self._carried :]
        rows: list[Sequence[ir.Value]] = []
        for step in range(count):
            slices = [self._slice(value, at, step, count) for at, value in enumerate(scanned)]
            made = inlined(self._body, [*states, *slices], self._constants, self._op)
            states = made[: self._carried]
            rows.append(made[self._carried :])
        return [*states, *(self._row(at, row) for at, row in enumerate(zip(*rows, strict=True)))]

    def _slice(self, value: ir.Value, at: int, step: int, count: int) -> ir.Value:
        place = count - 1 - step if self._back[at] else step
        return self._op.op("Gather", value, self._op.const(place), axis=self._axes[at])

    def _row(self, at: int, parts: Sequence[ir.Value]) -> ir.Value:
        order = parts[::-1] if self._made_back[at] else parts
        return _stacked(self._op, order, self._made_axes[at])


def _stacked(op: Builder, parts: Sequence[ir.Value], axis: int) -> ir.Value:
    """Values along a new axis."""
    axes = op.const([axis])
    return op.op("Concat", *(op.op("Unsqueeze", part, axes) for part in parts), axis=axis)
