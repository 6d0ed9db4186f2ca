import numpy as np
import pytest

from tests.onnx.forms import model_of, operators_of, require_same

X = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")


@pytest.mark.parametrize("bounds", [{"min": -0.5}, {"max": 0.25}, {"min": -0.5, "max": 0.5}, {}])
@pytest.mark.parametrize("opset", [7, 11, 13, 21])
def test_bounds_are_kept_one_by_one(bounds, opset):
    given = {name: np.float32(value) for name, value in bounds.items()}
    if opset < 11:
        model = model_of("Clip", {"x": X}, opset=opset, **bounds)
    else:
        names = ["x", *(name if name in given else "" for name in ("min", "max"))]
        model = model_of("Clip", {"x": X}, constants=given, names=names, opset=opset)
    require_same(model, {"x": X})


def test_bounds_that_cross_give_the_upper_one():
    bounds = {"min": np.float32(1), "max": np.float32(-1)}
    made = require_same(model_of("Clip", {"x": X}, constants=bounds), {"x": X})
    assert operators_of(made) == ["Max", "Min"]
