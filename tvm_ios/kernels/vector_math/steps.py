"""Steps of a computation in TIR, so that code grows only linearly with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tvm import DataType, tir

__all__ = [
    "INFINITY",
    "NAN",
    "Steps",
    "chosen",
    "float_bits",
    "from_bits",
    "horner",
    "magnitude",
    "special",
    "with_sign_of",
]

SIGN, REST = -(2**31), 2**31 - 1
"""Bits of a float32 as an int32: its sign, and all others."""
INFINITY, NAN = 0x7F800000, 0x7FC00000
"""Bits of two float32 that TVM's JSON cannot hold as numbers."""


@dataclass(slots=True)
class Steps:
    """Statements that go before one whose expression needs what they compute.

    Each value lies in a variable on the stack, which LLVM makes a register. With ``tir.Let``, TVM's
    analyser writes every value out in all that depend on it: compiling GELU of GELU never ended.
    """

    _around: list[Callable[[tir.Stmt], tir.Stmt]] = field(default_factory=list)
    """Functions that put a statement after a step, the first step first."""

    def let(self, name: str, value: tir.PrimExpr) -> tir.PrimExpr:
        """Expression that reads a value computed once."""
        place = self._place(name, value.dtype)
        self._around.append(lambda rest: tir.SeqStmt([tir.BufferStore(place, value, [0]), rest]))
        return tir.BufferLoad(place, [0])

    def add(self, others: Steps) -> None:
        """Do other steps next."""
        self._around += others._around

    def bind(self, variable: tir.Var, value: tir.PrimExpr) -> None:
        """Give a variable of TVM's its value."""
        self._around.append(lambda rest: tir.LetStmt(variable, value, rest))

    def branch(
        self, condition: tir.PrimExpr, ways: Sequence[tuple[tir.PrimExpr, Steps]]
    ) -> tir.PrimExpr:
        """Expression that reads one of two values, for which only its own steps are done."""
        type_ = ways[0][0].dtype
        place = self._place("branch", _in_bytes(type_))
        stores = [
            steps.before(tir.BufferStore(place, value.astype(place.dtype), [0]))
            for value, steps in ways
        ]
        self._around.append(lambda rest: tir.SeqStmt([tir.IfThenElse(condition, *stores), rest]))
        return tir.BufferLoad(place, [0]).astype(type_)

    def before(self, statement: tir.Stmt) -> tir.Stmt:
        """Statement that does all steps, then the given one."""
        for around in reversed(self._around):
            statement = around(statement)
        return statement

    def __bool__(self) -> bool:
        return bool(self._around)

    def _place(self, name: str, type_: str) -> tir.Buffer:
        # Only small buffers of the scope "global" lie on the stack.
        place = tir.decl_buffer([1], type_, name, scope="global")
        always = tir.const(True, "bool")
        self._around.append(lambda rest: tir.Allocate(place.data, type_, [1], always, rest))
        return place


def _in_bytes(type_: str) -> str:
    """Type in memory of as many numbers: TVM allocates no truth values that fill no bytes."""
    if DataType(type_).bits > 1:
        return type_
    lanes = DataType(type_).lanes
    return f"int8x{lanes}" if lanes > 1 else "int8"


def horner(x: tir.PrimExpr, coefficients: Sequence[float]) -> tir.PrimExpr:
    """Polynomial in x; coefficients begin with that of the highest power."""
    total = coefficients[0] * x + coefficients[1]
    for coefficient in coefficients[2:]:
        total = total * x + coefficient
    return total


def chosen(condition: tir.PrimExpr, yes: object, no: object, like: tir.PrimExpr) -> tir.PrimExpr:
    """Value by a condition, without a branch; plain numbers become constants like a value."""
    return tir.Select(condition, _like(yes, "float32", like), _like(no, "float32", like))


def float_bits(x: tir.PrimExpr) -> tir.PrimExpr:
    """Bits of float32 values as int32."""
    return tir.reinterpret(x.dtype.replace("float", "int"), x)


def from_bits(bits: tir.PrimExpr) -> tir.PrimExpr:
    """Float32 values that have the bits of int32 ones."""
    return tir.reinterpret(bits.dtype.replace("int", "float"), bits)


def magnitude(x: tir.PrimExpr) -> tir.PrimExpr:
    """Absolute value of float32; NaN stays NaN."""
    return from_bits(float_bits(x) & REST)


def with_sign_of(x: tir.PrimExpr, size: tir.PrimExpr) -> tir.PrimExpr:
    """Value of a size that is not negative, with the sign of x, -0.0 included."""
    return from_bits((float_bits(x) & SIGN) | float_bits(size))


def special(bits: int, like: tir.PrimExpr) -> tir.PrimExpr:
    """Float32 constant given by its bits, in as many lanes as a value has."""
    return from_bits(_like(bits, "int32", like))


def _like(value: object, type_: str, like: tir.PrimExpr) -> tir.PrimExpr:
    if isinstance(value, tir.PrimExpr):
        return value
    lanes = like.dtype.partition("x")[2]
    constant = tir.const(value, type_)
    return tir.Broadcast(constant, int(lanes)) if lanes else constant
