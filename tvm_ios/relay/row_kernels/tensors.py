"""Tensors of a fused function by TVM's own compute rules, which say what each operator does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tvm
from tvm import relay, te, tir

from tvm_ios.relay.constants import is_scalar, values_of
from tvm_ios.relay.dataflow import graph_order
from tvm_ios.relay.row_kernels.values import UnsuitableError

__all__ = [
    "at_indices",
    "constant",
    "flat_index",
    "loads_of",
    "mentions",
    "reduction_of",
    "shape_of",
    "stages_of",
    "tensors_of",
]


def tensors_of(
    function: relay.Function,
    target: tvm.target.Target,
    given: Mapping[relay.Expr, te.Tensor] | None = None,
) -> tuple[dict[te.Operation, str], te.Tensor]:
    """Names of the parameters by placeholder, and the result, by TVM's compute rules.

    ``given`` are tensors of expressions that are computed otherwise.
    """
    known: dict[relay.Expr, te.Tensor] = dict(given or {})
    inputs: dict[te.Operation, str] = {}
    for expression in graph_order(function.body):
        if expression in known:
            continue
        if isinstance(expression, relay.Var):
            type_ = expression.checked_type
            known[expression] = te.placeholder(type_.shape, type_.dtype, expression.name_hint)
        elif is_scalar(expression):
            known[expression] = _number(expression)
        elif isinstance(expression, relay.Call) and isinstance(expression.op, tvm.ir.Op):
            known[expression] = _computed(expression, known, target)
        elif not isinstance(expression, relay.Tuple):
            raise UnsuitableError
    for parameter in function.params:
        if parameter not in known:
            raise UnsuitableError
        inputs[known[parameter].op] = parameter.name_hint
    return inputs, known[function.body]


def _number(constant: relay.Constant) -> te.Tensor:
    number = tir.const(values_of(constant).item(), constant.data.dtype)
    return te.compute((), lambda: number)


def _computed(
    call: relay.Call, known: Mapping[relay.Expr, te.Tensor], target: tvm.target.Target
) -> te.Tensor:
    strategy = call.op.get_attr("FTVMStrategy")
    if strategy is None or not isinstance(call.checked_type, tvm.ir.TensorType):
        raise UnsuitableError
    operands = [
        known[field]
        for argument in call.args
        for field in (argument.fields if isinstance(argument, relay.Tuple) else [argument])
    ]
    found = strategy(call.attrs, operands, call.checked_type, target)
    first = found.specializations[0].implementations[0]
    return first.compute(call.attrs, operands, call.checked_type)[0]


def stages_of(output: te.Tensor) -> list[te.Tensor]:
    """Tensors that a result is computed from, itself first."""
    # By operation: TVM refuses to compare tensors without dimensions.
    found: dict[te.Operation, te.Tensor] = {}
    pending = [output]
    while pending:
        tensor = pending.pop()
        if tensor.op not in found:
            found[tensor.op] = tensor
            pending.extend(tensor.op.input_tensors)
    return list(found.values())


def shape_of(tensor: te.Tensor) -> tuple[int, ...]:
    """Extents of a tensor of static shape."""
    return tuple(int(extent) for extent in tensor.shape)


def loads_of(expression: tir.PrimExpr) -> list[tir.ProducerLoad]:
    """Elements of tensors that an expression reads."""
    found: list[tir.ProducerLoad] = []

    def look(part: object) -> None:
        if isinstance(part, tir.ProducerLoad):
            found.append(part)

    tir.stmt_functor.post_order_visit(expression, look)
    return found


def reduction_of(tensor: te.Tensor) -> tir.Reduce | None:
    """Reduction of a tensor's computation, with one result."""
    body = tensor.op.body[0] if isinstance(tensor.op, te.ComputeOp) else None
    if not isinstance(body, tir.Reduce):
        return None
    begins = zip(body.init, body.combiner.identity_element, strict=False)
    if len(body.source) != 1 or not all(tvm.ir.structural_equal(*both) for both in begins):
        raise UnsuitableError
    return body


def at_indices(
    operation: te.ComputeOp, indices: Sequence[tir.PrimExpr]
) -> dict[tir.Var, tir.PrimExpr]:
    """Indices of one element of a computed tensor, by its axes."""
    # Slices that ONNX writes count in int64, whatever the axes count in.
    return {
        axis.var: index.astype(axis.var.dtype)
        for axis, index in zip(operation.axis, indices, strict=True)
    }


def flat_index(shape: Sequence[int], indices: Sequence[tir.PrimExpr]) -> tir.PrimExpr:
    """Number of an element of a tensor, counted from the first one in the order of memory."""
    flat: tir.PrimExpr = tir.const(0, "int32")
    for extent, index in zip(shape, indices, strict=True):
        flat = flat * extent + index
    return flat


def mentions(expression: tir.PrimExpr, variable: tir.Var) -> bool:
    """True if an expression depends on a variable."""
    free = tir.analysis.undefined_vars(tir.Evaluate(expression), [])
    return any(variable.same_as(each) for each in free)


def constant(expression: tir.PrimExpr) -> int | None:
    """Value of an expression that is constant once it is simplified, None of another one."""
    plain = tvm.arith.Analyzer().simplify(expression)
    return int(plain) if isinstance(plain, tir.IntImm) else None
