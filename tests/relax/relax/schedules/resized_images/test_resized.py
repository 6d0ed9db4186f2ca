from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te, topi

from tests.relax.networks import TARGET
from tests.relax.relax.schedules.kernels import computed
from tvm_ios.relax.schedules.in_force import scheduled
from tvm_ios.relax.target import resolve_target
from tvm_ios.support.exact_bits import exact_bits

WAYS = {
    "nearest": ("nearest_neighbor", "asymmetric"),
    "bilinear": ("linear", "half_pixel"),
    "bilinear from corners": ("linear", "align_corners"),
    "cubic": ("cubic", "half_pixel"),
}
SIZES = {
    (14, 14): (28, 28),
    (7, 7): (14, 14),
    (5, 20): (9, 33),
    (3, 1): (6, 18),
    (28, 28): (14, 14),
}


def _kernel(way, size, larger):
    method, mode = WAYS[way]
    rounding = "round" if "nearest" in method else ""
    x = te.placeholder((1, 3, *size), "float32", "x")
    made = topi.image.resize2d(
        x,
        [0.0] * 4,
        larger,
        method=method,
        coordinate_transformation_mode=mode,
        rounding_method=rounding,
    )
    return te.create_prim_func([x, made])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("way", WAYS)
def test_resized_images_are_those_of_stock_loops(way, size):
    larger = SIZES[size]
    kernel = _kernel(way, size, larger)
    x = np.random.default_rng(0).standard_normal((1, 3, *size)).astype("float32")
    library = tvm.tirx.build(
        tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")}),
        target=resolve_target(TARGET),
    )
    stock = tvm.runtime.tensor(np.zeros((1, 3, *larger), "float32"))
    library["main"](tvm.runtime.tensor(x), stock)
    found = computed(kernel, x, like=stock.numpy())
    np.testing.assert_allclose(found, stock.numpy(), rtol=1e-6, atol=1e-6)
    with exact_bits(True):
        exact = computed(kernel, x, like=stock.numpy())
    np.testing.assert_array_equal(exact, stock.numpy())


@pytest.mark.parametrize("way", ["nearest", "bilinear", "cubic"])
def test_elements_are_shuffled(way):
    kernel = scheduled(_kernel(way, (14, 14), (28, 28)), resolve_target(TARGET))
    assert "T.Shuffle" in kernel.script()


@pytest.mark.parametrize(("size", "larger"), [((14, 40), (28, 1024)), ((14, 80), (14, 4))])
def test_long_rows_and_distant_elements_are_read_one_by_one(size, larger):
    kernel = scheduled(_kernel("bilinear", size, larger), resolve_target(TARGET))
    assert "T.Shuffle" not in kernel.script()
    assert "tvm_ios_places" not in kernel.script()
