"""The nodes that a rule makes in place of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

__all__ = ["LATER", "NORMAL_OPSET", "Builder"]

NORMAL_OPSET = 23
"""The opset of the normal form: the newest that all rules know."""
LATER = "later"
"""Domain of nodes that hold the rest of a rule, ``meta["rest"]``, and never stay in a graph."""


class Builder:
    """Maker of nodes of ONNX's own operators, in the normal form's opset.

    The nodes bear the name of the node that they replace. ``names`` gives each value a new one.
    """

    def __init__(self, name: str | None, names: Iterator[str]) -> None:
        self.nodes: list[ir.Node] = []
        self._name = name
        self._names = names

    def op(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """Output of a new node; None stands for an input that is left out."""
        return self.ops(op_type, *inputs, count=1, **attributes)[0]

    def ops(
        self, op_type: str, *inputs: ir.Value | None, count: int, **attributes: Any
    ) -> Sequence[ir.Value]:
        """Outputs of a new node, as many as ``count``."""
        node = ir.node(
            op_type, inputs, attributes, num_outputs=count, version=NORMAL_OPSET, name=self._name
        )
        return self.add(node)

    def again(self, node: ir.Node, *inputs: ir.Value | None, **changed: Any) -> Sequence[ir.Value]:
        """Outputs of a node as it is, but with these inputs; a changed attribute of None goes."""
        kept = {name: each for name, each in node.attributes.items() if name not in changed}
        told = {name: value for name, value in changed.items() if value is not None}
        return self.ops(node.op_type, *inputs, count=len(node.outputs), **kept, **told)

    def reshape(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        """Tensor of the same elements in other extents."""
        wanted = self.const(np.array(shape, "int64"))
        return self.op("Reshape", value, wanted, allowzero=int(0 in shape))

    def transpose(self, value: ir.Value, axes: Sequence[int]) -> ir.Value:
        """Tensor with its axes in another order; the value itself where they stay."""
        if list(axes) == sorted(axes):
            return value
        return self.op("Transpose", value, perm=list(axes))

    def later(
        self,
        node: ir.Node,
        rest: Callable[[ir.Node, Builder], Any],
        inputs: Sequence[ir.Value],
        count: int,
    ) -> Sequence[ir.Value]:
        """Outputs that the rest of a rule makes once these inputs are in the normal form.

        ``rest`` is like a rule: it is given a node with ``inputs``, of which constants are known.
        """
        held = ir.Node(LATER, node.op_type, inputs, num_outputs=count, name=self._name)
        held.meta["rest"] = rest
        return self.add(held)

    def add(self, node: ir.Node) -> Sequence[ir.Value]:
        """Outputs of a node that was made elsewhere, and belongs to no graph."""
        for output in node.outputs:
            output.name = next(self._names)
        self.nodes.append(node)
        return node.outputs

    def const(self, value: Any, dtype: Any = None) -> ir.Value:
        """A constant of NumPy's numbers; int64 where they are Python's whole ones."""
        tensor = ir.Tensor(np.asarray(value, dtype))
        return ir.Value(
            name=next(self._names),
            type=ir.TensorType(tensor.dtype),
            shape=tensor.shape,
            const_value=tensor,
        )
