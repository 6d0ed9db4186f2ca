"""log: within 2 ulp of the exact values, and right where these are special."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tir

from tests.kernels.vector_math.conftest import targets


@pytest.mark.parametrize("lanes", [16, 0])
@pytest.mark.parametrize("target", targets())
def test_values_are_within_two_ulp(target, lanes, error_of):
    assert error_of(tir.log, np.log, target, lanes) <= 1.0
