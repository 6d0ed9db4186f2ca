"""Reads what a fused function does to the result of its first call, element by element. No TVM."""

from __future__ import annotations

from dataclasses import replace

from tvm_ios.core.fused_function import FusedFunction, PrimitiveCall
from tvm_ios.runtime.libraries.onednn.call import OnednnCall, Step, StepKind
from tvm_ios.runtime.libraries.onednn.tensors import OnednnTensor

__all__ = ["read_steps"]

BINARY = {
    "add": StepKind.ADD,
    "nn.bias_add": StepKind.ADD,
    "subtract": StepKind.SUBTRACT,
    "multiply": StepKind.MULTIPLY,
    "maximum": StepKind.MAXIMUM,
    "minimum": StepKind.MINIMUM,
}
BOTH_WAYS = frozenset(BINARY) - {"nn.bias_add", "subtract"}
"""Operators whose operands may change places."""
ELEMENTWISE = {
    "nn.relu": Step(kind=StepKind.RELU),
    "sigmoid": Step(kind=StepKind.SIGMOID),
    "tanh": Step(kind=StepKind.TANH),
}
MOST_STEPS = 8
"""More than a network has; what oneDNN's own code is meant for."""


def read_steps(function: FusedFunction, call: OnednnCall) -> OnednnCall | None:
    """The call with bias and steps; None where a function does more than that."""
    value, position = function.result_of(0), 1
    steps: list[Step] = []
    while position < len(function.calls):
        found = _next_step(function, call, value, position)
        if found is None or len(steps) == MOST_STEPS:
            return None
        step, position = found
        steps.append(step)
        value = function.result_of(position - 1)
    first = steps[0] if steps else None
    if first is None or first.kind is not StepKind.ADD or not _is_bias(call, first.operand):
        return replace(call, steps=tuple(steps))
    return replace(call, bias=_as_bias(call, first.operand), steps=tuple(steps[1:]))


def _next_step(
    function: FusedFunction, call: OnednnCall, value: int, position: int
) -> tuple[Step, int] | None:
    """The step that begins at a call, and the call after it."""
    each = function.calls[position]
    if each.operator == "constant" or value not in each.operands:
        return None
    if _is_used_later(function, value, position):
        return None
    if each.operator in ELEMENTWISE:
        return ELEMENTWISE[each.operator], position + 1
    if each.operator == "clip":
        low, high = (_number(each, name) for name in ("a_min", "a_max"))
        return Step(kind=StepKind.CLIP, alpha=low, beta=high), position + 1
    if each.operator == "nn.leaky_relu":
        return Step(kind=StepKind.RELU, alpha=_number(each, "alpha")), position + 1
    step = _binary(function, call, each, value)
    return None if step is None else (step, position + 1)


def _binary(
    function: FusedFunction, call: OnednnCall, each: PrimitiveCall, value: int
) -> Step | None:
    if each.operator not in BINARY or len(each.operands) != 2:
        return None
    left, right = each.operands
    if left == right or (left != value and each.operator not in BOTH_WAYS):
        return None
    other = right if left == value else left
    if other >= len(function.parameters):
        return None
    axis = each.attribute("axis") if each.operator == "nn.bias_add" else None
    shape = function.parameters[other].shape
    operand = _operand(call, other, shape, axis if isinstance(axis, int) else None)
    return None if operand is None else Step(kind=BINARY[each.operator], operand=operand)


def _operand(
    call: OnednnCall, position: int, shape: tuple[int, ...], axis: int | None
) -> OnednnTensor | None:
    """A parameter of the result's shape, or with one value a channel, or with one value."""
    result = call.result
    if shape == result.shape and axis is None:
        return replace(result, position=position)
    channels = _channel_shape(call)
    wanted = channels
    if axis is not None:
        first = axis % len(result.shape)
        shape = (*shape, *(1,) * (len(result.shape) - first - len(shape)))
    if len(shape) > len(wanted):
        return None
    own = shape
    shape = (*(1,) * (len(wanted) - len(shape)), *shape)
    rank = len(result.extents)
    if shape == wanted:
        place = 1 if call.window is not None else rank - 1
        extents = tuple(result.extents[place] if i == place else 1 for i in range(rank))
    elif all(extent == 1 for extent in shape):
        extents = (1,) * rank
    else:
        return None
    format_ = "abcd"[:rank]
    return OnednnTensor(position=position, shape=own, extents=extents, format=format_)


def _channel_shape(call: OnednnCall) -> tuple[int, ...]:
    """The shape of a tensor with one value a channel, which broadcasts to the result's."""
    shape = call.result.shape
    if call.window is None or call.result.format == "acdb":
        return (*(1,) * (len(shape) - 1), shape[-1])
    inner = shape[4:]  # the block, where channels have blocks
    return (1, shape[1], 1, 1, *inner)


def _is_bias(call: OnednnCall, operand: OnednnTensor | None) -> bool:
    if operand is None:
        return False
    place = 1 if call.window is not None else len(call.result.extents) - 1
    whole = operand.extents == call.result.extents
    return operand.extents[place] == call.result.extents[place] and (
        not whole or all(e == 1 for i, e in enumerate(operand.extents) if i != place)
    )


def _as_bias(call: OnednnCall, operand: OnednnTensor | None) -> OnednnTensor | None:
    if operand is None or call.window is None:
        return operand
    return replace(operand, extents=(call.result.extents[1],), format="a")


def _is_used_later(function: FusedFunction, value: int, position: int) -> bool:
    return any(value in later.operands for later in function.calls[position + 1 :])


def _number(call: PrimitiveCall, name: str) -> float:
    value = call.attribute(name)
    assert isinstance(value, int | float), f"{call.operator} has a number {name}"
    return float(value)
