"""Numbers of bfloat16 by NumPy, as their bits in integers of 16; processors that have them."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_ios.core.precision.low_precision import BFLOAT16
from tvm_ios.errors import HostError
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary

__all__ = ["nearest", "needs_bfloat16", "widened"]


def _has_bfloat16() -> bool:
    try:
        return OnednnLibrary().speeds_up(BFLOAT16)
    except HostError:
        return False


needs_bfloat16 = pytest.mark.skipif(
    not _has_bfloat16(), reason="needs oneDNN, and a processor that multiplies in bfloat16"
)


def nearest(values: np.ndarray) -> np.ndarray:
    """Bits of the nearest numbers of bfloat16, the even one of two; NaN stays NaN."""
    bits = values.astype("float32").view("uint32")
    rounded = ((bits.astype("uint64") + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("uint16")
    return np.where(np.isnan(values), ((bits >> 16) | 0x40).astype("uint16"), rounded)


def widened(bits: np.ndarray) -> np.ndarray:
    """Numbers of float32 with the values of bfloat16."""
    return (bits.astype("uint32") << 16).view("float32")
