"""ONNX files are read without TVM; what is wrong with one is named with the file."""

from __future__ import annotations

import os
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvm_ios.driver import onnx_file
from tvm_ios.driver.input_shapes import InputShapes
from tvm_ios.driver.onnx_file import OnnxFile, is_onnx_model
from tvm_ios.errors import ModelError, OptionError

WEIGHTS = np.arange(8, dtype="float32").reshape(4, 2)


def model(shape=("batch", 4), nodes=None, **more):
    """A product of ``x`` and eight weights."""
    nodes = nodes or [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (shape[0], 2))],
        [numpy_helper.from_array(WEIGHTS, "w")],
        **more,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def saved(tmp_path, made, **how):
    path = tmp_path / "net.onnx"
    onnx.save_model(made, path, **how)
    return path


def test_files_and_models_get_static_shapes(tmp_path):
    path = saved(tmp_path, model())
    found = OnnxFile.open(path, InputShapes(batch_size=3))
    assert (found.name, dict(found.shapes)) == (str(path), {"x": (3, 4)})
    made = model(shape=(2, 4))
    assert is_onnx_model(made)
    assert not is_onnx_model(made.graph)
    assert OnnxFile.open(made).shapes == {"x": (2, 4)}


@pytest.mark.parametrize("extent", [0, -1])
def test_an_extent_below_one_is_open(extent):
    with pytest.raises(OptionError, match="the model leaves open dimension 0 of 'x'; give"):
        OnnxFile.open(model(shape=(extent, 4)))


def test_sparse_weights_are_read():
    made = model(shape=(2, 4))
    del made.graph.initializer[:]
    values, places = np.array([3], "float32"), np.array([5], "int64")
    made.graph.sparse_initializer.append(
        helper.make_sparse_tensor(
            numpy_helper.from_array(values, "w"), numpy_helper.from_array(places, "places"), (4, 2)
        )
    )
    (weight,) = OnnxFile.open(made).model.graph.initializers.values()
    assert weight.const_value.numpy().ravel().tolist() == [0, 0, 0, 0, 0, 3, 0, 0]
    assert made.graph.sparse_initializer  # the caller's model stays as it is


def test_a_question_mark_is_no_name():
    made = model(shape=("?", "?"))
    assert OnnxFile.open(made, InputShapes(shapes={"x": (3, 4)})).shapes == {"x": (3, 4)}


def test_an_input_that_is_a_weight_is_no_input():
    made = model(shape=(1, 4))
    made.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, ("a", "b")))
    assert OnnxFile.open(made).shapes == {"x": (1, 4)}


def test_an_output_needs_no_shape():
    made = model(shape=(1, 4))
    made.graph.output[0].type.tensor_type.ClearField("shape")
    assert OnnxFile.open(made).shapes == {"x": (1, 4)}
    assert not made.graph.output[0].type.tensor_type.HasField("shape")  # it is the caller's


def test_weights_in_other_files_are_read(tmp_path):
    path = saved(tmp_path, model(), save_as_external_data=True, location="w.bin", size_threshold=0)
    found = OnnxFile.open(path, InputShapes(batch_size=1))
    (weights,) = found.model.graph.initializers.values()
    np.testing.assert_array_equal(weights.const_value.numpy(), WEIGHTS)
    (tmp_path / "w.bin").write_bytes(b"short")
    with pytest.raises(ModelError, match=r"net\.onnx: the weights 'w' cannot be read"):
        OnnxFile.open(path, InputShapes(batch_size=1))
    (tmp_path / "w.bin").write_bytes(bytes(64))
    made = onnx.load(path, load_external_data=False)
    for entry in made.graph.initializer[0].external_data:
        entry.value = "16" if entry.key == "length" else entry.value
    onnx.save_model(made, path)
    with pytest.raises(ModelError, match=r"net\.onnx: the weights 'w' have 16 bytes in their file"):
        OnnxFile.open(path, InputShapes(batch_size=1))
    (tmp_path / "w.bin").unlink()
    with pytest.raises(
        ModelError, match=r"net\.onnx has the weights 'w' in .*w\.bin, which is not there; put it"
    ):
        OnnxFile.open(path, InputShapes(batch_size=1))
    with pytest.raises(ModelError, match=r"has weights in other files, such as that of 'w'; give"):
        OnnxFile.open(onnx.load(path, load_external_data=False), InputShapes(batch_size=1))


@pytest.mark.parametrize(("key", "value"), [("offset", "-1"), ("length", "abc")])
def test_weights_at_no_place_are_named(key, value, tmp_path):
    path = saved(tmp_path, model(), save_as_external_data=True, location="w.bin", size_threshold=0)
    made = onnx.load(path, load_external_data=False)
    for entry in made.graph.initializer[0].external_data:
        entry.value = value if entry.key == key else entry.value
    onnx.save_model(made, path)
    with pytest.raises(ModelError, match=r"net\.onnx: the weights 'w' cannot be read: .*" + value):
        OnnxFile.open(path, InputShapes(batch_size=1))


def test_weights_outside_of_the_folder_are_refused(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    path = saved(folder, model(), save_as_external_data=True, location="w.bin", size_threshold=0)
    (folder / "w.bin").rename(tmp_path / "w.bin")
    (folder / "w.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(ModelError, match=r"net\.onnx: the weights 'w' cannot be read: .*symlink"):
        OnnxFile.open(path, InputShapes(batch_size=1))


def test_shapes_come_before_weights(tmp_path):
    path = saved(tmp_path, model(), save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(OptionError, match="leaves open dimension 0"):
        OnnxFile.open(path)


def test_models_above_two_gibibytes_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 3 * 2**30)  # a hole, of which the disk holds nothing
    reason = r"is a model of 3\.0 GiB, and protocol buffers hold at most 2 GiB; save its weights in"
    with pytest.raises(ModelError, match=r"large\.onnx " + reason):
        OnnxFile.open(path)
    apart = saved(tmp_path, model(), save_as_external_data=True, location="w.bin", size_threshold=0)
    monkeypatch.setattr(onnx_file, "MOST_BYTES", 16)
    with pytest.raises(ModelError, match="protocol buffers"):
        OnnxFile.open(model(shape=(1, 4)))
    monkeypatch.setattr(onnx_file, "MOST_BYTES", apart.stat().st_size)
    found = OnnxFile.open(apart, InputShapes(batch_size=1))  # the limit is that of the one file
    assert found.model.graph.initializers["w"].const_value.nbytes == WEIGHTS.nbytes


@pytest.mark.slow
def test_weights_above_two_gibibytes_stay_in_their_file(tmp_path):
    path = saved(tmp_path, model(), save_as_external_data=True, location="w.bin", size_threshold=0)
    columns = 2**29 + 1
    made = onnx.load(path, load_external_data=False)
    made.graph.initializer[0].dims[1] = columns
    for entry in made.graph.initializer[0].external_data:
        entry.value = str(16 * columns) if entry.key == "length" else entry.value
    onnx.save_model(made, path)
    os.truncate(tmp_path / "w.bin", 16 * columns)  # a hole, of which the disk holds nothing
    found = OnnxFile.open(path, InputShapes(batch_size=1))
    weights = found.model.graph.initializers["w"].const_value.numpy()
    assert weights.shape == (4, columns)
    assert weights[0, :2].tolist() == [0, 1]


@pytest.mark.parametrize("content", [b"", b"hello" * 20])
def test_what_is_no_onnx_is_named(content, tmp_path):
    (tmp_path / "net.onnx").write_bytes(content)
    with pytest.raises(ModelError, match=r"net\.onnx cannot be read as ONNX: .") as caught:
        OnnxFile.open(tmp_path / "net.onnx")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ModelError, match=r"cannot read .*net\.onnx"):
        OnnxFile.open(tmp_path / "net.onnx")


def test_what_the_checker_refuses_is_one_line():
    made = model((1, 4), [helper.make_node("MatMul", ["x", "nobody"], ["y"], name="product")])
    with pytest.raises(ModelError, match="the model is no valid ONNX: .*nobody") as caught:
        OnnxFile.open(made)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bad", ["a\nb", "a\0", "\x1b[31m", "a\x85", "a\u2028b"])
@pytest.mark.parametrize("place", ["input", "dimension", "node", "operator", "weight", "subgraph"])
def test_names_with_control_characters_are_refused(place, bad):
    made = model((1, 4))
    node, value = made.graph.node[0], made.graph.input[0]
    match place:
        case "input":
            value.name = bad
        case "dimension":
            value.type.tensor_type.shape.dim[0].dim_param = bad
        case "node":
            node.name = bad
        case "operator":
            node.op_type = bad
        case "weight":
            made.graph.initializer[0].name = bad
        case "subgraph":
            branch = helper.make_graph([helper.make_node("Neg", ["x"], [bad])], "branch", [], [])
            node.attribute.append(helper.make_attribute("then_branch", branch))
    with pytest.raises(ModelError) as caught:
        OnnxFile.open(made)
    assert str(caught.value) == (
        f"the model: the name {bad!r} has control characters or is no text; give it another one"
    )


def test_names_that_are_no_text_are_refused(tmp_path):
    path = saved(tmp_path, model((1, 4)))
    path.write_bytes(path.read_bytes().replace(b"product", b"prod\xff\xfet"))
    with pytest.raises(ModelError, match=r"net\.onnx: the name b'prod\\xff\\xfet' has control"):
        OnnxFile.open(path)


def test_inputs_that_are_no_tensors_are_named():
    made = model((1, 4))
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, (1,))
    sequence = helper.make_value_info("many", helper.make_sequence_type_proto(kind))
    made.graph.input.append(sequence)
    with pytest.raises(ModelError, match="input 'many' is a sequence and no tensor"):
        OnnxFile.open(made)


@pytest.mark.parametrize(
    "given", [InputShapes(batch_size=2**62), InputShapes.parse(f"x:[{2**62},4]")]
)
def test_inputs_beyond_the_memory_are_refused(given):
    with pytest.raises(ModelError) as caught:
        OnnxFile.open(model(), given)
    assert str(caught.value).startswith(
        f"the model: input 'x' is a tensor of shape [{2**62}, 4] and {2**66} bytes, more than the "
    )


def test_other_objects_and_parameters_are_refused(tmp_path):
    with pytest.raises(ModelError, match=r"the model is a int; give a path or an onnx\.ModelProto"):
        OnnxFile.open(3)
    with pytest.raises(ModelError, match=r"net\.onnx holds its own parameters; leave out a\.npz"):
        OnnxFile.open(tmp_path / "net.onnx", params="a.npz")


@pytest.mark.parametrize("package", ["onnx.checker", "onnx_ir"])
def test_a_missing_package_is_named_with_the_command(tmp_path, monkeypatch, package):
    path = saved(tmp_path, model())
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModelError, match=r"needs the package onnx.*pip install 'onnx>="):
        OnnxFile.open(path)
