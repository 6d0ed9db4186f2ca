"""exp, sigmoid and tanh: within 2 ulp of the exact values, and right where these are special."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tir

from tests.kernels.vector_math.conftest import targets


def sigmoid(x):
    """Exact logistic function, written so that neither end overflows."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1.0 + e)


@pytest.mark.parametrize("lanes", [16, 0])
@pytest.mark.parametrize("target", targets())
@pytest.mark.parametrize(
    ("function", "exact", "most_ulp"),
    [(tir.exp, np.exp, 1.1), (tir.sigmoid, sigmoid, 2.0), (tir.tanh, np.tanh, 1.5)],
)
def test_values_are_within_two_ulp(function, exact, most_ulp, target, lanes, error_of):
    assert error_of(function, exact, target, lanes) <= most_ulp
