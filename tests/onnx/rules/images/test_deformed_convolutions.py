import numpy as np

from tests.onnx.cases import cases
from tests.onnx.forms import model_of, require_same

RANDOM = np.random.default_rng(0)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype("float32")


@cases(
    opset=[19, 22],
    told=[{}, {"strides": [2, 1], "pads": [1, 0, 2, 1]}, {"dilations": [1, 2], "pads": [0, 1] * 2}],
    groups=[1, 2],
    shifts=[1, 2],
    masked=[False, True],
)
def test_convolutions_of_moved_pixels(opset, told, groups, shifts, masked):
    pads = np.array(told.get("pads", [0] * 4)).reshape(2, 2).sum(0)
    reach = np.array([2, 1]) * told.get("dilations", 1) + 1
    counts = (np.array([4, 5]) + pads - reach) // told.get("strides", 1) + 1
    inputs = {
        "x": normal(2, 4, 4, 5),
        "w": normal(2, 4 // groups, 3, 2),
        "offset": normal(2, shifts * 12, *counts),
        "b": normal(2),
        "mask": normal(2, shifts * 6, *counts),
    }
    if not masked:
        del inputs["mask"]
    told = {**told, "group": groups, "offset_group": shifts}
    model = model_of("DeformConv", inputs, opset=opset, **told)
    require_same(model, inputs, rtol=1e-4, atol=1e-4)
