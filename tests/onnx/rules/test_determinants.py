import numpy as np
import pytest

from tests.onnx.forms import model_of, operators_of, require_same


@pytest.mark.parametrize("opset", [11, 22])
@pytest.mark.parametrize("shape", [(2, 2), (4, 1, 1), (2, 5, 3, 3)])
def test_small_determinants_are_products(shape, opset):
    inputs = {"x": np.random.default_rng(0).standard_normal(shape).astype("float32")}
    model = model_of("Det", inputs, opset=opset)
    made = require_same(model, inputs, rtol=1e-4, atol=1e-5)
    assert "Det" not in operators_of(made)


def test_large_determinants_stay():
    inputs = {"x": np.random.default_rng(0).standard_normal((4, 4)).astype("float32")}
    assert operators_of(require_same(model_of("Det", inputs, opset=22), inputs)) == ["Det"]
