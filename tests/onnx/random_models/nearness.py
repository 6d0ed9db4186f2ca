"""Comparison of arrays with those of onnxruntime, within tolerances by data type."""

from __future__ import annotations

import numpy as np

__all__ = ["difference"]

_TOLERANCES = {"float16": (1e-2, 5e-3)}
"""Relative tolerance, and absolute one as a part of the largest value, by data type."""
_USUAL = (2e-3, 1e-4)


def difference(one: np.ndarray, other: np.ndarray, *, steps: int = 0) -> str:
    """Text of the first numbers of two arrays that differ; empty where they are near.

    ``steps``: how far apart whole numbers may be, since they were rounded.
    """
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return f"{one.dtype}{one.shape} in place of {other.dtype}{other.shape}"
    if other.dtype.kind == "f":
        relative, part = _TOLERANCES.get(other.dtype.name, _USUAL)
        scale = float(np.max(np.abs(other), initial=0.1))
        near = np.allclose(one, other, rtol=relative, atol=part * scale, equal_nan=True)
    elif not steps or other.dtype == bool:
        near = np.array_equal(one, other)
    else:
        near = bool((np.abs(one.astype("int64") - other.astype("int64")) <= steps).all())
    return "" if near else f"{one.ravel()[:8]} in place of {other.ravel()[:8]}"
