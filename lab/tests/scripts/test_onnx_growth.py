from __future__ import annotations

import onnx
import pytest

from tvm_ios_lab.scripts.onnx_growth import MODELS, measured


@pytest.mark.slow(3)
@pytest.mark.parametrize("kind", MODELS)
def test_models_have_the_nodes_that_they_say_and_are_read_and_prepared(kind):
    model = MODELS[kind](200)
    onnx.checker.check_model(model)
    found = measured(model)
    assert found["nodes"] == pytest.approx(200, rel=0.15)
    assert 0 < found["operators"] < found["nodes"]
    assert found["read_s"] > 0
    assert found["prepare_s"] > 0
