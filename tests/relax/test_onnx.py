"""Models of ONNX by TVM's own importer."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import tvm_ios
from tests.relax.networks import TARGET
from tests.relax.onnx_networks import branches
from tvm_ios.passes import ScheduleOperators

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


@pytest.mark.slow
def test_a_model_of_onnx():
    model = branches()
    value = np.random.default_rng(1).standard_normal((1, 8, 10, 10)).astype("float32")
    from tvm.relax.frontend.onnx import from_onnx

    mod = from_onnx(model, keep_params_in_input=False)
    with tvm.transform.PassContext(opt_level=3):
        staged = ScheduleOperators(target=TARGET, scheduler="greedy")(mod)
    with tvm_ios.compile_schedule(staged, target=TARGET).executor() as executor:
        executor.run(x=value)
        found = executor.get_output(0).numpy()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    np.testing.assert_allclose(found, session.run(None, {"x": value})[0], rtol=1e-4, atol=1e-5)
