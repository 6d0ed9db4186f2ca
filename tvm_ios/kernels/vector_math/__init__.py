"""Vector mathematics: exp, erf, tanh, and others as arithmetic that a vector unit does.

Comes between lowering and code generation. TVM would call libm for every element.
"""

from __future__ import annotations

from tvm_ios.kernels.vector_math.calls import (
    MATHEMATICS_VERSION,
    arithmetic_lowering,
    preparing_lowering,
    with_arithmetic,
)

__all__ = [
    "MATHEMATICS_VERSION",
    "arithmetic_lowering",
    "preparing_lowering",
    "with_arithmetic",
]
