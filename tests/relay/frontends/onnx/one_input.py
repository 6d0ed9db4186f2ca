"""Models of a few nodes on one input, read by the importer, and what onnx's reference says."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from tvm import relay

from tests.onnx.one_input import SHAPE, model
from tvm_ios.driver.model_source import from_onnx
from tvm_ios.errors import ModelError

__all__ = ["SHAPE", "answers", "assert_as_the_reference", "model", "read", "refused"]


def read(made, shape=SHAPE):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a reason is in the error, and nowhere else
        module, params = from_onnx(made, {"x": shape})
    assert params == {}
    return module


def refused(made, shape=SHAPE):
    with pytest.raises(ModelError) as caught:
        read(made, shape)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def answers(module, *values):
    got = relay.create_executor("graph", module, target="llvm -opt-level=0").evaluate()(*values)
    return [each.numpy() for each in (got if isinstance(got, list) else [got])]


def assert_as_the_reference(made, shape=SHAPE):
    value = np.random.default_rng(0).standard_normal(shape).astype("float32")
    expected = ReferenceEvaluator(made).run(None, {"x": value})
    found = answers(read(made, shape), value)
    assert len(found) == len(expected)
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
