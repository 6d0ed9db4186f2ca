import numpy as np
import pytest

from tests.onnx.cases import cases
from tests.onnx.forms import model_of, normal_of, require_same
from tvm_ios.errors import ModelError

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.standard_normal((2, 3, 7, 9)).astype("float32")
REGIONS = np.array(
    [[1, 2, 9, 7], [0.3, 0.7, 17.4, 12.6], [-3, -2, 4, 30], [5, 5, 5.2, 5.1], [9, 6, 3, 2]],
    "float32",
)
BATCH = np.array([0, 1, 1, 0, 1])
SIZE = {"output_height": 3, "output_width": 2, "spatial_scale": 0.5}


def options(opset, half):
    """Attributes that say whether regions are aligned with half a pixel."""
    if opset < 16:
        return {}
    return {"coordinate_transformation_mode": "half_pixel" if half else "output_half_pixel"}


@cases(
    lambda opset, half, **_: opset >= 16 or not half,
    opset=[10, 16, 22],
    half=[False, True],
    mode=["avg", "max"],
    ratio=[0, 1, 2],
)
def test_samples_of_regions(opset, half, mode, ratio):
    inputs, constants = {"x": IMAGES}, {"rois": REGIONS, "batch": BATCH}
    if ratio:  # without one, the regions say how many samples are taken
        inputs, constants = {**inputs, **constants}, {}
    told = {"mode": mode, "sampling_ratio": ratio, **SIZE, **options(opset, half)}
    model = model_of("RoiAlign", inputs, constants=constants, opset=opset, **told)
    # The reference of opset 10 aligns with half a pixel, and onnxruntime lacks opset 22.
    by = {10: ["runtime"], 16: ["reference", "runtime"], 22: ["reference"]}[opset]
    require_same(model, inputs, by=by, rtol=1e-5, atol=1e-5)


def test_regions_that_say_how_many_samples_are_taken_have_to_be_constant():
    inputs = {"x": IMAGES, "rois": REGIONS, "batch": BATCH}
    with pytest.raises(ModelError, match=r"takes regions, whose extents .* \('rois'\) that only"):
        normal_of(model_of("RoiAlign", inputs, opset=16, **SIZE), inputs)
