"""Types that numbers of float32 may have in memory: bfloat16, or whole numbers. No TVM."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm_ios.core.precision.low_precision import BFLOAT16

__all__ = ["FAKE_QUANTIZE", "IN_BFLOAT16", "LIMITS", "WHOLE", "StoredType"]

FAKE_QUANTIZE = "tvm_ios.fake_quantize"
"""Operator of the nearest number that is a whole number of steps, and within limits."""
LIMITS = {"int8": (-128, 127), "uint8": (0, 255)}
"""Least and greatest whole number, by data type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredType:
    """Type that numbers of float32 have in memory.

    Of whole numbers, ``q`` stands for ``(q - zero_point) * scale``.
    """

    dtype: str
    """``"bfloat16"``, or one of :data:`LIMITS`."""
    scale: float = 1.0
    """Distance between neighbouring numbers, a value of float32."""
    zero_point: int = 0
    """Whole number that stands for 0."""

    @property
    def is_whole(self) -> bool:
        """True for whole numbers."""
        return self.dtype in LIMITS

    @property
    def steps(self) -> tuple[int, int]:
        """Least and greatest number, in steps of the scale from 0."""
        least, most = LIMITS[self.dtype]
        return least - self.zero_point, most - self.zero_point

    def unsigned(self) -> StoredType:
        """Unsigned whole numbers for the same numbers: processors multiply them by signed ones."""
        return self._as("uint8") if self.is_whole else self

    def signed(self) -> StoredType:
        """Signed whole numbers for the same numbers."""
        return self._as("int8") if self.is_whole else self

    def _as(self, dtype: str) -> StoredType:
        shift = LIMITS[dtype][0] - LIMITS[self.dtype][0]
        return replace(self, dtype=dtype, zero_point=self.zero_point + shift)

    def as_text(self) -> str:
        """Text of all fields, such as ``uint8(0.02,128)``."""
        return f"{self.dtype}({self.scale:.9g},{self.zero_point})" if self.is_whole else self.dtype


WHOLE = StoredType(dtype="int8")
"""Type of weights, of which each stands for itself."""
IN_BFLOAT16 = StoredType(dtype=BFLOAT16)
"""Type of numbers that are rounded to bfloat16."""
