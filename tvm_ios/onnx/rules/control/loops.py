"""Rules for ``Loop``: step after step, as long as conditions are known before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.functions import constants_of, inlined
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.rules.unrolling import MOST_STEPS, require_few
from tvm_ios.onnx.values import constant, dtype_of, extents, is_static, optional, require_constant

__all__ = [
    "unrolled",
]


@rule("Loop")
def unrolled(node: ir.Node, op: Builder) -> Outputs:
    """A loop becomes its steps."""
    limit = require_constant(node, 0, "a number of steps")
    condition = optional(node, 1)
    body = node.attributes["body"].as_graph()
    loop = _Loop(
        node=node,
        body=body,
        most=None if limit is None else int(limit.ravel()[0]),
        carried=len(node.inputs) - 2,
        constants=constants_of(body),
    )
    start = op.const(True) if condition is None else condition
    return loop.from_step(0, [start, *node.inputs[2:]], op)  # type: ignore[list-item]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loop:
    """A loop that is unrolled.

    The values of a step are its condition, what the loop carries, and elements of the outputs that
    are stacked, of one step after the other.
    """

    node: ir.Node
    body: ir.Graph
    most: int | None
    """Steps that the loop takes if no condition ends it."""
    carried: int
    constants: dict[ir.Value, ir.Value]
    stacked: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stacked", len(self.body.outputs) - 1 - self.carried)

    def from_step(self, step: int, values: Sequence[ir.Value], op: Builder) -> Outputs:
        """Outputs of the loop from a step on: at once, or once the next condition is known."""
        while True:
            if step == self.most or not self._goes_on(values[0]):
                return self._ended(values, op)
            # Loops that a condition ends say the greatest number for one of no end.
            require_few(self.most if self.most and self._keeps_condition else step + 1)
            given = [op.const(step), op.const(True), *values[1 : 1 + self.carried]]
            row = inlined(self.body, given, self.constants, op)
            values = [*row[: 1 + self.carried], *values[1 + self.carried :]]
            values += row[1 + self.carried :]
            step += 1
            if not self._keeps_condition:
                count = len(self.node.outputs)
                return op.later(self.node, partial(self._rest, step), values, count)
            values[0] = op.const(True)

    def _rest(self, step: int, node: ir.Node, op: Builder) -> Outputs:
        values = [value for value in node.inputs if value is not None]
        return self.from_step(step, values, op)

    def _goes_on(self, condition: ir.Value) -> bool:
        known = constant(condition)
        if known is None:
            raise ModelError(
                f"goes on by a condition ({condition.name!r}) that only the run tells; give a "
                f"number of steps, up to {MOST_STEPS}"
            )
        return bool(known.any())

    @property
    def _keeps_condition(self) -> bool:
        """Whether the body hands on the condition that it is given."""
        value = self.body.outputs[0]
        while (producer := value.producer()) is not None and producer.op_type == "Identity":
            value = producer.inputs[0]  # type: ignore[assignment]
        return value is self.body.inputs[1]

    def _ended(self, values: Sequence[ir.Value], op: Builder) -> Outputs:
        elements = values[1 + self.carried :]
        rows = [self._stack(at, elements[at :: self.stacked], op) for at in range(self.stacked)]
        return [*values[1 : 1 + self.carried], *rows]

    def _stack(self, at: int, elements: Sequence[ir.Value], op: Builder) -> ir.Value:
        if elements:
            first = op.const([0])
            return op.op("Concat", *(op.op("Unsqueeze", e, first) for e in elements), axis=0)
        declared = self.body.outputs[1 + self.carried + at]
        if not is_static(declared):
            raise ModelError("takes no step, so that the shape of what it makes is not known")
        return op.const(np.zeros((0, *extents(declared)), dtype_of(declared)))
