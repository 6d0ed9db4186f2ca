"""Products that onnxruntime quantises while it runs."""

import numpy as np
import pytest

from tests.onnx.cases import cases
from tests.onnx.forms import normal_of
from tests.onnx.rules.runtime.of_runtime import model_of_runtime, require_as_runtime
from tvm_ios.errors import ModelError

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape).astype("float32")


def whole(*shape, dtype="uint8"):
    return RNG.integers(0, 100, shape).astype(dtype)


@cases(columns=[1, 6], zeros=[False, True], bias=[False, True], dtype=["int8", "uint8"])
def test_products_of_whole_numbers(columns, zeros, bias, dtype):
    shape = (columns,) if columns > 1 else ()
    scale = RNG.uniform(0.01, 0.02, shape).astype("float32")
    zero = whole(*shape, dtype=dtype) if zeros else None
    added = normal(6) if bias else None
    weight = whole(4, 6, dtype=dtype)
    require_as_runtime(
        *model_of_runtime("DynamicQuantizeMatMul", [normal(2, 3, 4), weight, scale, zero, added])
    )
    first = whole() if zeros else None
    given = [whole(2, 3, 4), weight, np.float32(0.02), scale, first, zero, added]
    require_as_runtime(*model_of_runtime("MatMulIntegerToFloat", given))


@cases(masked=[False, True], past=[False, True], causal=[0, 1])
def test_attention_of_whole_numbers(masked, past, causal):
    values = [
        whole(2, 3, 8),
        whole(8, 24),
        normal(24),
        np.float32(0.01),
        np.float32(0.01),
        np.array([5, 4] if past else [3, 2], "int32") if masked else None,
        np.uint8(50),
        np.uint8(40),
        normal(2, 2, 2, 2, 4) if past else None,
    ]
    made, inputs = model_of_runtime(
        "QAttention", values, outputs=2, constants=[1, 3, 4], num_heads=2, unidirectional=causal
    )
    require_as_runtime(made, inputs)


@cases(
    lambda bits, zeros, **_: bits < 8 or zeros != "numbers",
    bits=[2, 4, 8],
    rest=[0, 5],
    zeros=[None, "packed", "numbers"],
    bias=[False, True],
)
def test_weights_of_a_few_bits(bits, rest, zeros, bias):
    columns, size, blocks = 48 - rest, 16, 3
    packed = RNG.integers(0, 256, (6, blocks, size * bits // 8)).astype("uint8")
    given = {
        None: None,
        "packed": RNG.integers(0, 256, (6, -(-blocks * bits // 8))).astype("uint8"),
        "numbers": RNG.integers(0, 2**bits, (6, blocks)).astype("float32"),
    }[zeros]
    values = [normal(2, columns), packed, normal(6, blocks), given, None, normal(6)]
    values = values if bias else values[:4]
    told = {"bits": bits, "block_size": size, "N": 6, "K": columns}
    constants = [place for place in (1, 2, 3) if values[place] is not None]
    made, inputs = model_of_runtime("MatMulNBits", values, constants=constants, **told)
    require_as_runtime(made, inputs)


def test_weights_of_three_bits_are_refused():
    values = [normal(2, 16), np.zeros((6, 1, 6), "uint8"), normal(6, 1)]
    told = {"bits": 3, "block_size": 16, "N": 6, "K": 16}
    made, inputs = model_of_runtime("MatMulNBits", values, constants=[1, 2], **told)
    with pytest.raises(ModelError, match="has weights of 3 bits, or in another order; give 2, 4"):
        normal_of(made, inputs)
