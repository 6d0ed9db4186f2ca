"""Functions such as exp as arithmetic that a vector unit does, where TVM would call libm.

Goes behind the loops. Results are within 4 ulp of the exact ones. What a step computes and several
read goes to memory that LLVM keeps in registers, since TVM writes out variables that are bound to
arithmetic: code would grow with the power of the number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx import Expr as Value
from tvm.tirx import Select, reinterpret

from tvm_ios.core import polynomials as numbers
from tvm_ios.relax.schedules.tiles import in_order, only_store, uses

__all__ = ["INFINITY", "NAN", "REST", "calls_dear", "special", "with_arithmetic"]

SIGN, REST = -(2**31), 2**31 - 1
"""Bits of a float32 as an int32: its sign, and all others."""
INFINITY, NAN = 0x7F800000, 0x7FC00000
"""Bits of two float32 that TVM's JSON cannot hold as numbers."""
TWO_THIRDS, LEAST_NORMAL, SHIFT = 0x3F2AAAAB, 2.0**-126, 23
"""Bits of 2/3, the least mantissa whose logarithm is taken; what scales subnormal numbers."""
ROUNDER = 1.5 * 2.0**23
"""Number whose sum with a smaller one is rounded to an integer, which its last bits are."""
VANISHING = -87.0
"""Argument of which the exponential is 2^-126 times something, which counts as 0."""
BRANCH = "prim.if_then_else"
ROUNDING = {"tirx.round", "tirx.nearbyint", "tirx.floor", "tirx.ceil", "tirx.trunc"}
"""Functions whose result the last bit of a quotient decides."""
Keep = Callable[[Value], Value]
"""Makes a step of a value, which is computed once."""


def with_arithmetic(function: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    """Kernel with arithmetic in place of calls of libm, which takes one element after another.

    What is computed by a condition stays, since its steps would be taken always.
    """
    body = tvm_ffi.structural_map(function.body, (tirx.For, _in_vectors), order="post")
    body = tvm_ffi.structural_map(body, (tirx.BufferStore, _alone), order="post")
    return function if body.same_as(function.body) else function.with_body(body)


def calls_dear(value: Value | tirx.Stmt) -> bool:
    """True if an expression or statement calls a function that takes as long as many additions."""
    return bool(DEAR & _called(value))


@dataclass(frozen=True, slots=True)
class _Steps:
    """Steps of arithmetic, each with a place in memory that becomes a register."""

    lanes: int
    lane: Value
    """Number of the computed element among them."""
    before: list[tirx.Stmt] = field(default_factory=list)
    """Statements that give steps a place, and those that are the same for all elements."""
    steps: list[tirx.Stmt] = field(default_factory=list)

    def keep(self, value: Value) -> Value:
        """Value that is computed once, for each element if it depends on it."""
        is_one = self.lanes == 1 or not uses(value, self.lane)
        lanes, lane = (1, tirx.const(0, "int32")) if is_one else (self.lanes, self.lane)
        buffer = tirx.decl_buffer((lanes,), str(value.ty), "step", layout=None)
        self.before.append(tirx.AllocBuffer(buffer))
        steps = self.before if is_one else self.steps
        steps.append(tirx.BufferStore(buffer, value, [lane]))
        return tirx.BufferLoad(buffer, [lane])

    def arithmetic(self, call: tvm.ir.Call) -> Value:
        """Arithmetic in place of a call, if there is any."""
        function = FUNCTIONS.get(_name(call))
        if function is None or str(call.ty) != "float32":
            return call
        made = function(self.keep, self.keep(call.args[0]), *call.args[1:])
        return call if made is None else made

    def product(self, quotient: tirx.Div) -> Value:
        """Product with the inverse of a divisor that all elements have; 0 if it is subnormal."""
        divisor = quotient.b
        if self.lanes == 1 or uses(divisor, self.lane) or str(quotient.ty) != "float32":
            return quotient
        inverse = 1.0 / divisor
        return quotient.a * (inverse if isinstance(inverse, tirx.FloatImm) else self.keep(inverse))

    def around(self, store: tirx.BufferStore) -> tirx.Stmt | None:
        """Steps and a store of what they compute; None where a store calls nothing."""
        called = _called(store.value)
        if BRANCH in called:
            return None
        changed: list[Any] = [(tvm.ir.Call, self.arithmetic)]
        if not called & ROUNDING:
            changed.append((tirx.Div, self.product))
        value = tvm_ffi.structural_map(store.value, changed, order="post")
        if value.same_as(store.value):
            return None
        return in_order([*self.steps, tirx.BufferStore(store.buffer, value, store.indices)])


def _in_vectors(loop: tirx.For) -> tirx.Stmt:
    """Loop over a vector, whose steps are vectors of as many elements."""
    found = only_store(loop) if loop.kind == tirx.ForKind.VECTORIZED else None
    if found is None:
        return loop
    store, condition = found
    steps = _Steps(int(loop.extent), loop.loop_var)
    body = steps.around(store)
    if body is None:
        return loop
    if not isinstance(condition, bool | tirx.IntImm):
        body = tirx.IfThenElse(condition, body, None)
    return in_order(
        [*steps.before, tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body)]
    )


def _alone(store: tirx.BufferStore) -> tirx.Stmt:
    steps = _Steps(1, tirx.const(0, "int32"))
    body = steps.around(store)
    return store if body is None else in_order([*steps.before, body])


def _called(value: Value | tirx.Stmt) -> set[str]:
    """Names of the built-in functions that are called."""
    names: set[str] = set()
    tvm_ffi.structural_walk(value, (tvm.ir.Call, lambda call: names.add(_name(call))))
    return names


def _name(call: tvm.ir.Call) -> str:
    return call.op.name if isinstance(call.op, tvm.ir.Op) else ""


def _exp(keep: Keep, x: Value) -> Value:
    """Exponential: 0 of -inf and below -86.9, inf of inf and above 88.7, NaN of NaN."""
    # Comparisons that are false for NaN, which so goes through.
    x = keep(_chosen(x > numbers.EXP_MOST, numbers.EXP_MOST, x))
    x = keep(_chosen(x < VANISHING, VANISHING, x))
    biased = keep(x * _const(numbers.LOG2_E) + _const(ROUNDER))
    n = keep(biased - _const(ROUNDER))
    r = keep(x - n * _const(numbers.LN2_HIGH) - n * _const(numbers.LN2_LOW))
    rest = keep(_horner(r, numbers.EXPM1) * (r * r) + r)
    # Half of it, since 2^n may be no number where the result is one.
    power = keep(_power(biased, -1))
    half = keep(rest * power + power)
    return keep(half + half)


def _small_exp(keep: Keep, x: Value) -> Value:
    """Exponential of -87 to 88, which nobody checks, to one part in 10^7."""
    biased = keep(x * _const(numbers.LOG2_E) + _const(ROUNDER))
    r = keep(x - keep(biased - _const(ROUNDER)) * _const(numbers.LN2))
    return _power(biased) * _horner(r, numbers.EXP)


def _sigmoid(keep: Keep, x: Value) -> Value:
    return keep(1.0 / (_exp(keep, keep(-x)) + 1.0))


def _tanh(keep: Keep, x: Value) -> Value:
    """Hyperbolic tangent: a polynomial near zero, and 1 - 2 / (e^(2|x|) + 1) elsewhere."""
    size = keep(_magnitude(x))
    t = keep(_chosen(size > numbers.TANH_ONE, numbers.TANH_ONE, size))
    square = keep(t * t)
    far = keep(1.0 - 2.0 / (_small_exp(keep, 2.0 * t) + 1.0))
    near = keep(_horner(square, numbers.TANH) * (square * t) + t)
    return keep(_with_sign_of(x, _chosen(size > numbers.TANH_FROM, far, near)))


def _erf(keep: Keep, x: Value) -> Value:
    """Error function: 1 of inf, -1 of -inf, NaN of NaN, -0.0 of -0.0."""
    size = keep(_magnitude(x))
    t = keep(_chosen(size > numbers.ERF_ONE, numbers.ERF_ONE, size))
    far = keep(1.0 - _small_exp(keep, keep(_horner(t, numbers.ERF_FAR) * t - t)))
    near = keep(_horner(keep(t * t), numbers.ERF_NEAR) * t + t)
    return keep(_with_sign_of(x, _chosen(size > numbers.ERF_FROM, far, near)))


def _log(keep: Keep, x: Value) -> Value:
    """Natural logarithm: -inf of zeros, NaN below and of NaN, inf of inf; exact for subnormals."""
    small = x < LEAST_NORMAL
    bits = keep(_bits_of(_chosen(small, x * 2.0**SHIFT, x)))
    exponent = keep((bits - TWO_THIRDS) & -(1 << 23))
    f = keep(_from_bits(bits - exponent) - 1.0)
    n = keep((exponent >> 23).astype("float32") - _chosen(small, float(SHIFT), 0.0))
    square = keep(f * f)
    curve = _horner(f, numbers.LOG1P) * (square * f) + n * _const(numbers.LN2_LOW) - 0.5 * square
    value = n * _const(numbers.LN2_HIGH) + (curve + f)
    value = keep(_chosen(x < special(INFINITY), value, x))
    # Last, since both comparisons are false for NaN.
    zero_or_below = _chosen(x.equal(_const(0.0)), -special(INFINITY), special(NAN))
    return keep(_chosen(x > 0.0, value, zero_or_below))


def _rsqrt(keep: Keep, x: Value) -> Value:
    return keep(1.0 / tirx.sqrt(x))


def _pow(keep: Keep, x: Value, exponent: Value) -> Value | None:
    times = float(exponent.value) if isinstance(exponent, tirx.FloatImm) else 0.0
    made = {2.0: x * x, 3.0: x * x * x}.get(times)
    return None if made is None else keep(made)


FUNCTIONS: dict[str, Callable[..., Value | None]] = {
    "tirx.erf": _erf,
    "tirx.exp": _exp,
    "tirx.log": _log,
    "tirx.pow": _pow,
    "tirx.rsqrt": _rsqrt,
    "tirx.sigmoid": _sigmoid,
    "tirx.tanh": _tanh,
}
DEAR = FUNCTIONS.keys() - {"tirx.pow", "tirx.rsqrt"}


def _horner(x: Value, coefficients: Sequence[float]) -> Value:
    return reduce(lambda total, each: total * x + each, map(_const, coefficients))


def _const(number: float) -> Value:
    return tirx.const(number, "float32")


def _chosen(condition: Value, yes: object, no: object) -> Value:
    """Value by a condition, without a branch."""
    return Select(condition, *(_const(x) if isinstance(x, float) else x for x in (yes, no)))


def _bits_of(x: Value) -> Value:
    """Bits of a float32 as an int32."""
    return reinterpret("int32", x)


def _from_bits(bits: Value) -> Value:
    return reinterpret("float32", bits)


def _power(biased: Value, more: int = 0) -> Value:
    """2^n and more, of n + :data:`ROUNDER`; 0 instead of 2^-127."""
    return _from_bits((_bits_of(biased) << 23) + ((127 + more) << 23))


def _magnitude(x: Value) -> Value:
    return _from_bits(_bits_of(x) & REST)


def _with_sign_of(x: Value, size: Value) -> Value:
    return _from_bits((_bits_of(x) & tirx.const(SIGN, "int32")) | _bits_of(size))


def special(bits: int) -> Value:
    """A float32 of which the bits are given."""
    return _from_bits(tirx.const(bits, "int32"))
