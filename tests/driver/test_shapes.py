"""One model in several shapes, from ONNX or Relay: early models, and kept ones for equal calls."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_ios
from tests.driver.conftest import TARGET
from tests.driver.test_tune import QUICK
from tests.onnx_models import two_ways, write_two_ways
from tests.relay.frontends.test_joined import dense
from tvm_ios.driver.shapes import tune_shapes
from tvm_ios.errors import ModelError, OptionError
from tvm_ios.onnx.rest import Rest
from tvm_ios.runtime.base.module_attributes import with_rest

SHAPES = [{"x": (1, 8, 6, 6)}, {"x": (3, 8, 6, 6)}]


def tuned(model, shapes=None, **given):
    return tune_shapes(model, shapes, TARGET, **({"lanes": 1, "options": QUICK} | given))


def ran(executor, batch):
    executor.run(x=np.full((batch, 8, 6, 6), batch, "float32"))
    return executor.get_output(0).numpy()


@pytest.mark.slow(5)
def test_a_model_in_onnx_runs_in_each_shape(tmp_path, fresh_cache, monkeypatch):
    monkeypatch.delenv("TVM_IOS_KEPT_MIB")
    steps = []
    model = tuned(write_two_ways(tmp_path), SHAPES, progress=steps.append)
    assert list(model.models) == ["x:[1,8,6,6]", "x:[3,8,6,6]"]
    early = [step for step in steps if step.model is not None]
    assert {tuple(step.model.models) for step in early} == {
        ("x:[1,8,6,6]",),
        ("x:[1,8,6,6]", "x:[3,8,6,6]"),
    }
    assert early[0].detail.startswith("shape 1 of 2: ")
    assert [step.elapsed_s for step in steps] == sorted(step.elapsed_s for step in steps)
    path = tmp_path / "early.so"
    early[0].model.export_library(path)
    with tvm_ios.load(path) as first, model.executor() as executor:
        assert [each.name for each in first.shapes] == ["x:[1,8,6,6]"]
        np.testing.assert_allclose(ran(executor, 1), ran(first, 1), rtol=1e-5)
        wanted = ran(executor, 3)
        assert wanted.shape == (3, 24, 6, 6)
    again = tuned(two_ways(), SHAPES)
    assert again.kept_as == model.kept_as != ""
    assert all(each.was_loaded for each in again.models.values())
    for each in (again, replace(again, file=tmp_path / "trimmed.so")):
        with each.executor() as executor:
            np.testing.assert_array_equal(ran(executor, 3), wanted)


@pytest.mark.slow(3)
def test_modules_of_equal_weights_are_shapes_of_one_model():
    model = tuned([dense_of(1), (dense_of(2), {})])
    report = model.report()
    _, _, *rows, weights, _ = report.summary().splitlines()
    assert [row.split()[0] for row in rows] == list(report.reports) == ["x:[1,4]", "x:[2,4]"]
    assert weights == "weights of 2 shapes: 0.0 MB, in a file for each 0.0 MB"
    assert report.weight_bytes * 2 == report.separate_bytes == 96
    for name, each in report.reports.items():
        assert f"{name}\n{each.as_text()}" in report.as_text()
    told = json.loads(report.to_json())
    assert [each["kept"] for each in told["shapes"].values()] == [row.split()[3] for row in rows]


def dense_of(rows):
    x = relay.var("x", shape=(rows, 4))
    weight = relay.const(np.ones((3, 4), "float32"))
    return tvm.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, weight)))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"model": [dense(), dense()]}, r"the shape x:\[1,4\] is given twice"),
        ({"model": [dense(), dense(name="y", width=5)]}, "inputs are x here and y there"),
        ({"model": dense()}, "one model is given and no input_shapes"),
        ({"model": [dense(), dense(width=5)], "target": "cuda -arch=sm_50"}, "for the CPU of this"),
        ({"model": [dense(), dense(width=5)], "inputs": {}}, "inputs are given, which fit one"),
    ],
)
def test_what_is_not_one_model_in_shapes_is_one_line(given, told):
    with pytest.raises(OptionError, match=told):
        tune_shapes(**given)


def test_a_rest_for_onnxruntime_is_refused():
    rest = Rest(name="net", text="one node", fronts=("y",), outputs=("y",), model=b"")
    with pytest.raises(ModelError, match="a rest that onnxruntime runs, or parts"):
        tune_shapes([with_rest(dense()[0], rest), dense(width=5)])
