import numpy as np
import pytest

from tests.onnx.forms import model_of, require_same

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("opset", [7, 21])
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_greatest_values_in_regions(opset, scale):
    inputs = {
        "x": RANDOM.standard_normal((2, 3, 7, 9)).astype("float32"),
        "rois": np.array(
            [[0, 1, 2, 5, 6], [1, 0, 0, 8, 6], [1, -3, -1.5, 3.5, 20], [0, 5, 5, 2, 2]], "float32"
        ),
    }
    told = {"pooled_shape": [3, 4], "spatial_scale": scale}
    model = model_of("MaxRoiPool", inputs, opset=opset, **told)
    # The reference has no such operator, and onnxruntime lacks it in opset 22.
    require_same(model, inputs, by=["runtime"])
