"""Operators that onnxruntime fuses compute what they are fused from."""

from __future__ import annotations

import numpy as np
import pytest

from tests.onnx.rules.runtime.of_runtime import model_of_runtime, require_as_runtime

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape).astype("float32")


pair = [normal(2, 3, 4), normal(2, 3, 4)]
words = RNG.integers(0, 3, (2, 3)).astype("int32")
tables = [normal(3, 4), normal(3, 4), normal(2, 4)]
CASES = [
    ("FusedConv", [normal(1, 2, 5, 5), normal(3, 2, 3, 3), normal(3)], {"activation": "Relu"}),
    (
        "FusedConv",
        [normal(1, 2, 5, 5), normal(3, 2, 3, 3), normal(3), normal(1, 3, 3, 3)],
        {"activation": "LeakyRelu", "activation_params": [0.3]},
    ),
    (
        "FusedGemm",
        [normal(3, 4), normal(5, 4), normal(5)],
        {"activation": "LeakyRelu", "activation_alpha": 0.2, "transB": 1, "alpha": 0.5},
    ),
    ("FusedMatMul", [normal(2, 3, 4), normal(2, 5, 4)], {"transB": 1, "alpha": 0.5}),
    ("FusedMatMul", [normal(2, 4, 3), normal(2, 4, 5)], {"transA": 1}),
    (
        "FusedMatMul",
        [normal(2, 3, 5, 4), normal(7, 3, 5, 4)],
        {"transBatchA": 1, "transBatchB": 1, "transB": 1},
    ),
    ("Gelu", [normal(3, 4)], {}),
    ("BiasGelu", [normal(3, 4), normal(4)], {}),
    ("FastGelu", [normal(3, 4), normal(4)], {}),
    ("QuickGelu", [normal(3, 4)], {"alpha": 1.5}),
    ("SkipLayerNormalization", [normal(2, 3, 4), normal(2, 3, 4), normal(4), normal(4)], {}),
    ("SkipLayerNormalization", [*pair, normal(4), normal(4), normal(4)], {"epsilon": 1e-3}),
    ("SkipSimplifiedLayerNormalization", [*pair, normal(4)], {}),
    ("SkipSimplifiedLayerNormalization", [*pair, normal(4), normal(4)], {"epsilon": 1e-3}),
    ("EmbedLayerNormalization", [words, words % 2, *tables, normal(4), normal(4)], {"outputs": 2}),
    (
        "EmbedLayerNormalization",
        [words, None, *tables[:2], None, normal(4), normal(4)],
        {"outputs": 2},
    ),
    (
        "EmbedLayerNormalization",
        [words, words % 2, *tables, normal(4), normal(4), words % 2, words[:, ::-1].copy()],
        {"epsilon": 1e-3, "outputs": 3},
    ),
    ("QuantizeLinear", [normal(3, 4), np.float32(0.1), np.int16(-300)], {}),
    ("DequantizeLinear", [words.astype("uint16"), normal(3), np.zeros(3, "uint16")], {"axis": 1}),
    ("Trilu", [normal(3, 4), np.array(1)], {"upper": 0}),
    ("GridSample", [normal(1, 2, 4, 4), normal(1, 3, 3, 2)], {"mode": "bilinear"}),
]


@pytest.mark.parametrize(("op_type", "values", "attributes"), CASES)
def test_fused_operators(op_type, values, attributes):
    model, inputs = model_of_runtime(op_type, values, **attributes)
    require_as_runtime(model, inputs)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("shape", [(2, 3, 16), (2, 2, 3, 8)])
@pytest.mark.parametrize("places", [np.array([4]), RNG.integers(0, 9, (2, 3))])
@pytest.mark.parametrize("turned", [0, 4])
def test_turned_parts(interleaved, shape, places, turned):
    tables = [normal(9, turned // 2 or 4), normal(9, turned // 2 or 4)]
    told = {"rotary_embedding_dim": turned, "num_heads": 2} if turned else {}
    values = [normal(*shape), places, *tables]
    made, inputs = model_of_runtime("RotaryEmbedding", values, interleaved=interleaved, **told)
    require_as_runtime(made, inputs)
