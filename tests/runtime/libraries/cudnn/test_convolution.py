"""Convolutions as data: shapes, text, and JSON without loss."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.runtime.libraries.cudnn.calls import CALL, CONVOLUTION
from tvm_ios.runtime.libraries.cudnn.convolution import CudnnAlgorithm, CudnnCall
from tvm_ios.support.stored_value import parse_json


@pytest.mark.parametrize(
    ("changes", "shape"),
    [
        ({}, (2, 24, 5, 7)),
        ({"strides": (3, 4)}, (2, 24, 3, 2)),
        ({"padding": (0, 0)}, (2, 24, 3, 5)),
        ({"dilation": (2, 2)}, (2, 24, 3, 5)),
    ],
)
def test_output_shapes(changes, shape):
    assert replace(CONVOLUTION, **changes).output_shape == shape


def test_all_that_decides_the_algorithm_is_in_the_text():
    assert CONVOLUTION.as_text() == (
        "conv+bias float32 x=2x16x9x7 w=24x4x5x3 strides=2x1 padding=2x1 dilation=1x1 groups=4"
    )
    others = [
        {"relu": True},
        {"bias": False},
        {"tf32": True},
        {"dtype": "float16"},
        {"groups": 2},
        {"input_shape": (1, 16, 9, 7)},
    ]
    texts = {replace(CONVOLUTION, **change).as_text() for change in others}
    assert len(texts | {CONVOLUTION.as_text()}) == len(others) + 1


@pytest.mark.parametrize("algorithm", [None, CudnnAlgorithm(number=6, device="a", version=91002)])
def test_json_reads_back_the_same_call(algorithm):
    call = replace(CALL, algorithm=algorithm)
    assert CudnnCall.from_data(parse_json(json.dumps(call.to_data()), "the call")) == call
