"""ONNX models whose weights alone are quantised: products of few rows read them as bytes."""

from __future__ import annotations

import numpy as np
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.onnx.cases import cases
from tests.relay.frontends.onnx.one_input import model, read
from tests.stock import stock_outputs
from tvm_ios.relay import build
from tvm_ios.relay.dataflow import kernel_calls
from tvm_ios.relay.prepare import prepare

ROWS, INPUTS, OUTPUTS, BLOCK = 3, 256, 272, 32
TARGET = "llvm -mcpu=core-avx2"


def assert_bytes_compute(made, wanted, shape):
    """A model's weights are bytes, and its result for some numbers is what a function says."""
    value = np.random.default_rng(1).standard_normal(shape, "float32")
    prepared = prepare(read(made, shape), {}, TARGET)
    types = [
        str(parameter.checked_type.dtype)
        for call in kernel_calls(prepared.module["main"].body)
        for parameter in call.op.params
    ]
    assert types.count("int8") == 1
    (found,) = stock_outputs(build(prepared.module, prepared.target, {}).factory, x=value)
    expected = wanted(value)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@cases(
    spread=["tensor", "channel", "block"],
    zero=[False, True],
    dtype=["int8", "uint8"],
    product=["MatMul", "Gemm"],
)
def test_constants_that_are_dequantised(spread, zero, dtype, product):
    random = np.random.default_rng(0)
    turned = product == "Gemm"  # which has a column's weights side by side
    shape = (OUTPUTS, INPUTS) if turned else (INPUTS, OUTPUTS)
    sizes = {"tensor": (), "channel": (OUTPUTS,), "block": (INPUTS // BLOCK, OUTPUTS)}[spread]
    scale = random.uniform(1e-3, 2e-3, sizes).astype("float32")
    limits = np.iinfo(dtype)
    middle = (limits.min + limits.max + 1) // 2
    point = random.integers(limits.min, limits.max, sizes) if zero else np.full(sizes, middle)
    weights = {
        "q": random.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype),
        "scale": scale.T if turned else scale,
        "zero": (point.T if turned else point).astype(dtype),
        "bias": random.standard_normal(OUTPUTS, "float32"),
    }
    told = {} if spread == "tensor" else {"axis": int(spread == "block") ^ int(not turned)}
    if spread == "block":
        told["block_size"] = BLOCK
    last = {"transB": 1} if turned else {}
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["w"], **told),
        helper.make_node(product, ["x", "w"], ["p"], **last),
        helper.make_node("Add", ["p", "bias"], ["y"]),
    ]
    made = model(*nodes, weights=weights, opset=21, shape=(ROWS, INPUTS))
    evaluator = ReferenceEvaluator(made)
    assert_bytes_compute(made, lambda x: evaluator.run(None, {"x": x})[0], (ROWS, INPUTS))


@cases(bits=[4, 8], zeros=[False, True])
def test_products_by_weights_of_a_few_bits(bits, zeros):
    random = np.random.default_rng(0)
    blocks = INPUTS // BLOCK
    whole = random.integers(0, 2**bits, (OUTPUTS, blocks, BLOCK)).astype("uint8")
    scale = random.uniform(1e-3, 2e-3, (OUTPUTS, blocks)).astype("float32")
    point = random.integers(0, 2**bits, (OUTPUTS, blocks)).astype("uint8")
    point = point if zeros else np.full_like(point, 2 ** (bits - 1))

    def packed(array):
        return array if bits == 8 else array[..., ::2] | array[..., 1::2] << 4

    weights = {"q": packed(whole), "scale": scale, "zero": packed(point)}
    given = ["x", *weights] if zeros else ["x", "q", "scale"]
    told = {"K": INPUTS, "N": OUTPUTS, "bits": bits, "block_size": BLOCK}
    node = helper.make_node("MatMulNBits", given, ["y"], domain="com.microsoft", **told)
    used = {name: weights[name] for name in given[1:]}
    made = model(node, weights=used, shape=(ROWS, INPUTS), domains=["com.microsoft"])
    numbers = (whole - point[..., None].astype("float32")) * scale[..., None]
    matrix = numbers.reshape(OUTPUTS, INPUTS).astype("float64").T
    assert_bytes_compute(made, lambda x: x @ matrix, (ROWS, INPUTS))


def test_columns_that_scale_the_data_stay_out_of_the_weights():
    random = np.random.default_rng(0)
    weights = {
        "q": random.integers(-127, 128, (INPUTS, OUTPUTS)).astype("int8"),
        "scale": np.full(OUTPUTS, 0.01, "float32"),
        "gain": random.uniform(0.5, 1.5, INPUTS).astype("float32"),
    }
    nodes = [
        helper.make_node("Mul", ["x", "gain"], ["scaled"]),
        helper.make_node("DequantizeLinear", ["q", "scale"], ["w"], axis=1),
        helper.make_node("MatMul", ["scaled", "w"], ["y"]),
    ]
    made = model(*nodes, weights=weights, shape=(1, INPUTS))
    matrix = weights["q"] * 0.01
    assert_bytes_compute(made, lambda x: (x * weights["gain"]) @ matrix, (1, INPUTS))


def test_more_rows_are_multiplied_in_float32():
    shape = 17, INPUTS
    steps = np.random.default_rng(0).integers(-127, 128, (INPUTS, OUTPUTS)).astype("int8")
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "scale"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    weights = {"q": steps, "scale": np.array(0.01, "float32")}
    prepared = prepare(read(model(*nodes, weights=weights, shape=shape), shape), {}, TARGET)
    (call,) = kernel_calls(prepared.module["main"].body)
    assert {str(each.checked_type.dtype) for each in call.op.params} == {"float32"}
