"""Data types of TVM: their width, and NumPy's name for them."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_ios.errors import ExecutionError, PlanError
from tvm_ios.plan.data_type import dtype_bytes, named_as_arrays, numpy_dtype


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float32", 4), ("int64", 8), ("bool", 1), ("uint1", 1), ("bfloat16", 2), ("int8x4", 4)],
)
def test_element_sizes(dtype, size):
    assert dtype_bytes(dtype) == size


@pytest.mark.parametrize("dtype", ["handle", "float", "string", ""])
def test_types_without_a_size_are_refused(dtype):
    with pytest.raises(PlanError, match="data type"):
        dtype_bytes(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint64", "bool"])
def test_numpy_has_the_usual_types(dtype):
    assert numpy_dtype(dtype) == np.dtype(dtype)
    assert named_as_arrays(dtype) == dtype


def test_truth_values_of_a_graph_are_bool():
    assert named_as_arrays("uint1") == "bool"
    assert numpy_dtype("uint1") == np.dtype(bool)


@pytest.mark.parametrize("dtype", ["bfloat16", "e4m3_float8", "uint4", "int8x4", "handle64"])
def test_types_that_numpy_lacks_are_refused(dtype):
    pytest.importorskip("ml_dtypes")  # it adds some of them to NumPy, which changes nothing
    with pytest.raises(ExecutionError, match=f"no data type '{dtype}'.*NDArray.*or cast"):
        numpy_dtype(dtype)
