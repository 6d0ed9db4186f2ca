"""Outcome of a choice between float32 and bfloat16, for reports. No TVM."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from tvm_ios.core.precision.low_precision import BFLOAT16, FLOAT32, Precision

__all__ = ["PrecisionOutcome", "promised_speedup"]

WORTH_TELLING = 1.1
"""Speedup below which nothing is promised: casts may cost as much."""
PRODUCTS_FASTER = 2
"""Times as fast as in float32 that a processor with bfloat16 multiplies in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionOutcome:
    """Precision that a model was kept in, with what was measured of bfloat16 or is promised."""

    dtype: str
    """Precision that was kept: ``float32`` or ``bfloat16``."""
    operators: int = 0
    """Number of operators with results or weights in bfloat16, in the build that was tried."""
    back: int = 0
    """Number of operators that went back to float32, for their speed or their error."""
    errors: tuple[float | None, ...] = ()
    """Error of each output, by number, in that build: largest absolute difference from float32 by
    the output's largest absolute value. None where one is finite and the other is not; empty where
    nothing was checked."""
    inputs_given: bool = False
    """True if errors are of the caller's inputs, False if of made-up ones."""
    speedup: float | None = None
    """Times as fast as float32, before a search; None where they were not raced."""
    reason: str = ""
    """Words on why float32 was kept; empty where bfloat16 was kept, or nobody asked for it."""
    promised: float | None = None
    """Times as fast as float32 that is predicted where nobody asked for bfloat16; else None."""

    @property
    def worst(self) -> float | None:
        """Largest of the errors; None where one is not finite, or nothing was checked."""
        known = [each for each in self.errors if each is not None]
        return max(known) if known and len(known) == len(self.errors) else None

    def is_within(self, max_relative_error: float) -> bool:
        """True if every output was checked to be off by no more than a bound."""
        return self.worst is not None and self.worst <= max_relative_error

    def as_float32(self, reason: str) -> Self:
        """The outcome if float32 was kept for a reason."""
        return replace(self, dtype=FLOAT32, reason=reason)

    def as_text(self) -> str:
        """Line on what was kept and why, or on what bfloat16 promises."""
        if self.promised is not None:
            return (
                f"bfloat16: about {self.promised:.1f} times as fast by a prediction, outputs off "
                f"by at most {Precision().max_relative_error:g} of their largest value "
                "(precision='bfloat16', or --precision bfloat16)"
            )
        if self.reason:
            told = f"bfloat16: float32 was kept, since {self.reason}"
            return f"{told}; {self._error()}" if self.errors else told
        gain = "kept" if self.speedup is None else f"{self.speedup:.2f} times as fast as float32"
        return f"bfloat16: {gain}, {self._error()}"

    def details(self) -> tuple[str, ...]:
        """Lines on the operators in bfloat16 and the error of each output; empty without them."""
        if not self.errors:
            return ()
        back = f", {self.back} went back to float32" if self.back else ""
        errors = ", ".join(f"output {n}: {_number(each)}" for n, each in enumerate(self.errors))
        return (
            f"values or weights of {self.operators} operators in bfloat16{back}; largest error by "
            f"largest value, {errors}",
        )

    def _error(self) -> str:
        source = "the inputs given" if self.inputs_given else "made-up inputs"
        return (
            f"outputs off by at most {_number(self.worst)} of their largest value "
            f"(checked on {source})"
        )

    @property
    def is_low(self) -> bool:
        """True if bfloat16 was kept."""
        return self.dtype == BFLOAT16


def promised_speedup(product_ns: int, all_ns: int) -> float | None:
    """Times as fast as float32 that bfloat16 is likely to be; None where that is not worth telling.

    The arguments are nanoseconds of the products that may be in bfloat16, and of all operators.
    Products take half the time, and everything else what it took.
    """
    if not all_ns:
        return None
    found = all_ns / (all_ns - product_ns + product_ns / PRODUCTS_FASTER)
    return found if found >= WORTH_TELLING else None


def _number(error: float | None) -> str:
    return "infinity" if error is None else f"{error:.2g}"
