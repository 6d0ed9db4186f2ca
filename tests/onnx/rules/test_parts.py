import numpy as np
import pytest

from tests.onnx.cases import cases
from tests.onnx.forms import model_of, normal_of, operators_of, require_same
from tvm_ios.errors import ModelError

X = np.random.default_rng(0).standard_normal((5, 6, 7)).astype("float32")
FAR = np.iinfo("int64").max


@pytest.mark.parametrize("opset", [7, 9])
@pytest.mark.parametrize(
    ("starts", "ends", "axes"),
    [([1, 2], [3, 4], None), ([-3], [FAR], [2]), ([0, 0], [-1, 99], [0, 1]), ([0], [9], [1])],
)
def test_slices_by_attributes(starts, ends, axes, opset):
    told = {} if axes is None else {"axes": axes}
    model = model_of("Slice", {"x": X}, starts=starts, ends=ends, opset=opset, **told)
    require_same(model, {"x": X}, by=["runtime"])
    require_same(model, {"x": X}, by=["reference"])


@pytest.mark.parametrize("opset", [10, 11, 13])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_slices_by_inputs(dtype, opset):
    random = np.random.default_rng(opset)
    for _ in range(25):
        count = int(random.integers(1, 4))
        axes = random.permutation(3)[:count]
        axes = np.where(random.integers(0, 2, count), axes, axes - 3)
        steps = random.choice([-3, -2, -1, 1, 1, 2, 3], count)
        bounds = random.integers(-9, 10, (2, count))
        limits = np.iinfo(dtype)
        ends = bounds[1]
        far = np.where(steps < 0, limits.min, limits.max)
        ends = np.where(random.integers(0, 3, count), ends, far)
        parts = [bounds[0], ends, axes, steps]
        if random.integers(0, 3) == 0:
            parts[2] = np.arange(count)
            parts = parts[: int(random.integers(2, 5))]
        given = {f"part{place}": each.astype(dtype) for place, each in enumerate(parts)}
        # Python's slices, which the reference takes, begin nowhere where ONNX begins at the end.
        clamped = len(parts) > 3 and bool(((parts[3] < 0) & (bounds[0] < -4)).any())
        by = ["runtime"] if clamped else ["runtime", "reference"]
        require_same(model_of("Slice", {"x": X}, constants=given, opset=opset), {"x": X}, by=by)


def test_slice_backwards_to_the_largest_number_is_refused():
    given = {"starts": [-1], "ends": [FAR], "axes": [1], "steps": [-1]}
    with pytest.raises(ModelError, match="give the smallest number"):
        normal_of(model_of("Slice", {"x": X}, constants=given), {"x": X})


def test_slice_of_all_is_nothing():
    given = {"starts": [0], "ends": [FAR], "axes": [-1], "steps": [1]}
    made = require_same(model_of("Slice", {"x": X}, constants=given), {"x": X})
    assert operators_of(made) == ["Identity"]


def test_slice_backwards_ends_before_the_first_place():
    given = {"starts": [-1], "ends": [np.iinfo("int64").min], "axes": [1], "steps": [-1]}
    made = require_same(model_of("Slice", {"x": X}, constants=given), {"x": X})
    assert [list(np.frombuffer(each.raw_data, "int64")) for each in made.graph.initializer] == [
        [5],
        [-7],
        [1],
        [-1],
    ]


@pytest.mark.parametrize("opset", [7, 11, 13, 18])
@pytest.mark.parametrize(("parts", "axis"), [([2, 3], 0), ([1, 1, 4], 1), (None, 1), ([7], -1)])
def test_split(parts, axis, opset):
    if axis < 0 and opset < 11:
        axis %= 3
    count = 2 if parts is None else len(parts)
    told = {"axis": axis, "opset": opset, "outputs": count}
    if opset < 13:
        told |= {} if parts is None else {"split": parts}
        model = model_of("Split", {"x": X}, **told)
    elif parts is None:
        told |= {"num_outputs": count} if opset >= 18 else {}
        model = model_of("Split", {"x": X}, **told)
    else:
        model = model_of("Split", {"x": X}, constants={"parts": np.array(parts)}, **told)
    require_same(model, {"x": X})


@pytest.mark.parametrize("count", [2, 3, 4])
def test_split_into_unequal_parts(count):
    require_same(model_of("Split", {"x": X}, axis=2, num_outputs=count, outputs=count), {"x": X})


@pytest.mark.parametrize("parts", [[0, 5], [2, 0, 3], [0, 0, 5, 0]])
def test_parts_without_places_are_constants(parts):
    given = {"parts": np.array(parts)}
    model = model_of("Split", {"x": X}, constants=given, outputs=len(parts), opset=13)
    made = require_same(model, {"x": X})
    assert operators_of(made).count("Split") == (min(len([e for e in parts if e]), 2) == 2)


def test_split_that_does_not_add_up_is_refused():
    model = model_of("Split", {"x": X}, constants={"parts": np.array([2, 2])}, outputs=2)
    with pytest.raises(ModelError, match="add up|valid"):
        normal_of(model, {"x": X})


@cases(
    where=lambda axis, opset: opset >= 11 or axis >= 0,
    opset=[7, 11, 13],
    axis=[0, 1, -1],
)
def test_concat(axis, opset):
    shape = [5, 6, 7]
    shape[axis] = 0
    inputs = {"x": X, "y": -X, "nothing": np.zeros(shape, "float32")}
    made = require_same(model_of("Concat", inputs, axis=axis, opset=opset), inputs)
    assert len(made.graph.node[0].input) == 2
    inputs = {"nothing": inputs["nothing"], "x": X}
    made = require_same(model_of("Concat", inputs, axis=axis, opset=opset), inputs)
    assert operators_of(made) == ["Identity"]


@pytest.mark.parametrize(
    ("shape", "axes"), [([4, 9, 7], None), ([10, 3], [-1, 0]), ([8], [1]), ([3, 1], [1, 2])]
)
def test_middle_of_a_tensor(shape, axes):
    told = {} if axes is None else {"axes": axes}
    given = {"shape": np.array(shape)}
    model = model_of("CenterCropPad", {"x": X}, constants=given, opset=18, **told)
    require_same(model, {"x": X})
