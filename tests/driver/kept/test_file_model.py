"""Digests of models as files: all bytes count, those of weights beside them, too."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tvm_ios.driver.input_shapes import AS_IN_FILE, InputShapes
from tvm_ios.driver.kept.file_model import file_model_digest


def digest(model, params=None, shapes=AS_IN_FILE):
    return file_model_digest(str(model), params, shapes)


def test_bytes_parameters_shapes_and_batch_count(tmp_path):
    model, params = tmp_path / "net.json", tmp_path / "net.npz"
    model.write_text("{}")
    params.write_bytes(b"1")
    found = [digest(model), digest(model, params), digest(model, shapes=InputShapes(batch_size=2))]
    found.append(digest(model, shapes=InputShapes(shapes={"x": (1, 2)})))
    model.write_text("{ }")
    found.append(digest(model))
    params.write_bytes(b"2")
    found.append(digest(model, params))
    assert len(set(found)) == len(found)


def test_a_network_is_its_name():
    assert digest("resnet-50") == digest("resnet_50") != digest("resnet_18")


def test_what_cannot_be_read_has_no_digest(tmp_path):
    assert digest(tmp_path / "absent.onnx") is None
    (tmp_path / "net.onnx").write_bytes(b"\xff location")
    assert digest(tmp_path / "net.onnx") is None


@pytest.mark.parametrize("where", ["initializer", "attribute"])
def test_weights_in_files_of_their_own_count(tmp_path, where):
    path = tmp_path / "net.onnx"
    tensor = onnx.numpy_helper.from_array(np.ones(300, "float32"), "w")
    constant = onnx.helper.make_node("Constant", [], ["w"], value=tensor)
    add = onnx.helper.make_node("Add", ["x", "w"], ["y"])
    values = [onnx.helper.make_tensor_value_info(name, 1, [300]) for name in "xy"]
    is_node = where == "attribute"
    graph = onnx.helper.make_graph(
        [*([constant] if is_node else []), add],
        "net",
        values[:1],
        values[1:],
        [] if is_node else [tensor],
    )
    onnx.save_model(
        onnx.helper.make_model(graph),
        path,
        save_as_external_data=True,
        location="net.weights",
        size_threshold=0,
        convert_attribute=is_node,
    )
    weights = tmp_path / "net.weights"
    before = digest(path)
    weights.write_bytes(bytes(weights.stat().st_size))
    assert digest(path) not in (None, before)
    weights.unlink()
    assert digest(path) is None
