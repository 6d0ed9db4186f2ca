"""Element-wise operators behind a convolution, as an expression of one sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import tvm
from tvm import relay, te, tir

from tvm_ios.relay.row_kernels.calling_convention import as_row
from tvm_ios.relay.row_kernels.costs import DEAR
from tvm_ios.relay.row_kernels.tensors import at_indices, flat_index, shape_of, tensors_of
from tvm_ios.relay.row_kernels.values import UnsuitableError

__all__ = ["Followed", "element_after", "is_dear"]

MOST_READS = 32
"""Times that the sum may occur: it is written out each time, and LLVM finds it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """Operator of a fused function that computes sums, with what follows it element by element."""

    buffers: tuple[tir.Buffer, ...]
    """Arguments of the kernel, the result last."""
    rows: Mapping[str, tir.Buffer]
    """Elements of each argument but the result, one behind the other, by name."""
    element: tir.PrimExpr
    """Element of the result."""
    _total: tir.Var
    _axes: Sequence[tir.Var]
    _shape: tuple[int, ...]
    _written: tir.Buffer

    @classmethod
    def of(cls, function: relay.Function, call: relay.Call, target: tvm.target.Target) -> Self:
        """Steps of a function in float32 that follow one of its calls.

        Raises
        ------
        UnsuitableError
            If that is no float32 of the call's shape, or not element by element.
        """
        made = te.placeholder(call.checked_type.shape, "float32", "made")
        with target:
            inputs, result = tensors_of(function, target, {call: made})
        if shape_of(result) != shape_of(made) or result.dtype != "float32":
            raise UnsuitableError
        buffers = {name: _buffer(operation.output(0), name) for operation, name in inputs.items()}
        rows = {name: as_row(buffer) for name, buffer in buffers.items()}
        total = tir.Var("total", "float32")
        axes = [tir.Var(f"axis{number}", "int32") for number in range(len(result.shape))]
        named = {operation: rows[name] for operation, name in inputs.items()}
        written = _buffer(result, "result")
        return cls(
            buffers=(*buffers.values(), written),
            rows=rows,
            element=element_after(made, total, named, result, axes),
            _total=total,
            _axes=axes,
            _shape=shape_of(result),
            _written=as_row(written),
        )

    def write(self, value: tir.PrimExpr, indices: Sequence[tir.PrimExpr]) -> tir.Stmt:
        """Statement that stores the element at some indices, made from the sum there."""
        at = {self._total: value, **dict(zip(self._axes, indices, strict=True))}
        place = flat_index(self._shape, indices)
        made = tir.stmt_functor.substitute(self.element, at)
        return tir.BufferStore(self._written, made, [place])


def _buffer(tensor: te.Tensor, name: str) -> tir.Buffer:
    return tir.decl_buffer(shape_of(tensor), tensor.dtype, name)


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
