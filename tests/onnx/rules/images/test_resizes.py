import numpy as np
import pytest

from tests.onnx.cases import cases
from tests.onnx.forms import model_of, normal_of, operators_of, outputs_of, require_same
from tvm_ios.errors import ModelError

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((1, 2, 6, 5)).astype("float32")
MODES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
WHOLE = [[1, 1, 2, 2], [1, 1, 0.5, 1], [1, 1, 3, 0.6], [1, 1, 1, 1]]
BROKEN = [[1, 1, 1.5, 1.5], [1, 1, 0.7, 0.7], [1, 1, 0.3, 2.3], [1, 1, 0.17, 1.19]]
NEAR = {"rtol": 1e-5, "atol": 1e-5}


def resized(scales=None, sizes=None, *, opset=21, inputs=None, roi=None, **told):
    """A model that resizes an image, by scales or by sizes."""
    constants = {"scales": np.array(scales or [], "float32")}
    names = ["x", "scales"]
    if opset >= 11:
        constants["roi"] = np.array([] if roi is None else roi, "float32")
        names = ["x", "roi", "scales"]
    if sizes is not None:
        constants["sizes"] = np.array(sizes)
        names = ["x", "roi", "scales" if opset < 13 else "", "sizes"]
    constants = {name: each for name, each in constants.items() if name in names}
    inputs = inputs or {"x": X}
    return model_of("Resize", inputs, constants=constants, names=names, opset=opset, **told)


@cases(
    opset=[7, 9], mode=["nearest", "linear"], scales=[[1, 1, 2, 2], [1, 1, 1.5, 2.3], [1, 1, 3, 1]]
)
def test_upsample(scales, mode, opset):
    scales = np.array(scales, "float32")
    if opset == 7:
        model = model_of("Upsample", {"x": X}, scales=scales.tolist(), mode=mode, opset=opset)
    else:
        given = {"scales": scales}
        model = model_of("Upsample", {"x": X}, constants=given, mode=mode, opset=opset)
    made = require_same(model, {"x": X}, by=["runtime"], **NEAR)
    if all(scales == np.round(scales)):
        assert operators_of(made) == ["Resize"]


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_opset_10(mode):
    for scales in WHOLE + BROKEN:
        require_same(resized(scales, mode=mode, opset=10), {"x": X}, by=["runtime"], **NEAR)


@cases(
    where=lambda opset, mode, **_: (
        mode != ("half_pixel_symmetric" if opset < 19 else "tf_half_pixel_for_nn")
    ),
    opset=[11, 19],
    mode=[*MODES, "tf_half_pixel_for_nn", "half_pixel_symmetric"],
    rounding=["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"],
)
def test_nearest(rounding, mode, opset):
    told = {"coordinate_transformation_mode": mode, "nearest_mode": rounding}
    for scales in WHOLE if mode == "align_corners" else WHOLE + BROKEN:
        model = resized(scales, mode="nearest", opset=opset, **told)
        # The reference computes places in float64, which ties do not survive.
        require_same(model, {"x": X}, by=["runtime"])


@cases(rounding=["round_prefer_floor", "round_prefer_ceil"], off=[-2e-6, -5e-7, 5e-7, 2e-6])
def test_what_is_nearly_halfway_is_a_tie(rounding, off):
    told = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": rounding}
    model = resized([1, 1, 2 + 4 * off, 1], mode="nearest", **told)
    require_same(model, {"x": X}, by=["runtime"])


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_opsets_between(mode, opset):
    for scales in WHOLE + BROKEN:
        require_same(resized(scales, mode=mode, opset=opset), {"x": X}, by=["runtime"], **NEAR)


@cases(
    where=lambda opset, mode, scales, **_: (
        (opset >= 19 or mode != "half_pixel_symmetric")
        and (mode != "align_corners" or scales in WHOLE)
    ),
    opset=[11, 19],
    mode=[*MODES, "half_pixel_symmetric"],
    how=["linear", "cubic", "cubic outside"],
    scales=WHOLE + BROKEN,
)
def test_interpolation(scales, how, mode, opset):
    told = {"coordinate_transformation_mode": mode, "mode": how.split()[0]}
    told |= {"exclude_outside": 1, "cubic_coeff_a": -0.5} if "outside" in how else {}
    made = require_same(resized(scales, opset=opset, **told), {"x": X}, by=["runtime"], **NEAR)
    if scales in WHOLE[:1]:
        assert operators_of(made) == ["Resize"]
    if mode in ("half_pixel", "asymmetric"):  # others take sizes that are not rounded
        require_same(resized(scales, opset=opset, **told), {"x": X}, by=["reference"], **NEAR)


@cases(
    opset=[11, 13, 18, 19],
    mode=MODES,
    how=["nearest", "linear", "cubic"],
    sizes=[[1, 2, 12, 10], [1, 2, 4, 7], [1, 2, 1, 1], [1, 2, 6, 5]],
)
def test_sizes(sizes, how, mode, opset):
    told = {"coordinate_transformation_mode": mode, "mode": how}
    require_same(resized(sizes=sizes, opset=opset, **told), {"x": X}, by=["runtime"], **NEAR)


@cases(
    opset=[11, 19],
    how=["nearest", "linear", "cubic"],
    roi=[[0, 0, 0.2, 0.1, 1, 1, 0.9, 0.7], [0, 0, -0.3, 0.5, 1, 1, 1.2, 1]],
)
def test_crops(roi, how, opset):
    told = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    # onnxruntime crops no axis whose extent stays, and the reference does.
    for sizes, by in (([1, 2, 4, 7], "runtime"), ([1, 2, 1, 3], "runtime"), ([1, 2, 1, 5], "")):
        model = resized(sizes=sizes, roi=roi, mode=how, opset=opset, **told)
        require_same(model, {"x": X}, by=[by or "reference"], **NEAR)


@cases(opset=[18, 19], axes=[[2, 3], [3, 2], [3]], policy=["stretch", "not_larger", "not_smaller"])
def test_some_axes(axes, policy, opset):
    sizes = [9, 7][: len(axes)]
    told = {"axes": axes, "keep_aspect_ratio_policy": policy}
    for mode in ("nearest", "linear"):
        model = resized(sizes=sizes, opset=opset, mode=mode, **told)
        require_same(model, {"x": X}, by=["runtime"], **NEAR)
    if policy == "stretch":
        model = resized([1.5, 2][: len(axes)], opset=opset, axes=axes)
        require_same(model, {"x": X}, by=["runtime"])


def test_axes_from_the_end():
    found = [
        outputs_of(normal_of(resized([1.5, 2], axes=axes), {"x": X}), {"x": X}, by="runtime")
        for axes in ([-1, -2], [3, 2])
    ]
    np.testing.assert_array_equal(*found)  # neither runtime takes negative ones


@pytest.mark.parametrize("shape", [(7,), (2, 7), (2, 3, 7), (1, 2, 3, 4, 5)])
def test_other_ranks(shape):
    inputs = {"x": RANDOM.standard_normal(shape).astype("float32")}
    scales = [1] * (len(shape) - 1) + [2]
    for mode in ("nearest", "linear"):
        require_same(resized(scales, mode=mode, inputs=inputs), inputs, by=["reference"], **NEAR)


def test_channels_that_are_resized_are_gathered():
    made = require_same(resized([1, 2, 1, 1]), {"x": X})
    assert operators_of(made) == ["Gather"]


@cases(
    mode=["linear", "cubic"],
    scales=[[1, 1, 0.5, 0.6], [1, 1, 0.34, 0.4], [1, 1, 2, 0.7]],
    outside=[0, 1],
)
def test_antialias(scales, mode, outside):
    told = {"antialias": 1, "mode": mode, "exclude_outside": outside}
    require_same(resized(scales, **told), {"x": X}, by=["runtime"], **NEAR)


def test_corners_of_rounded_sizes_are_refused():
    model = resized([1, 1, 1.5, 1.5], mode="linear", coordinate_transformation_mode="align_corners")
    with pytest.raises(ModelError, match="give sizes in place of scales"):
        normal_of(model, {"x": X})


def test_whole_numbers_are_not_interpolated():
    inputs = {"x": np.arange(30, dtype="uint8").reshape(1, 1, 6, 5)}
    require_same(resized([1, 1, 2, 1.5], inputs=inputs), inputs)
    with pytest.raises(ModelError, match="cast them"):
        normal_of(resized([1, 1, 1.7, 1.5], inputs=inputs, mode="linear"), inputs)


def test_nothing_is_left_of_a_single_place():
    inputs = {"x": X[:, :, :, :1]}
    require_same(resized([1, 1, 2, 0.5], inputs=inputs, mode="linear"), inputs, by=["runtime"])
