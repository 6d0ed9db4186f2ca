"""Arrays by name, as ``numpy.savez`` writes them into a file."""

from __future__ import annotations

import io
import tokenize
import zipfile
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["named_arrays"]

DAMAGES = (
    *(EOFError, MemoryError, OSError, OverflowError, RuntimeError, TypeError, ValueError),
    *(tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)
"""Errors that numpy raises when a file is damaged."""


def named_arrays(content: bytes) -> dict[str, npt.NDArray[Any]]:
    """Arrays by name in the content of a file; none that would have to be unpickled."""
    try:
        found = np.load(io.BytesIO(content), allow_pickle=False)
        if isinstance(found, np.ndarray):
            raise TypeError("it is one array, without a name")
        with found as arrays:
            return {name: arrays[name] for name in arrays.files}
    except DAMAGES as error:
        raise ValueError(str(error)) from error
