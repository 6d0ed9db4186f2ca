"""The normal form of ONNX, read by TVM's own importer."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from tests.relax.onnx_networks import branches, model_of, value_of
from tvm_ios.driver.onnx_file import OnnxFile
from tvm_ios.errors import ModelError
from tvm_ios.relax.frontends import onnx as frontend
from tvm_ios.relax.frontends.onnx import import_onnx
from tvm_ios.relax.ir import call_name, main_of, name_of, operator_calls, static_tensors

onnx = pytest.importorskip("onnx", reason="onnx is not installed")


def test_weights_are_constants_and_shapes_are_known():
    file = OnnxFile.open(branches(name="input.1"))
    main = main_of(import_onnx(file.name, file.model))
    assert [name_of(each) for each in main.params] == ["input.1"]
    (result,) = static_tensors(main.ret_ty)
    assert (result.shape, result.dtype) == ((1, 5), "float32")


def unknown():
    """A node that TVM's importer has no converter for, with a name."""
    node = onnx.helper.make_node("Det", ["x"], ["y"], name="volume")
    return model_of([node], value_of("x", 4, 4), value_of("y"))


def elsewhere():
    """A node of somebody's own domain."""
    node = onnx.helper.make_node("Fold", ["x"], ["y"], name="mine", domain="org.example")
    return model_of([node], value_of("x", 4), value_of("y", 4), domain="org.example")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (unknown, r"the model: .*Det.*"),
        (elsewhere, r"the model: node 'mine' \(org.example.Fold\) is of the domain 'org.example'"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(model, message, monkeypatch):
    monkeypatch.setattr(OnnxFile, "_require_known", lambda _: None)
    file = OnnxFile.open(model())
    with pytest.raises(ModelError, match=message) as caught:
        import_onnx(file.name, file.model)
    assert "\n" not in str(caught.value)


def masked():
    """Rows that are asked whether all in them is -inf."""
    make = onnx.helper.make_node
    nodes = [
        make("ReduceMax", ["x"], ["most"], axes=[1], keepdims=1),
        make("IsInf", ["most"], ["nothing"]),
        make("Where", ["nothing", "most", "x"], ["y"]),
    ]
    return model_of(nodes, value_of("x", 4, 4), value_of("y", 4, 4))


def remainder():
    """Remainders by values of the run."""
    node = onnx.helper.make_node("Mod", ["x", "x"], ["y"], fmod=1)
    return model_of([node], value_of("x", 4), value_of("y", 4))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (masked, r"\(ReduceMax\) is compared with infinity, .*; or tune the model in Relay"),
        (remainder, r"\(Mod\) may divide by infinity, .*; or tune the model in Relay"),
    ],
)
def test_what_tvm_gets_wrong_is_refused(model, message):
    file = OnnxFile.open(model())
    with pytest.raises(ModelError, match=message):
        import_onnx(file.name, file.model)


def test_results_of_other_types_are_refused(monkeypatch):
    file = OnnxFile.open(branches())
    made = import_onnx(file.name, file.model)
    monkeypatch.setattr(frontend.OperatorImporter, "from_onnx", lambda *_, **__: made)
    model = OnnxFile.open(branches(units=6)).model
    with pytest.raises(ModelError, match=r"onnx says \[\(\(1, 6\), 'float32'\)\]"):
        import_onnx("net.onnx", model)


@pytest.mark.parametrize(
    ("dtype", "bounds", "operators"),
    [
        ("float32", (0, 6), ["clip"]),
        ("float32", (-np.inf, 1), ["clip"]),
        ("int32", (0, 6), ["call_tir", "call_tir"]),
    ],
)
def test_a_clip_is_one_operator(dtype, bounds, operators):
    make = onnx.helper
    element = make.np_dtype_to_tensor_dtype(np.dtype(dtype))
    values = [make.make_tensor_value_info(name, element, [4]) for name in "xy"]
    rows = [
        onnx.numpy_helper.from_array(np.array(bound, dtype), name)
        for bound, name in zip(bounds, ("low", "high"), strict=True)
    ]
    node = make.make_node("Clip", ["x", "low", "high"], ["y"])
    file = OnnxFile.open(model_of([node], *values, rows))
    main = main_of(import_onnx(file.name, file.model))
    assert [call_name(each) for each in operator_calls(main)] == [f"relax.{n}" for n in operators]


@pytest.mark.parametrize(("name", "operator"), [("Max", "maximum"), ("Min", "minimum")])
def test_an_extreme_of_two_is_one_operator(name, operator):
    make = onnx.helper
    values = [make.make_tensor_value_info(each, onnx.TensorProto.FLOAT, [4]) for each in "xy"]
    rows = [onnx.numpy_helper.from_array(np.zeros((), "float32"), "zero")]
    file = OnnxFile.open(model_of([make.make_node(name, ["x", "zero"], ["y"])], *values, rows))
    main = main_of(import_onnx(file.name, file.model))
    assert [call_name(each) for each in operator_calls(main)] == [f"relax.{operator}"]


@pytest.mark.slow(1)
def test_the_virtual_machine_has_the_answer_of_onnxruntime():
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model = branches()
    value = np.random.default_rng(1).standard_normal((1, 8, 10, 10)).astype("float32")
    file = OnnxFile.open(model)
    made = tvm.compile(import_onnx(file.name, file.model), target="llvm")
    found = tvm.relax.VirtualMachine(made, tvm.cpu())["main"](tvm.runtime.tensor(value))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    wanted = session.run(None, {"x": value})[0]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)
