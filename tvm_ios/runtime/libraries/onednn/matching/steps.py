"""Steps that a fused function does to each element of its first call's result. No TVM."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tvm_ios.core.fused_function import FusedFunction, PrimitiveCall
from tvm_ios.core.precision.stored_type import FAKE_QUANTIZE, StoredType
from tvm_ios.runtime.libraries.onednn.call import OnednnCall, Step, StepKind
from tvm_ios.runtime.libraries.onednn.matching.gates import read_gate
from tvm_ios.runtime.libraries.onednn.matching.tanh_gelu import read_tanh_gelu
from tvm_ios.runtime.libraries.onednn.matching.whole_numbers import fake_quantised
from tvm_ios.runtime.libraries.onednn.tensors import CHANNELS_LAST, OnednnTensor, in_order

__all__ = ["read_steps"]

BINARY: Mapping[str, StepKind] = MappingProxyType(
    {
        "add": StepKind.ADD,
        "nn.bias_add": StepKind.ADD,
        "subtract": StepKind.SUBTRACT,
        "multiply": StepKind.MULTIPLY,
        "maximum": StepKind.MAXIMUM,
        "minimum": StepKind.MINIMUM,
        "nn.prelu": StepKind.PRELU,
    }
)
BOTH_WAYS = frozenset(BINARY) - {"nn.bias_add", "nn.prelu", "subtract"}
"""Operators whose operands may change places."""
ELEMENTWISE: Mapping[str, Step] = MappingProxyType(
    {
        "nn.relu": Step(kind=StepKind.RELU),
        "sigmoid": Step(kind=StepKind.SIGMOID),
        "tanh": Step(kind=StepKind.TANH),
        "erf": Step(kind=StepKind.ERF),
        "exp": Step(kind=StepKind.EXP),
        "log": Step(kind=StepKind.LOG),
        "nn.gelu": Step(kind=StepKind.GELU),
        "nn.gelu_tanh": Step(kind=StepKind.GELU_TANH),
        "nn.silu": Step(kind=StepKind.SWISH, alpha=1.0),
    }
)
ONLY_INSIDE = frozenset({StepKind.ERF, StepKind.EXP, StepKind.LOG})
"""Kinds that are parts of other steps here, never steps themselves."""
GREATEST = float.fromhex("0x1.fffffep+127")
"""Largest float32, in place of infinity at an open end of a clip: plans have no infinite
numbers."""
MOST_STEPS = 12
"""Limit of a call's steps: more than networks have, and what oneDNN's own code is meant for."""


@dataclass(frozen=True, slots=True)
class _Reader:
    function: FusedFunction
    call: OnednnCall

    def steps(self) -> list[Step] | None:
        """Steps done to the first result, in order; None where a function does anything else."""
        steps: list[Step] = []
        value = self.function.result_of(0)
        while value != self.function.result_of(len(self.function.calls) - 1):
            readers = self._readers(value)
            single = self._single(value, readers)
            found = self._quantised(readers)
            if found is None:
                found = self._gate(value) if single is None else ((single[0],), single[1])
            if found is None or len(steps) == MOST_STEPS:
                return None
            added, value = found
            steps += added
        return _joined(steps)

    def _readers(self, value: int) -> list[int]:
        return [n for n, call in enumerate(self.function.calls) if value in call.operands]

    def _quantised(self, readers: list[int]) -> tuple[tuple[Step, ...], int] | None:
        """Steps to what whole numbers stand for, and their result; None for other readers."""
        if len(readers) != 1 or self.function.calls[readers[0]].operator != FAKE_QUANTIZE:
            return None
        call = self.function.calls[readers[0]]
        zero, dtype = call.attribute("zero_point"), call.attribute("dtype")
        assert isinstance(zero, int)
        stored = StoredType(dtype=str(dtype), scale=_number(call, "scale"), zero_point=zero)
        return fake_quantised(stored), self.function.result_of(readers[0])

    def _gate(self, value: int) -> tuple[tuple[Step, ...], int] | None:
        """Steps for a value times a function of it or a slope below zero, and their result."""
        if (bent := self._bent(value)) is not None:
            return bent
        for own, factor in self._scaled(value):
            ends = [n for n in self._readers(own) if self.function.calls[n].operator == "multiply"]
            for end in reversed(ends):
                left, right = self.function.calls[end].operands
                gate = right if left == own else left
                for chain in self._chains(value, gate):
                    if steps := read_gate(chain):
                        return (*steps, factor), self.function.result_of(end)
        found = read_tanh_gelu(self.function, value)
        if found is None:
            return None
        scale, result = found
        return (Step(kind=StepKind.GELU_TANH), Step(kind=StepKind.LINEAR, alpha=scale)), result

    def _bent(self, value: int) -> tuple[tuple[Step, ...], int] | None:
        """Steps for a value at or above zero, and its product with a slope below zero."""
        readers, calls = self._readers(value), self.function.calls
        result_of = self.function.result_of
        for end in (reader for reader in readers if calls[reader].operator == "where"):
            condition, scaled, kept = calls[end].operands
            inner = [reader for reader in readers if result_of(reader) in (condition, scaled)]
            if kept != value or len(inner) != 2 or len(readers) != 3:
                continue
            if any(self._readers(result_of(each)) != [end] for each in inner):
                continue
            below, product = (calls[each - result_of(0)] for each in (condition, scaled))
            if product.operator == "multiply" and self._is_below_zero(below, value):
                slope = self._linear(product, value) or self._binary(product, value)
                step = None if slope is None else _slope(self.call, slope)
                return None if step is None else ((step,), result_of(end))
        return None

    def _is_below_zero(self, each: PrimitiveCall, value: int) -> bool:
        number = self._constant(each.operands[-1])
        return each.operator == "less" and each.operands[0] == value and number == 0

    def _scaled(self, value: int) -> list[tuple[int, Step]]:
        """The value itself, and its products with a number."""
        found = [(value, Step(kind=StepKind.LINEAR, alpha=1.0))]
        for reader in self._readers(value):
            step = self._linear(self.function.calls[reader], value)
            if step is not None and step.beta == 0:
                found.append((self.function.result_of(reader), step))
        return found

    def _chains(self, value: int, end: int) -> list[list[Step]]:
        """Chains of steps from a value to another, each read by the next one only."""
        chains = []
        for reader in self._readers(value):
            chain: list[Step] = []
            place, readers = value, [reader]
            while place != end and (found := self._single(place, readers)) is not None:
                step, place = found
                chain.append(step)
                readers = self._readers(place)
            if chain and place == end and len(readers) == 1:
                chains.append(chain)
        return chains

    def _single(self, value: int, readers: list[int]) -> tuple[Step, int] | None:
        if len(readers) != 1:
            return None
        each = self.function.calls[readers[0]]
        step = self._elementwise(each, value) or self._binary(each, value)
        return None if step is None else (step, self.function.result_of(readers[0]))

    def _elementwise(self, each: PrimitiveCall, value: int) -> Step | None:
        if each.operator == "clip":
            ends = (_number(each, name) for name in ("a_min", "a_max"))
            low, high = (max(-GREATEST, min(end, GREATEST)) for end in ends)
            if (low, high) == (0.0, GREATEST):
                return ELEMENTWISE["nn.relu"]
            return Step(kind=StepKind.CLIP, alpha=low, beta=high)
        if each.operator == "nn.leaky_relu":
            return Step(kind=StepKind.RELU, alpha=_number(each, "alpha"))
        return ELEMENTWISE.get(each.operator) or self._linear(each, value)

    def _linear(self, each: PrimitiveCall, value: int) -> Step | None:
        """Step with one number, or a value added to itself; None for others."""
        if each.operands == (value, value) and each.operator == "add":
            return Step(kind=StepKind.LINEAR, alpha=2.0)
        if len(each.operands) != 2 or each.operands[0] == each.operands[1]:
            return None
        first = each.operands[0] == value
        number = self._constant(each.operands[1] if first else each.operands[0])
        return None if number is None else _with_constant(each.operator, number, first)

    def _constant(self, value: int) -> float | None:
        """The number that a constant value is; None for other values."""
        if value < self.function.result_of(0):
            return None
        call = self.function.calls[value - self.function.result_of(0)]
        number = call.attribute("value") if call.operator == "constant" else None
        if not isinstance(number, int | float) or not math.isfinite(number):
            return None
        return float(number)

    def _binary(self, each: PrimitiveCall, value: int) -> Step | None:
        """Step with a parameter of the function as operand; None for others."""
        if each.operator not in BINARY or len(each.operands) != 2:
            return None
        left, right = each.operands
        if left == right or (left != value and each.operator not in BOTH_WAYS):
            return None
        other = right if left == value else left
        if other >= len(self.function.parameters):
            return None
        axis = each.attribute("axis")  # of those that have one: nn.bias_add, nn.prelu
        shape = self.function.parameters[other].shape
        operand = _operand(self.call, other, shape, axis if isinstance(axis, int) else None)
        return None if operand is None else Step(kind=BINARY[each.operator], operand=operand)


def read_steps(function: FusedFunction, call: OnednnCall) -> OnednnCall | None:
    """The call with bias and steps; None where a function does anything else."""
    steps = _Reader(function, call).steps()
    if steps is None or any(step.kind in ONLY_INSIDE for step in steps):
        return None
    first = steps[0].operand if steps and steps[0].kind is StepKind.ADD else None
    if first is None or call.weight is None or not _is_one_a_channel(call, first):
        followed = replace(call, steps=tuple(steps))
        return followed if followed.takes_steps else None
    bias = first
    if call.window is not None:
        bias = replace(first, extents=(call.result.extents[1],), format="a")
    return replace(call, bias=bias, steps=tuple(steps[1:]))


def _slope(call: OnednnCall, product: Step) -> Step | None:
    """Step for a value times a slope below zero; None where the slope does not broadcast."""
    if product.operand is None:
        return Step(kind=StepKind.RELU, alpha=product.alpha)
    broadcast = set(product.operand.extents) == {1} or _is_one_a_channel(call, product.operand)
    return replace(product, kind=StepKind.PRELU) if broadcast else None


def _joined(steps: list[Step]) -> list[Step]:
    """The steps, with neighbouring linear ones merged, and without those that do nothing."""
    joined: list[Step] = []
    for step in steps:
        last = joined[-1] if joined else None
        if last is not None and (last.kind, step.kind) == (StepKind.LINEAR, StepKind.LINEAR):
            alpha, beta = step.alpha * last.alpha, step.alpha * last.beta + step.beta
            joined[-1] = Step(kind=StepKind.LINEAR, alpha=alpha, beta=beta)
        else:
            joined.append(step)
    return [step for step in joined if not _does_nothing(step)]


def _does_nothing(step: Step) -> bool:
    # Constants that cancel each other are rounded; an addend however small may keep a sum from 0.
    return step.kind is StepKind.LINEAR and round(step.alpha, 9) == 1 and step.beta == 0


def _with_constant(operator: str, number: float, first: bool) -> Step | None:
    """Linear step for an operator with a number; ``first``: the value is the first operand."""
    match operator:
        case "add":
            return Step(kind=StepKind.LINEAR, alpha=1.0, beta=number)
        case "multiply":
            return Step(kind=StepKind.LINEAR, alpha=number)
        case "subtract":
            sign = 1.0 if first else -1.0
            return Step(kind=StepKind.LINEAR, alpha=sign, beta=-sign * number)
        case "divide" if first and number:
            return Step(kind=StepKind.LINEAR, alpha=1.0 / number)
        case _:
            return None


def _operand(
    call: OnednnCall, position: int, shape: tuple[int, ...], axis: int | None
) -> OnednnTensor | None:
    """Parameter with the result's shape, one value a channel, or one value; None for others.

    ``axis`` is where a bias is added; other parameters broadcast from the last axis on.
    """
    result = call.result
    if shape == result.shape and axis is None:
        return replace(result, position=position)
    wanted, rank = _channel_shape(call), len(result.extents)
    seen = shape
    if axis is not None:
        seen = (*shape, *(1,) * (len(result.shape) - axis % len(result.shape) - len(shape)))
    if len(seen) > len(wanted):
        return None
    seen = (*(1,) * (len(wanted) - len(seen)), *seen)
    extents = (1,) * rank
    if seen == wanted:
        place = _channel_axis(call)
        extents = tuple(result.extents[place] if axis == place else 1 for axis in range(rank))
    elif any(extent != 1 for extent in seen):
        return None
    return OnednnTensor(position=position, shape=shape, extents=extents, format=in_order(rank))


def _channel_axis(call: OnednnCall) -> int:
    return 1 if call.window is not None else len(call.result.extents) - 1


def _channel_shape(call: OnednnCall) -> tuple[int, ...]:
    """Shape of a tensor with one value a channel that broadcasts to the result's."""
    shape, rank = call.result.shape, len(call.result.extents)
    last = call.result.format == CHANNELS_LAST.get(rank) and len(shape) == rank
    if call.window is None or last:
        return (*(1,) * (len(shape) - 1), shape[-1])
    # With blocks, the channels inside of one come last.
    return (1, shape[1], *(1,) * (rank - 2), *shape[rank:])


def _is_one_a_channel(call: OnednnCall, operand: OnednnTensor) -> bool:
    place, wanted = _channel_axis(call), call.result.extents
    return all(
        extent == (wanted[axis] if axis == place else 1)
        for axis, extent in enumerate(operand.extents)
    )


def _number(call: PrimitiveCall, name: str) -> float:
    value = call.attribute(name)
    assert isinstance(value, int | float), f"{call.operator} has a number {name}"
    return float(value)
