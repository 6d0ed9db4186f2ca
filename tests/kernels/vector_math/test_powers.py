"""Powers by constants: within 2 ulp of the exact values, and right where these are special."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tir

from tests.kernels.vector_math.conftest import targets
from tvm_ios.kernels.vector_math.functions import POWERS


@pytest.mark.parametrize("target", targets())
@pytest.mark.parametrize("exponent", POWERS)
def test_powers_are_within_two_ulp(exponent, target, error_of):
    constant = tir.const(exponent, "float32")

    def exact(x):
        # For a plain 0.5 NumPy computes a square root, which differs for -0.0 and -inf.
        return np.power(x, np.full_like(x, exponent))

    assert error_of(lambda x: tir.power(x, constant), exact, target) <= 2.0


@pytest.mark.parametrize("target", targets())
def test_the_inverse_square_root_is_within_two_ulp(target, error_of):
    assert error_of(tir.rsqrt, lambda x: 1 / np.sqrt(x), target) <= 1.6
