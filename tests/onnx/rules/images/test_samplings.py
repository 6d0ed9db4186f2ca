import numpy as np
import pytest

from tests.onnx.forms import model_of, operators_of, require_same

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("opset", [16, 20, 22])
@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest", None])
def test_grid_sample(mode, opset):
    inputs = {
        "x": RANDOM.standard_normal((2, 3, 5, 6)).astype("float32"),
        "grid": (RANDOM.random((2, 4, 4, 2)) * 2.2 - 1.1).astype("float32"),
    }
    if opset < 20 and mode in ("linear", "cubic"):
        mode = f"bi{mode}"
    told = {} if mode is None else {"mode": mode}
    model = model_of("GridSample", inputs, opset=opset, **told)
    made = require_same(model, inputs, by=["runtime"])
    modes = {each.s for each in made.graph.node[0].attribute}
    assert not modes & {b"bilinear", b"bicubic"}


@pytest.mark.parametrize(
    ("image", "block", "told"),
    [
        ([5, 5], [1, 5], {}),
        ([5, 6], [2, 3], {"strides": [2, 1], "pads": [0, 1, 1, 0]}),
        ([7, 7], [2, 2], {"dilations": [1, 3], "strides": [3, 2]}),
        ([4, 5, 6], [1, 2, 3], {}),
    ],
)
def test_blocks_that_are_added_up(image, block, told):
    axes = len(block)
    pads = np.array(told.get("pads", [0] * (2 * axes))).reshape(2, -1)
    reach = (np.array(block) - 1) * told.get("dilations", 1) + 1
    counts = (np.array(image) + pads.sum(0) - reach) // told.get("strides", 1) + 1
    shape = (2, 3 * int(np.prod(block)), int(np.prod(counts)))
    inputs = {"x": RANDOM.integers(-9, 9, shape).astype("float32")}
    given = {"image": np.array(image), "block": np.array(block)}
    model = model_of("Col2Im", inputs, constants=given, opset=18, **told)
    made = require_same(model, inputs, by=["runtime"])
    assert "ConvTranspose" in operators_of(made)


@pytest.mark.parametrize("size", [[2, 3, 5, 6], [2, 3, 4, 5, 6]])
@pytest.mark.parametrize("aligned", [0, 1])
def test_grids_of_transformed_places(aligned, size):
    axes = len(size) - 2
    inputs = {"theta": RANDOM.standard_normal((2, axes, axes + 1)).astype("float32")}
    given = {"size": np.array(size)}
    model = model_of("AffineGrid", inputs, constants=given, opset=20, align_corners=aligned)
    require_same(model, inputs, rtol=1e-5, atol=1e-5)
