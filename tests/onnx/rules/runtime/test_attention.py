"""Attention as onnxruntime fuses it is products, masks and softmax."""

import numpy as np
import pytest

from tests.onnx.cases import cases
from tests.onnx.forms import normal_of
from tests.onnx.rules.runtime.of_runtime import model_of_runtime, require_as_runtime
from tvm_ios.errors import ModelError

RNG = np.random.default_rng(0)
BATCH, LENGTH, BEFORE, WIDTH, HEADS = 2, 3, 2, 8, 2


def normal(*shape):
    return RNG.standard_normal(shape).astype("float32")


def mask_of(kind, total):
    """A mask of a sequence of which few places are not looked at."""
    match kind:
        case "ends":
            return np.array([total, total - 1], "int32")
        case "ends and begins":
            return np.array([total, total - 1, 1, 0], "int32")
        case "places":
            return np.array([[1] * total, [1] * (total - 1) + [0]], "int32")
        case "pairs":
            return (RNG.random((BATCH, LENGTH, total)) < 0.7).astype("int32")
    return None


@cases(
    lambda past, biased, **_: not (past and biased),
    mask=[None, "ends", "ends and begins", "places", "pairs"],
    past=[False, True],
    causal=[0, 1],
    biased=[False, True],
    scale=[None, 0.3],
)
def test_attention_of_one_product(mask, past, causal, biased, scale):
    total = LENGTH + BEFORE * past
    values = [
        normal(BATCH, LENGTH, WIDTH),
        normal(WIDTH, 3 * WIDTH),
        normal(3 * WIDTH),
        mask_of(mask, total),
        normal(2, BATCH, HEADS, BEFORE, WIDTH // HEADS) if past else None,
        normal(1, HEADS, LENGTH, total) if biased else None,
    ]
    told = {} if scale is None else {"scale": scale}
    made, inputs = model_of_runtime(
        "Attention", values, outputs=2, num_heads=HEADS, unidirectional=causal, **told
    )
    require_as_runtime(made, inputs)


def test_values_of_another_width():
    values = [normal(2, 3, 6), normal(6, 8 + 8 + 4), normal(20)]
    require_as_runtime(
        *model_of_runtime("Attention", values, num_heads=2, qkv_hidden_sizes=[8, 8, 4])
    )


@cases(
    lambda past, split, **_: not (past and split),
    mask=[None, "ends", "places"],
    past=[False, True],
    split=[False, True],
    causal=[0, 1],
    biased=[False, True],
    added=[False, True],
)
def test_attention_of_three_inputs(mask, past, split, causal, biased, added):
    places, last, size = (LENGTH if causal else 4), (WIDTH if split or past else 4), WIDTH // HEADS
    total = places + BEFORE * past
    old = normal(BATCH, HEADS, BEFORE, size)
    values = [
        normal(BATCH, LENGTH, WIDTH),
        normal(BATCH, HEADS, places, size) if split else normal(BATCH, places, WIDTH),
        normal(BATCH, HEADS, places, size) if split else normal(BATCH, places, last),
        normal(2 * WIDTH + last) if biased else None,
        mask_of(mask, total),
        normal(1, HEADS, LENGTH, total) if added else None,
        *((old, normal(BATCH, HEADS, BEFORE, last // HEADS)) if past else ()),
    ]
    made, inputs = model_of_runtime(
        "MultiHeadAttention",
        values,
        outputs=1 if split else 3,
        num_heads=HEADS,
        unidirectional=causal,
    )
    require_as_runtime(made, inputs)


def test_other_masks_are_refused():
    values = [normal(2, 3, 8), normal(8, 24), normal(24), np.zeros((2, 1, 9, 9), "int32")]
    with pytest.raises(ModelError, match=r"has a mask of shape \[2, 1, 9, 9\]; give one of zeros"):
        normal_of(*model_of_runtime("Attention", values, num_heads=2))
