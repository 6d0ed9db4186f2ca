"""Several models as users give them: named, with parameters and shapes of their own."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_ios
from tests.relay.frontends.test_joined import dense
from tvm_ios import InputShapes
from tvm_ios.driver.several import joined
from tvm_ios.errors import ModelError, OptionError
from tvm_ios.onnx.rest import Rest
from tvm_ios.runtime.base.module_attributes import parts_of, with_rest

TARGET = "llvm -opt-level=0"


def names(module):
    return [part.name for part in parts_of(module)]


def test_parameters_come_as_the_models_do():
    (one, weights), pair = dense(), dense(units=2)
    assert names(joined([one, pair], [weights, None])) == ["model_0", "model_1"]
    assert names(joined({"a": one, "b": pair}, {"a": weights})) == ["a", "b"]
    with pytest.raises(OptionError, match="there are 2 models; give params as a list of 2"):
        joined([one, pair], weights["weight"])
    with pytest.raises(OptionError, match="params has 'c', which is no part; .* of a, b"):
        joined({"a": one, "b": pair}, {"c": weights})


def test_a_shape_of_no_part_is_refused():
    shapes = InputShapes(shapes={"x": (1, 3)})
    with pytest.raises(OptionError, match="input 'x', which is of no part; .* parts are a, b"):
        joined({"a": dense(), "b": dense()}, shapes=shapes)


def test_a_part_that_onnxruntime_ends_is_refused():
    mod, _ = dense()
    rest = Rest(name="net.onnx", text="1 node is run", fronts=(), outputs=(), model=b"")
    with pytest.raises(ModelError, match="part 'b': 1 node is run, which is for single models"):
        joined({"a": dense(), "b": (with_rest(mod, rest), {})})


@pytest.fixture(scope="module")
def compiled():
    network = joined({"a": dense(), "b": dense(units=2)})
    return tvm_ios.compile_schedule(network, {}, TARGET, lanes=2)


@pytest.mark.slow(2)
def test_parts_run_together_and_alone(compiled, tmp_path):
    path = tmp_path / "both.so"
    compiled.export_library(path)
    x, y = (np.full((1, 4), value, "float32") for value in (1, 2))
    with compiled.executor() as here, tvm_ios.load(path) as loaded:
        for executor in (here, loaded):
            assert [part.name for part in executor.parts] == ["a", "b"]
            executor.run(a__x=x, b__x=y)
            assert executor.get_output("a").numpy().tolist() == [[12.0] * 3]
            assert executor.get_output("b").numpy().tolist() == [[16.0] * 2]
            executor.run(parts="b", b__x=x)
            assert executor.get_output("b").numpy().tolist() == [[8.0] * 2]
            executor.set_input("a__x", y)
            executor.run(parts=("b",))
            assert executor.get_output("a").numpy().tolist() == [[12.0] * 3]  # as it was
            executor.run(parts=["b", "a"])
            assert executor.get_output(0).numpy().tolist() == [[24.0] * 3]
            alone = {event.operator for event in executor.trace(parts="a")}
            whole = {event.operator for event in executor.trace()}
            assert alone < whole
            # So many runs that some end before all that they skip was looked at.
            assert executor.time_ns(2000, parts="a") > 0


@pytest.mark.slow(1)
def test_unknown_parts_and_outputs_are_one_line(compiled):
    with compiled.executor() as executor:
        with pytest.raises(OptionError, match="no part 'c'; parts are a, b"):
            executor.run(parts="c")
        with pytest.raises(tvm_ios.TvmIosError, match="no output 'c'; .* 0 to 1 and named a, b"):
            executor.get_output("c")


def test_share_is_for_several_models():
    with pytest.raises(OptionError, match="share is 'x', but there is one model"):
        tvm_ios.tune(*dense(), share="x")
