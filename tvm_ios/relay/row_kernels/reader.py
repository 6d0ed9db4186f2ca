"""Reading of a fused function as values over one index space.

A function of element-wise operators and reductions computes over one index space, that of its
result. Its axes are cut finely enough for every shape in the function, so a reshape, such as that
of a group norm, changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import tvm
from tvm import relay, te, tir

from tvm_ios.relay.row_kernels.calling_convention import as_row
from tvm_ios.relay.row_kernels.costs import is_vectorised
from tvm_ios.relay.row_kernels.tensors import (
    at_indices,
    flat_index,
    loads_of,
    mentions,
    reduction_of,
    shape_of,
    stages_of,
    tensors_of,
)
from tvm_ios.relay.row_kernels.values import Computation, UnsuitableError, Value

__all__ = ["read_computation"]


def read_computation(function: relay.Function, target: tvm.target.Target) -> Computation:
    """Values of a fused, typed function.

    Raises
    ------
    UnsuitableError
        If an operator is neither element-wise nor a reduction, reductions go along different axes,
        or elements of a tensor are read in an order that is no fixed stride along each axis.
    """
    inputs, output = tensors_of(function, target)
    stages = stages_of(output)
    shapes = [shape_of(tensor) for tensor in stages]
    total = math.prod(shapes[0])
    if total < max(map(math.prod, shapes)):
        raise UnsuitableError
    cuts = _cuts([shape for shape in shapes if math.prod(shape) == total])
    extents = tuple(outer // inner for outer, inner in pairwise(cuts))
    axes = tuple(tir.Var(f"a{number}", "int32") for number in range(len(extents)))
    reader = _Reader(inputs, axes, extents, total)
    indices = reader.find_axes(stages)
    reader.value(output, indices)
    result = tir.decl_buffer(shape_of(output), output.dtype, "result")
    return Computation(
        axes=axes,
        extents=extents,
        reduced=tuple(reader.reduced),
        parameters=(*reader.parameters, result),
        values=tuple(reader.values),
        result=as_row(result),
        place=reader.affine(flat_index(shape_of(output), indices)),
    )


def _cuts(shapes: Sequence[tuple[int, ...]]) -> list[int]:
    """Strides of axes that suit the first shape, and all others in the same order of elements.

    They begin with the size of the whole space and end with 1.
    """
    cuts: list[int] = []
    for shape in shapes:
        strides = {math.prod(shape[axis:]) for axis in range(len(shape))}
        finer = sorted({*cuts, *strides, 1}, reverse=True)
        if not any(outer % inner for outer, inner in pairwise(finer)):
            cuts = finer
    return cuts


class _Reader:
    """Reader of tensors at points of the index space."""

    def __init__(
        self,
        inputs: Mapping[te.Operation, str],
        axes: tuple[tir.Var, ...],
        extents: tuple[int, ...],
        total: int,
    ) -> None:
        self.axes, self.extents, self.total = axes, extents, total
        self.reduced = [False] * len(axes)
        self.values: list[Value] = []
        self.parameters = []
        self._rows: dict[te.Operation, tir.Buffer] = {}
        for operation, name in inputs.items():
            tensor = operation.output(0)
            buffer = tir.decl_buffer(shape_of(tensor), tensor.dtype, name)
            self.parameters.append(buffer)
            self._rows[operation] = as_row(buffer)
        self._known: dict[te.Operation, list[tuple[tir.PrimExpr, Value]]] = {}
        self._analyzer = tvm.arith.Analyzer()
        for axis, extent in zip(axes, extents, strict=True):
            self._analyzer.bind(axis, tvm.ir.Range(0, extent))
        self._points: dict[te.Operation, list[tir.PrimExpr]] = {}
        """Indices of whole tensors that belong to the same element of the result."""
        self._along: dict[tir.Var, tir.PrimExpr] = {}
        """Indices that variables of reductions stand for."""

    def find_axes(self, stages: Sequence[te.Tensor]) -> list[tir.PrimExpr]:
        """Indices of the result, the first stage; finds along which axes reductions go."""
        indices = [self._joined(span) for span in self._spans(shape_of(stages[0]))]
        self._place_what_is_read(stages[0], indices)
        while any(self._place_by_what_it_mentions(tensor) for tensor in stages):
            pass
        reductions = [reduction_of(tensor) for tensor in stages]
        along = [self._reduced_by(reduce) for reduce in reductions if reduce is not None]
        if any(each != along[0] for each in along):
            raise UnsuitableError
        if along:
            self.reduced = along[0]
        return indices

    def _place_what_is_read(self, tensor: te.Tensor, indices: Sequence[tir.PrimExpr]) -> None:
        """Note where whole tensors are read for one element of the result, but for reductions."""
        if not self._is_whole(tensor) or tensor.op in self._points:
            return
        self._points[tensor.op] = [self.affine(index) for index in indices]
        if isinstance(tensor.op, te.ComputeOp) and reduction_of(tensor) is None:
            at = at_indices(tensor.op, indices)
            for load in loads_of(tir.stmt_functor.substitute(tensor.op.body[0], at)):
                self._place_what_is_read(load.producer, load.indices)

    def _place_by_what_it_mentions(self, tensor: te.Tensor) -> bool:
        """True if a whole tensor that only reductions read was placed by a tensor that it reads."""
        if not self._is_whole(tensor) or tensor.op in self._points or tensor.op in self._rows:
            return False
        for load in loads_of(tensor.op.body[0]):
            places = self._points.get(load.producer.op)
            if places is None:
                continue
            at = dict(zip(load.indices, places, strict=True))
            found = [at.get(axis.var) if int(axis.dom.extent) > 1 else 0 for axis in tensor.op.axis]
            if all(index is not None for index in found):
                self._points[tensor.op] = [tvm.runtime.convert(index) for index in found]
                return True
        return False

    def _reduced_by(self, reduce: tir.Reduce) -> list[bool]:
        """Whether a reduction goes along each axis."""
        extents = {axis.var: int(axis.dom.extent) for axis in reduce.axis}
        for load in loads_of(reduce.source[0]):
            place = self._points.get(load.producer.op, [None] * len(load.indices))
            for index, at, extent in zip(load.indices, place, shape_of(load.producer), strict=True):
                if index not in extents:
                    continue
                known = self._along.setdefault(index, at)
                if at is None or extent != extents[index] or not tvm.ir.structural_equal(at, known):
                    raise UnsuitableError
        if any(variable not in self._along for variable in extents):
            raise UnsuitableError
        return [
            any(mentions(self._along[variable], axis) for variable in extents) for axis in self.axes
        ]

    def _is_whole(self, tensor: te.Tensor) -> bool:
        return math.prod(shape_of(tensor)) == self.total

    def _spans(self, shape: tuple[int, ...]) -> list[list[int]]:
        """Axes that each dimension of the result consists of."""
        rest = list(range(len(self.axes)))
        spans: list[list[int]] = []
        for extent in reversed(shape):
            span: list[int] = []
            while math.prod(self.extents[number] for number in span) < extent:
                span.insert(0, rest.pop())
            spans.insert(0, span)
        return spans

    def _joined(self, span: Sequence[int]) -> tir.PrimExpr:
        return flat_index(
            [self.extents[number] for number in span], [self.axes[number] for number in span]
        )

    def affine(self, index: tir.PrimExpr) -> tir.PrimExpr:
        """Index as a sum of axes, each times a stride."""
        simple = self._analyzer.canonical_simplify(self._analyzer.simplify(index))
        parts = tvm.arith.detect_linear_equation(simple, list(self.axes))
        if not len(parts):
            raise UnsuitableError
        if not all(isinstance(part, tir.IntImm) for part in parts):
            raise UnsuitableError
        total: tir.PrimExpr = tir.const(int(parts[-1]), "int32")
        for axis, stride in zip(self.axes, parts, strict=False):
            if int(stride):
                total = total + axis * int(stride)
        return total

    def value(self, tensor: te.Tensor, indices: Sequence[tir.PrimExpr]) -> Value:
        """Value of a tensor at a point, the same object for the same point."""
        place = self.affine(flat_index(shape_of(tensor), indices))
        known = self._known.setdefault(tensor.op, [])
        for other, value in known:
            if tvm.ir.structural_equal(other, place, map_free_vars=False):
                return value
        value = self._read(tensor, indices, place)
        # TVM computes bfloat16 in another type, which takes buffers but no variables.
        if value.name.dtype == "bfloat16" or not is_vectorised(value):
            raise UnsuitableError
        known.append((place, value))
        self.values.append(value)
        return value

    def _read(
        self, tensor: te.Tensor, indices: Sequence[tir.PrimExpr], place: tir.PrimExpr
    ) -> Value:
        if tensor.op in self._rows:
            load = tir.BufferLoad(self._rows[tensor.op], [place])
            return Value(expression=load, reads=(), on_row=not self._moves(place))
        if not isinstance(tensor.op, te.ComputeOp) or len(tensor.op.body) != 1:
            raise UnsuitableError
        at = at_indices(tensor.op, indices)
        reduce = reduction_of(tensor)
        body = tensor.op.body[0] if reduce is None else reduce.source[0]
        if reduce is not None and self._moves(place):
            raise UnsuitableError
        # Changes of layout ask whether an element lies in the padding, of which there may be none.
        body = self._analyzer.simplify(tir.stmt_functor.substitute(body, at | self._along))
        reads: list[Value] = []
        expression = self._with_values(body, reads)
        moves = self._moves(expression) or not all(each.on_row for each in reads)
        return Value(
            expression=expression,
            reads=tuple(dict.fromkeys(reads)),
            combiner=None if reduce is None else reduce.combiner,
            on_row=reduce is not None or not moves,
        )

    def _moves(self, expression: tir.PrimExpr) -> bool:
        """True if an expression is not the same all along the reduced axes."""
        return any(
            along and mentions(expression, axis)
            for axis, along in zip(self.axes, self.reduced, strict=True)
        )

    def _with_values(self, body: tir.PrimExpr, reads: list[Value]) -> tir.PrimExpr:
        def named(load: tir.ProducerLoad) -> tir.PrimExpr:
            value = self.value(load.producer, load.indices)
            reads.append(value)
            return value.name

        statement = tir.stmt_functor.ir_transform(
            tir.Evaluate(body), None, named, ["tir.ProducerLoad"]
        )
        return statement.value
