"""Calls whose tensors lie in memory as whole numbers that stand for those of float32. No TVM.

oneDNN computes with the whole numbers themselves. So steps become those of numbers in other units:
an operand's before it is added, and those of the result at the end.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.core.precision.stored_type import LIMITS, StoredType
from tvm_ios.runtime.libraries.onednn.call import OnednnCall, Primitive, Step, StepKind
from tvm_ios.runtime.libraries.onednn.tensors import CHANNELS_LAST

__all__ = ["fake_quantised", "in_whole_numbers"]

PRODUCTS = frozenset({Primitive.CONVOLUTION, Primitive.PRODUCT, Primitive.TRANSPOSED})
KEEP_UNITS = frozenset({StepKind.RELU})
"""Kinds of steps that numbers in any unit may be given."""


def in_whole_numbers(function: FusedFunction, call: OnednnCall) -> OnednnCall | None:
    """The call on whole numbers; None where oneDNN has none. Other calls are unchanged."""
    result = function.rounded_to if function.rounded_to and function.rounded_to.is_whole else None
    if result is None and not any(each and each.is_whole for each in function.stored):
        return call
    data = _stored(function, call.data.position)
    weight = None if call.weight is None else _stored(function, call.weight.position)
    if call.primitive not in PRODUCTS:
        alike = data is not None and data == result and not call.steps
        counts_zeros = call.primitive is Primitive.AVERAGE_POOLING and data and data.zero_point
        return call if alike and call.window is not None and not counts_zeros else None
    # Of float32 its fast code makes no whole numbers.
    if data is None or weight is None or (call.bias and _stored(function, call.bias.position)):
        return None
    assert call.weight is not None
    if weight.dtype != "int8" or (weight.zero_point and call.primitive is not Primitive.PRODUCT):
        return None
    if call.bias and (data.scale, weight.scale) != (1, 1):
        return None
    call = replace(
        call,
        data=replace(call.data, zero_point=data.zero_point),
        weight=replace(call.weight, zero_point=weight.zero_point),
    )
    blocked = call.window is not None and call.result.format not in CHANNELS_LAST.values()
    steps: list[Step] = [_linear(data.scale * weight.scale)]
    for step in call.steps:
        stored = None if step.operand is None else _stored(function, step.operand.position)
        unlike = (stored is None) != (result is None)
        if blocked and unlike and step.operand and step.operand.extents == call.result.extents:
            return None  # which 3.2 reads as if an element of both were as large
        made = (step,) if stored is None else _in_units(step, stored)
        if made is None:
            return None
        steps += made
    if result is not None:
        steps.append(_linear(1 / result.scale, result.zero_point))
    return replace(call, steps=_together(steps))


def fake_quantised(stored: StoredType) -> tuple[Step, ...]:
    """Steps to the nearest number that a whole number stands for."""
    least, most = stored.steps
    return (
        _linear(1 / stored.scale),
        Step(kind=StepKind.CLIP, alpha=least, beta=most),
        Step(kind=StepKind.ROUND),
        _linear(stored.scale),
    )


def _stored(function: FusedFunction, position: int | None) -> StoredType | None:
    """Whole numbers that a parameter is in memory; None of others."""
    if position is None or not function.stored:
        return None
    stored = function.stored[position]
    return stored if stored is not None and stored.dtype in LIMITS else None


def _in_units(step: Step, stored: StoredType) -> tuple[Step, ...] | None:
    """Steps for one with an operand of whole numbers; None where there are none."""
    scale, zero = stored.scale, stored.zero_point
    match step.kind:
        case StepKind.ADD:
            return _linear(1 / scale, -zero), step, _linear(scale)
        case StepKind.SUBTRACT | StepKind.MAXIMUM | StepKind.MINIMUM:
            back = 0 if step.kind is StepKind.SUBTRACT else -scale * zero
            return _linear(1 / scale, zero), step, _linear(scale, back)
        case StepKind.MULTIPLY if zero == 0:
            return step, _linear(scale)
        case _:
            return None


def _together(steps: list[Step]) -> tuple[Step, ...]:
    """The steps, with neighbouring linear ones merged, and behind what takes any unit."""
    made: list[Step] = []
    for step in steps:
        last = made[-1] if made else None
        if last is not None and last.kind is StepKind.LINEAR:
            if step.kind is StepKind.LINEAR:
                beta = step.alpha * last.beta + step.beta
                made[-1] = _linear(step.alpha * last.alpha, beta)
                continue
            if step.kind in KEEP_UNITS and last.alpha > 0 and last.beta == 0:
                made[-1:] = [step, last]
                continue
        made.append(step)
    return tuple(step for step in made if step != _linear(1))


def _linear(alpha: float, beta: float = 0.0) -> Step:
    return Step(kind=StepKind.LINEAR, alpha=alpha, beta=float(beta))
