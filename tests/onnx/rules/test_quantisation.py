"""Steps to whole numbers and back have one form in all opsets, and compute the same."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

from tests.onnx.forms import model_of, operators_of, parsed, require_same

BY_REFERENCE = 19
"""The opset from which onnx's reference knows these operators."""
RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 4)).astype("float32")
BYTES = RNG.integers(0, 255, (2, 3, 4)).astype("uint8")


def ways(opset):
    return ("reference", "runtime") if opset >= BY_REFERENCE else ("runtime",)


def dtypes(opset):
    return ["uint8", "int8", *(("int16", "uint16") if opset >= 21 else ())]


@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23])
@pytest.mark.parametrize("zero", [True, False])
def test_one_scale(opset, zero):
    for dtype in dtypes(opset) if zero else ["uint8"]:
        constants = {"scale": np.float32(0.02)} | ({"zero": np.array(3, dtype)} if zero else {})
        made = require_same(
            model_of("QuantizeLinear", {"x": X}, constants=constants, opset=opset),
            {"x": X},
            by=ways(opset),
        )
        assert len(made.graph.node[0].input) == 3
        whole = RNG.integers(0, 100, X.shape).astype(dtype)
        model = model_of("DequantizeLinear", {"x": whole}, constants=constants, opset=opset)
        require_same(model, {"x": whole}, by=ways(opset))


@pytest.mark.parametrize("opset", [13, 19, 21, 23])
@pytest.mark.parametrize("axis", [-2, 0, 2])
def test_scales_along_an_axis_that_is_counted_from_the_first(opset, axis):
    extent = X.shape[axis]
    constants = {
        "scale": np.linspace(0.01, 0.05, extent, dtype="float32"),
        "zero": np.arange(extent).astype("uint8"),
    }
    for op_type, value in (("QuantizeLinear", X), ("DequantizeLinear", BYTES)):
        model = model_of(op_type, {"x": value}, constants=constants, opset=opset, axis=axis)
        made = require_same(model, {"x": value}, by=ways(opset))
        (attribute,) = [each for each in made.graph.node[0].attribute if each.name == "axis"]
        assert attribute.i == axis % 3


def test_a_list_of_one_scale_is_that_scale():
    x = np.arange(6, dtype="uint8").reshape(1, 6)
    given = {"x": x, "scale": np.array([0.5], "float32")}
    constants = {"zero": np.array([3], "uint8")}
    model = model_of("DequantizeLinear", given, constants=constants, axis=0, opset=21)
    require_same(model, given)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_scales_of_blocks_are_repeated(axis):
    shape = list(X.shape)
    shape[axis] = -(-shape[axis] // 2)
    constants = {
        "scale": RNG.uniform(0.01, 0.05, shape).astype("float32"),
        "zero": RNG.integers(0, 9, shape).astype("uint8"),
    }
    for op_type, value in (("QuantizeLinear", X), ("DequantizeLinear", BYTES)):
        if X.shape[axis] % 2 == 0:
            model = model_of(op_type, {"x": value}, constants=constants, axis=axis, block_size=2)
            made = require_same(model, {"x": value})
            assert op_type not in operators_of(made)


@pytest.mark.parametrize("rows", [(), (3,)])
def test_products_of_whole_numbers_have_zero_points(rows):
    left = RNG.integers(0, 255, (3, 4)).astype("uint8")
    right = RNG.integers(-128, 127, (4, 5)).astype("int8")
    given = {"a": left, "b": right}
    require_same(model_of("MatMulInteger", given), given)
    constants = {"az": RNG.integers(0, 9, rows).astype("uint8")}
    by = ("reference", "runtime") if not rows else ("reference",)  # onnxruntime has columns only
    if not rows:
        require_same(model_of("MatMulInteger", given, constants=constants), given, by=by)
    constants = {"az": np.uint8(7), "bz": RNG.integers(-9, 9, (5,)).astype("int8")}
    require_same(model_of("MatMulInteger", given, constants=constants), given)


@pytest.mark.parametrize("opset", [11, 21])
@pytest.mark.parametrize("x", [X, np.abs(X) + 3, -np.abs(X) - 3, 0 * X])
def test_steps_that_the_run_tells_are_as_exact_as_onnxruntimes(x, opset):
    model = model_of("DynamicQuantizeLinear", {"x": x}, outputs=3, opset=opset)
    made = require_same(model, {"x": x}, by=("runtime",))  # onnx's reference has other steps for 0
    assert "DynamicQuantizeLinear" not in operators_of(made)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize("zero", [True, False])
def test_constants_of_half_a_byte_get_a_whole_one(dtype, zero):
    kind = np.dtype(getattr(ml_dtypes, dtype))
    scale = RNG.random(3).astype("float32")
    constants = {"w": np.array([[1, 7, 3], [0, 5, 2]], kind), "scale": scale}
    constants |= {"zero": np.array([1, 2, 3], kind)} if zero else {}
    model = model_of("DequantizeLinear", {}, constants=constants, opset=21)
    made = require_same(model, {})
    assert {each.data_type for each in made.graph.initializer} <= {1, 2, 3}


@pytest.mark.parametrize("zeros", ["0", "3"])
@pytest.mark.parametrize("left", ["a", "turned"])
def test_products_of_whole_numbers_that_become_numbers_are_products_of_numbers(zeros, left):
    weights = ", ".join(map(str, RNG.integers(-127, 127, 20)))
    text = f"""
        net (float[3, 4] x) => (float[3, 5] y)
        <int8[4, 5] w = {{{weights}}}, int8 wz = {{{zeros}}}, float[5] scales = {{1, 2, 3, 4, 5}}>
        {{
            a, scale, zero = DynamicQuantizeLinear(x)
            turned = Transpose<perm = [0, 1]>(a)
            whole = MatMulInteger({left}, w, zero, wz)
            number = Cast<to = 1>(whole)
            factors = Mul(scale, scales)
            y = Mul(number, factors)
        }}
    """
    x = RNG.standard_normal((3, 4)).astype("float32")
    made = require_same(parsed(text), {"x": x}, by=("runtime",), rtol=1e-4, atol=1e-5)
    assert {"MatMul", "MatMulInteger"} & {*operators_of(made)} == {"MatMul"}


def of_convolution(source: str, zeros: str, pads: int) -> onnx.ModelProto:
    """A convolution of whole numbers of an image, with steps that a run tells."""
    weights = ", ".join(map(str, RNG.integers(-100, 100, 36)))
    size = 3 + 2 * pads
    return parsed(f"""
        net (float[1, 3, 5, 5] x) => (float[1, 3, {size}, {size}] y)
        <int8[3, 3, 2, 2] w = {{{weights}}}, int8 wz = {{{zeros}}}, float scales = {{0.5}}>
        {{
            source = {source}(x)
            a, scale, zero = DynamicQuantizeLinear(source)
            whole = ConvInteger<pads = [{pads}, {pads}, {pads}, {pads}], dilations = [2, 2]>
                (a, w, zero, wz)
            number = Cast<to = 1>(whole)
            factors = Mul(scale, scales)
            y = Mul(number, factors)
        }}
    """)


@pytest.mark.parametrize("zeros", ["0", "3"])
@pytest.mark.parametrize("pads", [0, 1])
@pytest.mark.parametrize("source", ["Identity", "Relu"])
def test_convolutions_of_whole_numbers_that_become_numbers_are_those_of_numbers(
    source, pads, zeros
):
    x = RNG.standard_normal((1, 3, 5, 5)).astype("float32")
    model = of_convolution(source, zeros, pads)
    made = require_same(model, {"x": x}, by=("runtime",), rtol=1e-4, atol=1e-4)
    assert {"Conv", "ConvInteger", "Sub"} & {*operators_of(made)} == (
        {"Conv"} if source == "Relu" else {"Conv", "Sub"}
    )


@pytest.mark.parametrize("source", ["Relu", "Sigmoid", "Identity"])
def test_numbers_that_are_never_negative_have_no_least_one(source):
    text = f"""
        net (float[3, 4] x) => (uint8[4, 3] y, float scale, uint8 zero)
        {{
            made = {source}(x)
            turned = Transpose(made)
            y, scale, zero = DynamicQuantizeLinear(turned)
        }}
    """
    x = RNG.standard_normal((3, 4)).astype("float32")
    made = require_same(parsed(text), {"x": x}, by=("runtime",))
    assert ("ReduceMin" in operators_of(made)) == (source == "Identity")
