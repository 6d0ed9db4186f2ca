"""Models as users name them."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import tvm_ios
from tests.onnx_models import two_ways, write_two_ways
from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios.driver.model_source import ModelSource
from tvm_ios.errors import ModelError, OptionError


def test_modules_pairs_and_files_are_models(fork, tmp_path):
    mod, params = fork
    bare = ModelSource.of(mod)
    assert (bare.name, bare.mod, bare.params) == ("model", mod, None)
    assert ModelSource.of(mod, params).params is params
    assert ModelSource.of((mod, params)).params is params
    path = tmp_path / "my.net.json"
    path.write_text(tvm.ir.save_json(mod))
    beside = tmp_path / "net.params"
    beside.write_bytes(tvm.runtime.save_param_dict(params))
    read = ModelSource.of(path, beside)
    assert read.name == "my.net"
    assert set(read.params) == set(params)
    assert tvm.ir.structural_equal(read.mod, mod)


def test_networks_have_names_and_weights_of_their_own():
    found = ModelSource.of("nasnet-small")
    assert found.name == "nasnet-small"
    assert found.params
    with pytest.raises(OptionError, match="nasnet-small has weights of its own"):
        ModelSource.of("nasnet-small", "x.params")


def test_what_is_no_model_is_refused(fork):
    with pytest.raises(OptionError, match="a pair with parameters; leave out params"):
        ModelSource.of(fork, fork[1])
    with pytest.raises(ModelError, match=r"; did you mean 'squeezenet'\?$"):
        ModelSource.of("squeezenett")
    with pytest.raises(ModelError, match="the model is a tuple; give a module of TVM"):
        ModelSource.of(("squeezenet", {}))


def shape_of(mod):
    return tuple(int(extent) for extent in mod["main"].params[0].type_annotation.shape)


def test_onnx_is_a_model_as_a_file_and_in_memory(tmp_path):
    path, shapes = write_two_ways(tmp_path), InputShapes(batch_size=2)
    read = ModelSource.of(path, shapes=shapes)
    assert (read.name, shape_of(read.mod)) == ("two.ways", (2, 8, 6, 6))
    made = two_ways()
    before = made.SerializeToString()
    held = ModelSource.of(made, shapes=shapes)
    assert held.name == "two_ways"
    assert tvm.ir.structural_equal(held.mod, read.mod)
    assert made.SerializeToString() == before  # the caller's, whatever TVM writes into it
    mod, params = tvm_ios.from_onnx(path, {"x": (2, 8, 6, 6)})
    assert params == {}
    assert tvm.ir.structural_equal(mod, read.mod)
    with pytest.raises(OptionError, match=r"two\.ways\.onnx leaves open dimension 0 of 'x'"):
        tvm_ios.from_onnx(path)


def test_weights_may_be_inputs_on_purpose(tmp_path):
    from onnx import TensorProto, helper

    x, w, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", (1, 8, 6, 6)), ("w", (8, 8, 1, 1)), ("y", (1, 8, 6, 6)))
    )
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"])], "one", [x, w], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    mod, params = tvm_ios.from_onnx(model)
    assert params is ModelSource.of(model).params is ModelSource.of(mod).params is None
    compiled = tvm_ios.compile_schedule(mod, params, "llvm -opt-level=0")
    assert {entry.name for entry in compiled.plan.inputs} == {"x", "w"}


@pytest.mark.slow(1)
def test_what_was_imported_computes_what_the_reference_does(tmp_path):
    from onnx.reference import ReferenceEvaluator

    mod, params = tvm_ios.from_onnx(two_ways(), batch_size=1)
    value = np.random.default_rng(1).standard_normal((1, 8, 6, 6)).astype("float32")
    with tvm_ios.compile_schedule(mod, params, "llvm -opt-level=0").executor() as executor:
        executor.run(x=value)
        found = executor.get_output(0).numpy()
    (expected,) = ReferenceEvaluator(two_ways()).run(None, {"x": value})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_shapes_are_for_what_leaves_them_open(fork, tmp_path):
    assert shape_of(ModelSource.of("nasnet-small", shapes=InputShapes(batch_size=2)).mod)[0] == 2
    with_shapes = InputShapes(shapes={"data": (1, 3)})
    path = tmp_path / "net.json"
    path.write_text(tvm.ir.save_json(fork[0]))
    for model, name in ((fork, "a module"), (fork[0], "a module"), (path, str(path))):
        with pytest.raises(OptionError, match="has shapes of its own; leave out --inp") as caught:
            ModelSource.of(model, shapes=with_shapes)
        assert str(caught.value).startswith(name)
    with pytest.raises(OptionError, match="nasnet-small has shapes of its own"):
        ModelSource.of("nasnet-small", shapes=with_shapes)
