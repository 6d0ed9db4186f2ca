"""A spread of onnx's own tests of operators, of which the lab runs all."""

from __future__ import annotations

import pytest
from onnx.reference.ops import op_pool_common

from tvm_ios_lab.scripts.conformance import CONSTANTS, REFUSED, RIGHT, node_tests, verdict

pytestmark = pytest.mark.slow(25)

READ = [
    "averagepool_2d_pads",
    "basic_conv_with_padding",
    "batchnorm_example",
    "convtranspose",
    "depthtospace_example",
    "dropout_default",
    "gelu_tanh_1",
    "gemm_default_vector_bias",
    "identity",
    "instancenorm_example",
    "layer_normalization_2d_axis0",
    "lppool_1d_default",
    "lstm_defaults",
    "maxpool_2d_strides",
    "mish",
    "prelu_broadcast",
    "quantizelinear",
    "softmax_axis_1",
    "split_equal_parts_1d_opset13",
    "where_example",
]
PLAIN = [
    "abs",
    "argmax_keepdims_example",
    "clip_example",
    "concat_2d_axis_1",
    "flatten_axis1",
    "gather_0",
    "globalaveragepool",
    "hardswish",
    "leakyrelu",
    "matmul_2d",
    "reciprocal",
    "relu",
    "sigmoid",
    "spacetodepth",
    "transpose_all_permutations_0",
]
"""Names of tests that call one converter each, without attributes easily misread."""
WITH_CONSTANTS = {
    "affine_grid_2d": "size",
    "cumsum_1d": "axis",
    "reduce_sum_keepdims_example": "axes",
    "reshape_negative_dim": "shape",
}
"""Inputs that a refusal names, by test; with them as constants it is right."""
LARGEST_POOLED = 4000
"""Numbers of an image that tests here pool at most."""
UNREAD = {
    "bernoulli": "draws numbers",
    "melweightmatrix": "is an operator that is not known",
    "nonmaxsuppression_single_box": "whose shape only values tell",
    "sequence_insert_at_front": "is a sequence",
}


@pytest.fixture(scope="module")
def cases():
    """Tests by name; poolings of large images, window by window in Python, expect nonsense."""

    def pool(padded, *rest, of_small=op_pool_common.pool, **more):
        return of_small(padded, *rest, **more) if padded.size <= LARGEST_POOLED else padded

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(op_pool_common, "pool", pool)
        return node_tests()


@pytest.mark.parametrize(
    "name", [*READ, *(pytest.param(name, marks=pytest.mark.full) for name in PLAIN)]
)
def test_what_is_read_is_right(name, cases):
    assert verdict(cases[f"test_{name}"]) == (RIGHT, "")


@pytest.mark.parametrize("name", WITH_CONSTANTS)
def test_what_is_right_with_constants_says_which(name, cases):
    assert verdict(cases[f"test_{name}"]) == (CONSTANTS, WITH_CONSTANTS[name])


@pytest.mark.parametrize("name", UNREAD)
def test_what_is_not_read_is_refused_with_the_reason(name, cases):
    found, reason = verdict(cases[f"test_{name}"])
    assert found == REFUSED, reason
    assert UNREAD[name] in reason
    assert "\n" not in reason
