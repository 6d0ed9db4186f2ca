from __future__ import annotations

import numpy as np
import pytest
from tvm import te, topi

from tests.relax.networks import TARGET
from tests.relax.relax.schedules.kernels import computed
from tvm_ios.relax.schedules.in_force import scheduled
from tvm_ios.relax.target import resolve_target

SPECIAL = {
    "masked": [-np.inf, 1.0, 2.0, -np.inf],
    "nothing": [-np.inf] * 4,
    "infinite": [np.inf, 1.0, 2.0, 3.0],
    "unordered": [np.nan, 1.0, 2.0, 3.0],
    "far": [-1e4, 0.0, 1e4, 90.0],
}


def _softmax(rows, length):
    x = te.placeholder((rows, length), "float32", "x")
    return te.create_prim_func([x, topi.nn.softmax(x, 1)])


def _expected(x):
    with np.errstate(all="ignore"):
        shifted = np.exp((x - x.max(1, keepdims=True)).astype("float64"))
        return (shifted / shifted.sum(1, keepdims=True)).astype("float32")


@pytest.mark.parametrize("shape", [(4, 128), (5, 97), (6, 300), (3, 8), (1, 640), (1, 97)])
def test_exponentials_lie_where_shares_go(shape):
    kernel = _softmax(*shape)
    assert "exp" not in str(
        scheduled(kernel, resolve_target(TARGET)).body.block.alloc_buffers[0].name
    )
    x = np.random.default_rng(0).standard_normal(shape).astype("float32") * 4
    np.testing.assert_allclose(computed(kernel, x, like=x), _expected(x), rtol=1e-6)


@pytest.mark.parametrize("name", SPECIAL)
def test_special_rows_are_those_of_numpy(name):
    x = np.tile(np.array(SPECIAL[name], "float32"), (2, 8))
    expected = _expected(x)
    np.testing.assert_allclose(computed(_softmax(2, 32), x, like=x), expected, rtol=1e-6)
