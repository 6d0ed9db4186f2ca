"""Operators of the normal form compute in Relay what onnxruntime computes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from onnx import helper

from tests.onnx.forms import model_of
from tests.relay.frontends.onnx.compiled import require_as_runtime
from tvm_ios.driver.model_source import from_onnx
from tvm_ios.errors import ModelError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 5, 4)).astype("float32")
WHOLE = RNG.integers(-9, 9, (2, 3, 4)).astype("int32")
WHOLE[WHOLE == 0] = 3


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


ACTIVATIONS = {
    "Celu": {"alpha": 0.7},
    "Elu": {"alpha": 0.7},
    "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
    "HardSwish": {},
    "LeakyRelu": {"alpha": 0.3},
    "Mish": {},
    "Relu": {},
    "Selu": {"alpha": 1.2, "gamma": 0.8},
    "Shrink": {"lambd": 0.3, "bias": 0.2},
    "Softplus": {},
    "Softsign": {},
    "ThresholdedRelu": {"alpha": 0.3},
}


@pytest.mark.parametrize("op_type", ACTIVATIONS)
def test_activations(op_type):
    value = np.concatenate([normal(13), np.array([-150, -60, 60, 150], "float32")])
    require_as_runtime(op_type, {"x": value}, opset=18, **ACTIVATIONS[op_type])


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("op_type", ["Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh"])
def test_angles(op_type, dtype):
    value = (RNG.uniform(0.1, 0.8, 9) + (op_type == "Acosh")).astype(dtype)
    require_as_runtime(op_type, {"x": value}, rtol=2e-3, opset=22)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelus(approximate):
    require_as_runtime("Gelu", {"x": normal(17)}, approximate=approximate)


@pytest.mark.parametrize("op_type", ["Div", "Mod", "Max", "Min", "Pow", "Mean"])
def test_operators_of_two_numbers(op_type):
    other = np.abs(normal(3, 4)) + np.float32(0.5)
    attributes = {"fmod": 1} if op_type == "Mod" else {}
    value = np.abs(normal(2, 3, 4)) if op_type == "Pow" else normal(2, 3, 4)
    require_as_runtime(op_type, {"x": value, "y": other}, **attributes)
    if op_type in ("Div", "Mod", "Max", "Min"):
        require_as_runtime(op_type, {"x": WHOLE, "y": WHOLE[0, ::-1].copy()})


@pytest.mark.parametrize("base", ["int32", "float32"])
@pytest.mark.parametrize("exponent", ["int32", "float32"])
def test_powers_of_numbers_of_two_types(base, exponent):
    value = np.abs(RNG.integers(1, 40, (3, 4))).astype(base)
    require_as_runtime("Pow", {"x": value, "y": np.array([0, 1, 2, 3], exponent)})


@pytest.mark.parametrize("to", ["bool", "uint8", "int8", "int64", "float64", "float16"])
def test_casts(to):
    value = np.array([0, 0.4, -0.6, 1.5, 100.7], "float32")
    value = np.abs(value) if to == "uint8" else value
    require_as_runtime("Cast", {"x": value}, to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))


@pytest.mark.parametrize("to", ["int32", "uint32", "float32"])
def test_bits_of_other_numbers(to):
    to = helper.np_dtype_to_tensor_dtype(np.dtype(to))
    require_as_runtime("BitCast", {"x": X}, opset=26, to=to)


@pytest.mark.parametrize("axes", [[1], [0, 2], None])
@pytest.mark.parametrize(
    "op_type",
    [
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSumExp",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
    ],
)
def test_reductions(op_type, axes):
    constants = {} if axes is None else {"axes": np.array(axes, "int64")}
    require_as_runtime(op_type, {"x": X}, constants=constants, opset=18, keepdims=0)
    if op_type not in ("ReduceL2", "ReduceLogSumExp"):
        value = np.sign(WHOLE) if op_type == "ReduceProd" else WHOLE
        require_as_runtime(op_type, {"x": value}, constants=constants, opset=18)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
def test_places_of_extremes(op_type, last):
    require_as_runtime(op_type, {"x": WHOLE}, axis=1, select_last_index=last, keepdims=0)


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_running_totals(reverse, exclusive):
    constants = {"axis": np.int64(1)}
    require_as_runtime(
        "CumSum", {"x": X}, constants=constants, reverse=reverse, exclusive=exclusive
    )


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_convolutions(count, groups):
    require_as_runtime(
        "Conv",
        {"x": normal(2, 4, *[7] * count)},
        constants={"w": normal(6, 4 // groups, *[3] * count), "b": normal(6)},
        group=groups,
        strides=[2] * count,
        dilations=[1, 2, 1][:count],
        pads=[*[1] * count, *[2] * count],
    )


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize(("count", "constant"), [(1, True), (2, True), (2, False), (3, True)])
def test_transposed_convolutions(count, dilation, groups, constant):
    weights = {"w": normal(4, 3, *[3] * count)}
    require_as_runtime(
        "ConvTranspose",
        {"x": normal(1, 4, *[5] * count)} | ({} if constant else weights),
        constants={"b": normal(3 * groups)} | (weights if constant else {}),
        names=["x", "w", "b"],
        group=groups,
        strides=[3] * count,
        dilations=[dilation] * count,
        output_padding=[1] * count,
        pads=[*[1] * count, *[2] * count],
    )


def test_transposed_convolutions_that_cut_more_than_the_kernel_reaches():
    weights = {"w": normal(2, 3, 1, 1)}
    value = {"x": normal(1, 2, 5, 5)}
    require_as_runtime(
        "ConvTranspose", value, constants=weights, strides=[2, 2], pads=[1, 0, 1, 1], by="reference"
    )


@pytest.mark.parametrize("rounds_up", [0, 1])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("op_type", ["AveragePool", "LpPool", "MaxPool"])
def test_poolings(op_type, count, rounds_up):
    attributes = {"count_include_pad": 1} if op_type == "AveragePool" else {}
    require_as_runtime(
        op_type,
        {"x": normal(2, 3, *[8, 7, 6][:count])},
        opset=19,
        kernel_shape=[3] * count,
        strides=[2] * count,
        pads=[*[1] * count, *[0] * count],
        ceil_mode=rounds_up,
        **attributes,
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_poolings_of_bytes(dtype):
    value = RNG.integers(np.iinfo(dtype).min, 0 if dtype == "int8" else 9, (1, 2, 5, 5))
    inputs = {"x": value.astype(dtype)}
    require_as_runtime("MaxPool", inputs, kernel_shape=[3, 3], pads=[1] * 4)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(
    ("op_type", "indices", "attributes"),
    [
        ("Gather", [[0, -1], [2, 1]], {"axis": 1}),
        ("GatherElements", [[[0, -1, 2, 1]] * 3] * 2, {"axis": 1}),
        ("GatherND", [[-1, 0], [0, -2]], {}),
        ("GatherND", [[-1], [2]], {"batch_dims": 1}),
    ],
)
def test_gathers(op_type, indices, attributes, constant):
    given = {"i": np.array(indices, "int64")}
    require_as_runtime(
        op_type,
        {"x": WHOLE} | ({} if constant else given),
        constants=given if constant else {},
        **attributes,
    )


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
def test_scatters(reduction):
    indices = np.array([[[0, -1, 2, 1]]] * 2, "int64")  # fewer rows than the data
    updates = RNG.integers(-5, 5, indices.shape).astype("int32")
    inputs = {"x": WHOLE, "i": indices, "u": updates}
    require_as_runtime("ScatterElements", inputs, axis=2, reduction=reduction, opset=18)
    indices = np.array([[-2, -3], [1, 2]], "int64")
    inputs = {"x": WHOLE, "i": indices, "u": RNG.integers(-5, 5, (2, 4)).astype("int32")}
    require_as_runtime("ScatterND", inputs, reduction=reduction, opset=18)


@pytest.mark.parametrize("axis", [0, -1])
def test_classes(axis):
    inputs = {"i": np.array([[0, -1, 3], [2, 9, 1]], "int64")}
    constants = {"depth": np.int64(4), "values": np.array([5, -2], "float32")}
    require_as_runtime("OneHot", inputs, constants=constants, axis=axis)


@pytest.mark.parametrize("largest", [0, 1])
def test_the_greatest_come_first_and_the_first_of_several(largest):
    constants = {"k": np.array([3], "int64")}
    require_as_runtime(
        "TopK", {"x": WHOLE}, constants=constants, outputs=2, axis=1, largest=largest
    )


@pytest.mark.parametrize("dtype", ["int16", "uint16", "uint32"])
def test_the_greatest_of_types_that_tvm_does_not_sort(dtype):
    x = np.array([[3, 1, 2], [0, 60000, 5]]).astype(dtype)
    constants = {"k": np.array([2], "int64")}
    require_as_runtime("TopK", {"x": x}, constants=constants, outputs=2, opset=24, by="reference")


def test_the_greatest_of_numbers_that_have_no_wider_type_are_refused():
    x = np.zeros(3, "uint64")
    model = model_of("TopK", {"x": x}, constants={"k": np.array([1])}, outputs=2)
    with pytest.raises(ModelError, match="uint64"):
        from_onnx(model, {})


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_functions_along_an_axis(op_type, axis):
    require_as_runtime(op_type, {"x": X * 30}, axis=axis)


@pytest.mark.slow(1)
def test_norms():
    scale, bias = normal(3), normal(3)
    statistics = {"m": normal(3), "v": np.abs(normal(3))}
    constants = {"s": scale, "b": bias}
    require_as_runtime("BatchNormalization", {"x": X}, constants=constants | statistics, opset=15)
    require_as_runtime("InstanceNormalization", {"x": X}, constants=constants, epsilon=0.1)
    constants = {"s": normal(5, 4), "b": normal(5, 4)}
    require_as_runtime(
        "LayerNormalization", {"x": X}, constants=constants, axis=2, outputs=2, opset=17
    )
    require_as_runtime("LRN", {"x": X}, size=3, alpha=0.1, beta=0.6, bias=1.3)


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("diagonal", [-2, 0, 1])
def test_triangles(upper, diagonal):
    require_as_runtime("Trilu", {"x": X}, constants={"k": np.int64(diagonal)}, upper=upper)


def test_parts_and_joins():
    sizes = np.array([1, 4], "int64")
    require_as_runtime("Split", {"x": X}, constants={"s": sizes}, axis=2, outputs=2)
    require_as_runtime("Concat", {"x": X, "y": X[:, :1].copy()}, axis=-3)
    require_as_runtime("Tile", {"x": X}, constants={"r": np.array([1, 2, 1, 3], "int64")})
    require_as_runtime("DepthToSpace", {"x": normal(1, 8, 3, 2)}, blocksize=2, mode="CRD")


RESIZED = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]


def require_resized(sizes, **attributes):
    require_as_runtime(
        "Resize",
        {"x": X},
        constants={"sizes": np.array(sizes, "int64")},
        names=["x", "", "", "sizes"],
        **attributes,
    )


@pytest.mark.parametrize("sizes", [(2, 3, 10, 12), (2, 3, 3, 7), (2, 3, 5, 1)])
@pytest.mark.parametrize("coordinates", RESIZED)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_resized_images(mode, coordinates, sizes):
    require_resized(sizes, mode=mode, coordinate_transformation_mode=coordinates)


@pytest.mark.parametrize("sizes", [(2, 3, 10, 12), (2, 3, 10, 8), (2, 3, 3, 7)])
@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("coordinates", RESIZED)
def test_repeated_pixels(coordinates, rounding, sizes):
    require_resized(sizes, coordinate_transformation_mode=coordinates, nearest_mode=rounding)


@pytest.mark.parametrize("shape", [(2, 3, 5), (1, 2, 3, 4, 5)])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("coordinates", RESIZED)
def test_resized_lines_and_volumes(coordinates, mode, shape):
    sizes = [*shape[:2], *(extent * 2 - axis for axis, extent in enumerate(shape[2:]))]
    require_as_runtime(
        "Resize",
        {"x": normal(*shape)},
        constants={"sizes": np.array(sizes, "int64")},
        names=["x", "", "", "sizes"],
        mode=mode,
        coordinate_transformation_mode=coordinates,
    )


OF_REFLECTIONS = [("linear", "reflection", 0), *product(["cubic"], ["reflection"], (0, 1))]


@pytest.mark.parametrize(
    ("mode", "padding", "corners"),
    [
        # Corners turn a reflection alike in all modes, and what is cubic of it takes LLVM seconds.
        pytest.param(*case, marks=pytest.mark.full if case in OF_REFLECTIONS else ())
        for case in product(
            ("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (0, 1)
        )
    ],
)
@pytest.mark.slow
def test_samples(mode, padding, corners):
    grid = RNG.uniform(-1.3, 1.3, (2, 6, 3, 2)).astype("float32")
    require_as_runtime(
        "GridSample",
        {"x": X, "grid": grid},
        opset=20,
        mode=mode,
        padding_mode=padding,
        align_corners=corners,
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_steps_to_whole_numbers_and_back(axis):
    constants = {
        "scale": np.linspace(0.01, 0.05, X.shape[axis], dtype="float32"),
        "zero": np.arange(X.shape[axis]).astype("uint8"),
    }
    require_as_runtime("QuantizeLinear", {"x": X}, constants=constants, axis=axis)
    whole = RNG.integers(0, 255, X.shape).astype("uint8")
    require_as_runtime("DequantizeLinear", {"x": whole}, constants=constants, axis=axis)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_steps_of_what_is_no_number_or_infinite(dtype):
    value = np.array([0.5, np.nan, np.inf, -np.inf, 3e38], "float32")
    constants = {"scale": np.float32(0.1), "zero": np.array(3, dtype)}
    require_as_runtime("QuantizeLinear", {"x": value}, constants=constants)


@pytest.mark.slow(1)
def test_products_of_whole_numbers_are_exact():
    bytes_ = {"a": RNG.integers(0, 255, (3, 40)), "b": RNG.integers(0, 255, (40, 5))}
    given = {name: value.astype("uint8") for name, value in bytes_.items()}
    constants = {"az": np.uint8(7), "bz": RNG.integers(0, 255, 5).astype("uint8")}
    require_as_runtime("MatMulInteger", given, constants=constants)
    require_as_runtime(
        "ConvInteger",
        {"x": RNG.integers(0, 255, (1, 3, 6, 5)).astype("uint8")},
        constants={"w": RNG.integers(0, 255, (4, 3, 3, 3)).astype("uint8"), "z": np.uint8(9)},
        pads=[1] * 4,
    )


def test_tables_of_products():
    require_as_runtime("Einsum", {"x": X, "y": normal(3, 4)}, equation="bchw,cw->bhw")
    require_as_runtime("Gemm", {"x": normal(3, 4), "y": normal(5, 4)}, transB=1, alpha=0.5)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("constant", [True, False])
def test_bits_that_are_moved(direction, constant):
    value, places = np.array([3, 200, 255, 1], "uint8"), np.array([1, 2, 7, 0], "uint8")
    given = {"x": value} if constant else {"x": value, "n": places}
    constants = {"n": places} if constant else {}
    require_as_runtime("BitShift", given, constants=constants, direction=direction)


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
def test_places_of_the_least_values_of_a_type(op_type, last):
    least, greatest = np.full((2, 3), -np.inf, "float32"), np.full((2, 3), np.inf, "float32")
    for value in (np.zeros((2, 3), "uint8"), least, greatest):
        require_as_runtime(op_type, {"x": value}, axis=1, select_last_index=last)


REGIONS = np.array([[0, 1, 3, 4], [0.4, 0.8, 2.5, 3.9], [-2, 1, 9, 2]], "float32")


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.slow
def test_samples_of_regions(mode):
    inputs = {"x": X, "rois": REGIONS, "batch": np.array([0, 1, 1])}
    told = {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "mode": mode}
    require_as_runtime("RoiAlign", inputs, opset=16, **told)


@pytest.mark.slow(1)
def test_greatest_values_of_regions():
    rois = np.concatenate([np.array([[0], [1], [1]], "float32"), REGIONS], 1)
    require_as_runtime("MaxRoiPool", {"x": X, "rois": rois}, pooled_shape=[2, 3])


@pytest.mark.slow(1)
def test_convolutions_of_moved_pixels():
    inputs = {
        "x": X,
        "w": normal(4, 3, 3, 2),
        "offset": normal(2, 12, 3, 3),
        "b": normal(4),
        "mask": normal(2, 6, 3, 3),
    }
    require_as_runtime("DeformConv", inputs, opset=19)
