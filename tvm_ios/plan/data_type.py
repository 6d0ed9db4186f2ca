"""Data types as TVM names them: their width, and NumPy's types for them. No TVM here."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from tvm_ios.errors import ExecutionError, PlanError

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "bfloat16_bits",
    "dlpack_fields",
    "dtype_bytes",
    "is_float",
    "named_as_arrays",
    "numpy_dtype",
]

_DLPACK_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4}
_DTYPE = re.compile(r"(bool|bfloat|float|uint|int)(\d*)(?:x(\d+))?")


@cache
def dtype_bytes(dtype: str) -> int:
    """Bytes of one element of a TVM data type, such as ``float32`` or ``bool``."""
    match = _DTYPE.fullmatch(dtype)
    if match is None or (match[1] != "bool" and not match[2]):
        raise PlanError(
            f"data type {dtype!r} cannot be placed in memory; "
            "cast the tensor to a float, int, uint or bool type"
        )
    return (int(match[2] or 8) * int(match[3] or 1) + 7) // 8


def is_float(dtype: str) -> bool:
    """True for floating-point types of TVM, bfloat16 included."""
    return dtype.startswith(("float", "bfloat"))


@cache
def dlpack_fields(dtype: str, *, is_ffi: bool = False) -> tuple[int, int, int]:
    """DLPack's type code, bits and vector lanes of a TVM data type, as kernels check them."""
    match = re.fullmatch(r"([a-z]+)(\d*)(?:x(\d+))?", dtype)
    name, bits, vector_lanes = match.groups() if match else ("float", "32", None)
    # The truth value of Relay's TVM is an unsigned integer of one bit, and yet takes a byte; DLPack
    # has got a type for it since, which TVM-FFI takes.
    truth = (6, 8) if is_ffi else (1, 1)
    code, width = truth if name == "bool" else (_DLPACK_CODES[name], int(bits))
    return code, width, int(vector_lanes or 1)


def named_as_arrays(dtype: str) -> str:
    """Name of a data type in arrays of TVM and NumPy.

    TVM's graph calls truth values ``uint1``; arrays of them, a byte each, are ``bool``.
    """
    return "bool" if dtype == "uint1" else dtype


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """NumPy's type for a data type of TVM."""
    import numpy as np  # noqa: PLC0415 - verbs that only read plans do without

    refusal = ExecutionError(
        f"NumPy has no data type {dtype!r}, so no values of it can be made or read; give a "
        "tvm.nd.NDArray of that type, or cast inside the model"
    )
    try:
        found = np.dtype(named_as_arrays(dtype))
    except TypeError as error:
        raise refusal from error
    # Other packages add types of theirs when they are imported; arrays of TVM do not know those.
    if found.isbuiltin != 1:
        raise refusal
    return found


def bfloat16_bits(values: np.ndarray) -> np.ndarray:
    """Bits of the nearest numbers of bfloat16, the even one of two; NaN stays NaN."""
    import numpy as np  # noqa: PLC0415 - most readers of types need no arrays

    bits = np.asarray(values, "float32").view("uint32")
    nearest = ((bits + ((bits >> 16) & 1) + 0x7FFF) >> 16).astype("uint16")
    nan = ((bits >> 16) | 0x40).astype("uint16")
    return np.where((bits & 0x7FFFFFFF) > 0x7F800000, nan, nearest)
