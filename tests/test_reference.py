"""The quick answers of TVM that tests compare with are those of the build that users make."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.stock import stock_outputs
from tvm_ios.models import randwire_small


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "target"),
    [
        # Other kernels, and code that LLVM optimises, by no other passes.
        pytest.param("branching", "llvm", marks=pytest.mark.full),
        pytest.param("branching", "llvm -mcpu=core-avx2", marks=pytest.mark.full),
        ("randwire_small", "llvm -mcpu=core-avx2 -opt-level=0"),
    ],
)
def test_a_reference_has_the_bits_of_plain_tvm(network, target, branching, reference_build):
    # A random wiring has strided, depthwise and pointwise convolutions, gates and sums.
    module, params = branching if network == "branching" else randwire_small(size=8, num_nodes=5)
    shape = [int(extent) for extent in module["main"].params[0].type_annotation.shape]
    image = np.random.default_rng(0).standard_normal(shape).astype("float32")
    with tvm.transform.PassContext(opt_level=3):
        plain = relay.build(module, target=target, params=params)
    (expected,) = stock_outputs(plain, data=image)
    assert expected.any()
    (actual,) = stock_outputs(reference_build(module, params, target), data=image)
    np.testing.assert_array_equal(actual, expected)
