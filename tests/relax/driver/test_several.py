"""Several models, several shapes, and the rest that onnxruntime runs, in Relax."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_ios
from tests.onnx.cut_models import ENDS, inputs_of
from tests.onnx.forms import outputs_of
from tests.onnx_models import two_ways
from tests.relax.driver.test_tune import OWN_KERNELS
from tests.relax.networks import TARGET
from tvm_ios.driver.several import joined
from tvm_ios.errors import ModelError, OptionError
from tvm_ios.models import squeezenet
from tvm_ios.runtime.artifact.footer import read_footer
from tvm_ios.runtime.base.module_attributes import parts_of, rest_of


def dense(units=3, width=4, name="x"):
    """A product with weights that are a parameter, which are all the number of units."""
    x = relax.Var(name, relax.TensorType((1, width), "float32"))
    weight = relax.Var("weight", relax.TensorType((width, units), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, weight]):
        product = builder.emit(relax.op.matmul(x, weight))
        kernel = builder.emit_te(tvm.topi.nn.relu, product)
        builder.emit_func_output(kernel)
    return builder.get(), {"weight": np.full((width, units), units, "float32")}


def split():
    """Halves of an input, as a tuple."""
    x = relax.Var("x", relax.TensorType((1, 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.split(x, 2, axis=1)))
    return builder.get(), {}


def test_inputs_are_named_after_parts_and_outputs_follow_them():
    network = joined({"tall": dense(), "cut": split(), "flat": dense(units=2)})
    relax.analysis.well_formed(network)  # raises where it is not
    assert sorted(each.name_hint for each in network.get_global_vars()) == [
        "flat__relu",
        "main",
        "tall__relu",
    ]
    assert [each.name for each in network["main"].params] == ["tall__x", "cut__x", "flat__x"]
    assert [(each.name, each.inputs, each.outputs) for each in parts_of(network)] == [
        ("tall", ("tall__x",), (0,)),
        ("cut", ("cut__x",), (1, 2)),
        ("flat", ("flat__x",), (3,)),
    ]
    shared = joined([dense(), dense(units=2)], share="x")
    assert [each.inputs for each in parts_of(shared)] == [("x",), ("x",)]
    with pytest.raises(OptionError, match=r"'x' is to be shared, but its shapes or types differ"):
        joined([dense(), dense(width=5)], share="x")
    with pytest.raises(ModelError, match="part 'b': main has no parameter 'weights'"):
        joined({"a": dense(), "b": (dense()[0], {"weights": np.zeros(3)})})


@pytest.mark.slow(3)
def test_parts_are_tuned_together_and_run_alone(tmp_path):
    models = {"a": dense(), "b": dense(units=2)}
    model = tvm_ios.tune(
        models, None, TARGET, lanes=2, database=tmp_path / "db", options=OWN_KERNELS
    )
    assert model.report().evidence.parts is not None
    model.export_library(tmp_path / "both.so")
    x, y = (np.full((1, 4), value, "float32") for value in (1, 2))
    with model.executor() as here, tvm_ios.load(tmp_path / "both.so") as loaded:
        for executor in (here, loaded):
            assert [part.name for part in executor.parts] == ["a", "b"]
            executor.run(a__x=x, b__x=y)
            assert executor.get_output("a").numpy().tolist() == [[12.0] * 3]
            assert executor.get_output("b").numpy().tolist() == [[16.0] * 2]
            executor.run(parts="b", b__x=x)
            assert executor.get_output("b").numpy().tolist() == [[8.0] * 2]


@pytest.mark.slow
def test_deadlines_name_parts(tmp_path):
    given = {"lanes": 1, "database": tmp_path / "db", "options": OWN_KERNELS}
    models = {"a": dense(), "b": dense(units=2)}
    report = tvm_ios.tune(models, None, TARGET, deadlines_ms={"a": 1000.0}, **given).report()
    assert report.evidence.kept
    with pytest.raises(OptionError, match="there is no part 'c'; parts are a, b"):
        tvm_ios.tune(models, None, TARGET, deadlines_ms={"c": 1.0}, **given)


@pytest.mark.slow(2)
def test_a_model_runs_in_several_shapes(tmp_path):
    shapes = [{"x": (1, 8, 6, 6)}, {"x": (3, 8, 6, 6)}]
    options = replace(OWN_KERNELS, search=replace(OWN_KERNELS.search, list_only=True))
    model = tvm_ios.tune_shapes(
        two_ways(), shapes, TARGET, lanes=1, database=tmp_path / "db", options=options
    )
    model.export_library(tmp_path / "net.so")
    random = np.random.default_rng(1)
    with model.executor() as here, tvm_ios.load(tmp_path / "net.so") as loaded:
        for batch in (3, 1):
            value = random.standard_normal((batch, 8, 6, 6)).astype("float32")
            (wanted,) = outputs_of(two_ways(batch=batch), {"x": value}, by="runtime")
            for executor in (here, loaded):
                executor.run(x=value)
                np.testing.assert_allclose(
                    executor.get_output(0).numpy(), wanted, rtol=1e-4, atol=1e-5
                )
    weights = [each.kernels.params for each in model.models.values()]
    assert len(model.kernels.params) < sum(map(len, weights))  # equal ones are there once
    with pytest.raises(OptionError, match="is given twice"):
        tvm_ios.tune_shapes([squeezenet(image_size=32), squeezenet(image_size=32)])


@pytest.mark.parametrize("kind", ENDS)
def test_onnxruntime_runs_what_relax_cannot(kind, tmp_path):
    model, inputs = ENDS[kind], inputs_of(ENDS[kind])
    mod, params = tvm_ios.from_onnx(model, rest="onnxruntime")
    assert rest_of(mod) is not None
    compiled = tvm_ios.compile_schedule(mod, params, TARGET, lanes=1)
    compiled.export_library(tmp_path / "net.so")
    assert read_footer(tmp_path / "net.so").identity
    wanted = outputs_of(model, inputs, by="runtime")
    with compiled.executor() as here, tvm_ios.load(tmp_path / "net.so") as loaded:
        for executor in (here, loaded):
            executor.run(**inputs)
            for number, value in enumerate(wanted):
                found = executor.get_output(number).numpy()
                assert found.dtype == value.dtype
                np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-6)


def test_a_rest_is_refused_where_nobody_is_to_run_it():
    with pytest.raises(ModelError, match="or have onnxruntime run it and all behind it"):
        tvm_ios.from_onnx(ENDS["places"])
