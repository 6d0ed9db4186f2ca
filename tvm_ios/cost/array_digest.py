"""Digest of a model with its weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

__all__ = ["digest_with_values"]


def digest_with_values(text: str, constants: Iterable[Any], params: Mapping[str, Any]) -> str:
    """SHA-256 of a text, and of type, shape and bytes of arrays: NumPy's, or with ``numpy()``.

    Parameters count in the order of their names.
    """
    digest = hashlib.sha256(text.encode())
    for array in (*constants, *(params[name] for name in sorted(params))):
        values = np.ascontiguousarray(array.numpy() if hasattr(array, "numpy") else array)
        digest.update(f"{values.dtype} {np.shape(array)}".encode())
        digest.update(values.reshape(-1).view("uint8").data)
    return digest.hexdigest()
