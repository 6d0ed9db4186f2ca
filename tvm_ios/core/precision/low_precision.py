"""Precision that a model may be computed in, and which of its values have it. No TVM.

Values of bfloat16 have the range of float32 and 8 bits of precision: each loses at most 0.4 %.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from tvm_ios.errors import OptionError

__all__ = ["BFLOAT16", "FLOAT32", "PRECISIONS", "LowPrecision", "Precision"]

FLOAT32, BFLOAT16 = "float32", "bfloat16"
PRECISIONS = (FLOAT32, BFLOAT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Arithmetic that a model may be computed in, and how far off its results may be.

    Raises
    ------
    OptionError
        If a value is unknown, or the error no number above 0.
    """

    dtype: str = FLOAT32
    """``"float32"``, or ``"bfloat16"`` for values and products in bfloat16 where that is faster."""
    max_relative_error: float = 0.03
    """Largest absolute difference of an output from float32, by the output's largest absolute
    value."""

    def __post_init__(self) -> None:
        if self.dtype not in PRECISIONS:
            names = " or ".join(map(repr, PRECISIONS))
            raise OptionError(f"precision is {self.dtype!r}; give {names}")
        error = self.max_relative_error
        if isinstance(error, bool) or not isinstance(error, int | float) or not error > 0:
            raise OptionError(
                f"max_relative_error is {error!r}; give a number above 0, such as 0.03"
            )

    @property
    def is_low(self) -> bool:
        """True if values may be of fewer bits than float32."""
        return self.dtype != FLOAT32

    def changed(self, dtype: str | None = None, max_relative_error: float | None = None) -> Self:
        """Precision with other values where they are given; a bound needs something to bound."""
        made = replace(self, dtype=self.dtype if dtype is None else dtype)
        if max_relative_error is None:
            return made
        if not made.is_low:
            raise OptionError(
                f"max_relative_error is {max_relative_error!r}, but everything is computed in "
                "float32; give precision='bfloat16' as well, or leave it out"
            )
        return replace(made, max_relative_error=max_relative_error)


@dataclass(frozen=True, slots=True, kw_only=True)
class LowPrecision:
    """Values of an operator graph that lie in memory as bfloat16."""

    results: tuple[int, ...]
    """Operators whose results do, ascending."""
    weights: tuple[int, ...]
    """Operators whose constant weights do, ascending: products take all their operands so."""

    @property
    def operators(self) -> frozenset[int]:
        """Operators that read or write something of theirs as bfloat16 for their own sake."""
        return frozenset({*self.results, *self.weights})
