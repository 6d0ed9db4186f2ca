"""Models of one node, compiled, against onnxruntime."""

from __future__ import annotations

import warnings

import numpy as np
from tvm import relay

from tests.onnx.forms import model_of, outputs_of
from tvm_ios.driver.model_source import from_onnx
from tvm_ios.host import cached_libinfo
from tvm_ios.relay.transforms.layout_text import without_layout_text

__all__ = ["require_as_runtime"]


def require_as_runtime(op_type, inputs, *, by="runtime", rtol=1e-4, atol=1e-5, **more):
    """A model of one node, by ``model_of``'s arguments, computes what onnxruntime does."""
    model = model_of(op_type, inputs, **more)
    wanted = outputs_of(model, inputs, by=by)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module, _ = from_onnx(model, {name: np.shape(value) for name, value in inputs.items()})
    with without_layout_text(), cached_libinfo():
        run = relay.create_executor("graph", module, target="llvm -opt-level=0").evaluate()
    found = run(*inputs.values())
    for got, one in zip(found if isinstance(found, list) else [found], wanted, strict=True):
        assert (got.dtype, tuple(got.shape)) == (str(one.dtype), one.shape)
        np.testing.assert_allclose(got.numpy(), one, rtol=rtol, atol=atol, equal_nan=True)
