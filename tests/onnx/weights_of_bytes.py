"""ONNX models whose weights alone are quantised, and what they compute. No TVM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.onnx.one_input import model

__all__ = ["CASES", "Case", "dequantised", "of_few_bits", "of_scaled_data", "on_many_rows"]

ROWS, INPUTS, OUTPUTS, BLOCK = 3, 256, 272, 32
CASES = {
    "dequantised": {
        "spread": ["tensor", "channel", "block"],
        "zero": [False, True],
        "dtype": ["int8", "uint8"],
        "product": ["MatMul", "Gemm"],
    },
    "of_few_bits": {"bits": [4, 8], "zeros": [False, True]},
}
"""Values of the arguments of functions here, for :func:`tests.onnx.cases.cases`."""


@dataclass(frozen=True, slots=True)
class Case:
    """A model of one input ``x``."""

    model: Any
    wanted: Callable[[np.ndarray], np.ndarray]
    shape: tuple[int, ...] = (ROWS, INPUTS)

    def assert_computed(self, run: Callable[[np.ndarray], np.ndarray]) -> None:
        """Require that a function has the model's result for some numbers."""
        value = np.random.default_rng(1).standard_normal(self.shape, "float32")
        expected = self.wanted(value)
        near = 1e-5 * np.abs(expected).max()
        np.testing.assert_allclose(run(value), expected, rtol=1e-4, atol=near)


def dequantised(spread: str, zero: bool, dtype: str, product: str) -> Case:
    """Product by constants that are dequantised, and a bias."""
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
    return Case(made, lambda x: evaluator.run(None, {"x": x})[0])


def of_few_bits(bits: int, zeros: bool) -> Case:
    """Product by weights of 4 or 8 bits in blocks, as onnxruntime has it."""
    random = np.random.default_rng(0)
    blocks = INPUTS // BLOCK
    whole = random.integers(0, 2**bits, (OUTPUTS, blocks, BLOCK)).astype("uint8")
    scale = random.uniform(1e-3, 2e-3, (OUTPUTS, blocks)).astype("float32")
    point = random.integers(0, 2**bits, (OUTPUTS, blocks)).astype("uint8")
    point = point if zeros else np.full_like(point, 2 ** (bits - 1))

    def packed(array: np.ndarray) -> np.ndarray:
        return array if bits == 8 else array[..., ::2] | array[..., 1::2] << 4

    weights = {"q": packed(whole), "scale": scale, "zero": packed(point)}
    given = ["x", *weights] if zeros else ["x", "q", "scale"]
    told = {"K": INPUTS, "N": OUTPUTS, "bits": bits, "block_size": BLOCK}
    node = helper.make_node("MatMulNBits", given, ["y"], domain="com.microsoft", **told)
    used = {name: weights[name] for name in given[1:]}
    made = model(node, weights=used, shape=(ROWS, INPUTS), domains=["com.microsoft"])
    numbers = (whole - point[..., None].astype("float32")) * scale[..., None]
    matrix = numbers.reshape(OUTPUTS, INPUTS).astype("float64").T
    return Case(made, lambda x: x @ matrix)


def of_scaled_data() -> Case:
    """Product whose data are scaled column by column."""
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
    return Case(made, lambda x: (x * weights["gain"]) @ matrix, (1, INPUTS))


def on_many_rows() -> Case:
    """Product of more rows than read bytes."""
    shape = 17, INPUTS
    steps = np.random.default_rng(0).integers(-127, 128, (INPUTS, OUTPUTS)).astype("int8")
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "scale"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    weights = {"q": steps, "scale": np.array(0.01, "float32")}
    return Case(model(*nodes, weights=weights, shape=shape), lambda x: x @ (steps * 0.01), shape)
