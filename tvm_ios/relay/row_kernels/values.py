"""Values of a fused function, element by element: what they read, and along which axes."""

from __future__ import annotations

from dataclasses import dataclass, field

from tvm import tir

__all__ = ["Computation", "UnsuitableError", "Value"]


class UnsuitableError(Exception):
    """A function that is not computed row by row."""


@dataclass(eq=False, kw_only=True)
class Value:
    """A tensor of the function at one point of the index space."""

    expression: tir.PrimExpr
    """Value in terms of axes, elements of parameters, and the names of values it reads."""
    reads: tuple[Value, ...]
    combiner: tir.CommReducer | None = None
    """Combiner of a sum, maximum or the like over the reduced axes; None for others."""
    on_row: bool = False
    """True if it is the same all along the reduced axes."""
    name: tir.Var = field(init=False)

    def __post_init__(self) -> None:
        self.name = tir.Var("value", self.expression.dtype)

    @property
    def is_simple(self) -> bool:
        """True if reading it again costs no more than keeping it."""
        return self.combiner is None and isinstance(
            self.expression, tir.Var | tir.BufferLoad | tir.IntImm | tir.FloatImm | tir.Cast
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """A function as values over one index space."""

    axes: tuple[tir.Var, ...]
    extents: tuple[int, ...]
    """Extents of the axes, the innermost last; none is 1."""
    reduced: tuple[bool, ...]
    """Whether reductions go along an axis, by axis."""
    parameters: tuple[tir.Buffer, ...]
    """Buffers of the function's arguments and result, with their own shapes."""
    values: tuple[Value, ...]
    """Values of the function, each behind those it reads; the last one is the result."""
    result: tir.Buffer
    """Result as one row of elements."""
    place: tir.PrimExpr
    """Place of an element in the result."""
