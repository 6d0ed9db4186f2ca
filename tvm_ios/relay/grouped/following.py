"""Element-wise operators behind a convolution, as an expression of one sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tvm
from tvm import te, tir

from tvm_ios.relay.row_kernels.costs import DEAR
from tvm_ios.relay.row_kernels.tensors import at_indices, flat_index, shape_of
from tvm_ios.relay.row_kernels.values import UnsuitableError

__all__ = ["element_after", "is_dear"]

MOST_READS = 32
"""Times that the sum may occur: it is written out each time, and LLVM finds it again."""


def element_after(
    made: te.Tensor,
    total: tir.Var,
    rows: Mapping[te.Operation, tir.Buffer],
    result: te.Tensor,
    axes: Sequence[tir.Var],
) -> tir.PrimExpr:
    """Element of a result at some axes, made from the element of ``made`` there, ``total``.

    ``rows`` are the elements of all other tensors, one behind the other.

    Raises
    ------
    UnsuitableError
        If another element of ``made`` is read, or something is reduced.
    """
    return _Reader(made, total, rows, axes).element(result, axes)


def is_dear(element: tir.PrimExpr) -> bool:
    """True if an expression calls a function that takes as long as many additions."""
    found: list[object] = []
    tir.stmt_functor.post_order_visit(element, found.append)
    calls = [each for each in found if isinstance(each, tir.Call)]
    return any(call.op.name in DEAR for call in calls)


class _Reader:
    def __init__(
        self,
        made: te.Tensor,
        total: tir.Var,
        rows: Mapping[te.Operation, tir.Buffer],
        axes: Sequence[tir.Var],
    ) -> None:
        self.made, self.total, self.rows = made, total, rows
        self.reads = 0
        self._place = flat_index(shape_of(made), axes)
        self._analyzer = tvm.arith.Analyzer()
        for axis, extent in zip(axes, shape_of(made), strict=True):
            self._analyzer.bind(axis, tvm.ir.Range(0, extent))

    def element(self, tensor: te.Tensor, indices: Sequence[tir.PrimExpr]) -> tir.PrimExpr:
        """Expression of one element of a tensor."""
        operation, place = tensor.op, flat_index(shape_of(tensor), indices)
        if operation == self.made.op:
            self.reads += 1
            if self.reads > MOST_READS or not self._analyzer.can_prove_equal(place, self._place):
                raise UnsuitableError
            return self.total
        if operation in self.rows:
            return tir.BufferLoad(self.rows[operation], [place])
        if not isinstance(operation, te.ComputeOp) or operation.reduce_axis:
            raise UnsuitableError
        body = operation.body[tensor.value_index]
        return self._with_loads(tir.stmt_functor.substitute(body, at_indices(operation, indices)))

    def _with_loads(self, body: tir.PrimExpr) -> tir.PrimExpr:
        def loaded(load: tir.ProducerLoad) -> tir.PrimExpr:
            return self.element(load.producer, load.indices)

        statement = tir.Evaluate(body)
        return tir.stmt_functor.ir_transform(statement, None, loaded, ["tir.ProducerLoad"]).value
