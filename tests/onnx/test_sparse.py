import numpy as np
import onnx
import onnx.shape_inference
import pytest
from onnx import helper, numpy_helper

from tests.onnx.forms import graph_of
from tvm_ios.errors import ModelError
from tvm_ios.onnx.sparse import make_dense

X = np.zeros((2, 3), "float32")
WHOLE = np.array([[0, 5, 0], [0, 0, -1.5]], "float32")
FLAT, ROWS = [1, 5], [[0, 1], [1, 2]]


def sparse(indices, values=(5, -1.5), shape=(2, 3)):
    return helper.make_sparse_tensor(
        numpy_helper.from_array(np.array(values, "float32"), "w"),
        numpy_helper.from_array(np.array(indices, "int64"), "places"),
        shape,
    )


def adding(*before):
    nodes = [*before, helper.make_node("Add", ["x", "w"], ["y"])]
    return graph_of(nodes, {"x": X}, ["y"])


@pytest.mark.parametrize("indices", [FLAT, ROWS])
def test_initialisers_have_all_of_their_zeros(indices):
    model = adding()
    model.graph.sparse_initializer.append(sparse(indices))
    make_dense(model)
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(model))
    (weight,) = model.graph.initializer
    assert weight.name == "w"
    np.testing.assert_array_equal(numpy_helper.to_array(weight), WHOLE)


@pytest.mark.parametrize("indices", [FLAT, ROWS])
def test_constants_have_all_of_their_zeros(indices):
    model = adding(helper.make_node("Constant", [], ["w"], sparse_value=sparse(indices)))
    make_dense(model)
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(model))
    (attribute,) = model.graph.node[0].attribute
    np.testing.assert_array_equal(helper.get_attribute_value(attribute).dims, [2, 3])
    np.testing.assert_array_equal(numpy_helper.to_array(attribute.t), WHOLE)


def test_one_of_nothing_but_zeros():
    model = adding()
    model.graph.sparse_initializer.append(sparse([], values=()))
    make_dense(model)
    assert not numpy_helper.to_array(model.graph.initializer[0]).any()


def test_constants_in_branches_are_found():
    branch = helper.make_graph(
        [helper.make_node("Constant", [], ["w"], sparse_value=sparse(FLAT))],
        "branch",
        [],
        [helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, (2, 3))],
    )
    node = helper.make_node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch)
    model = graph_of([node], {"yes": np.array(True)}, ["y"])
    make_dense(model)
    for attribute in model.graph.node[0].attribute:
        assert attribute.g.node[0].attribute[0].name == "value"


def test_more_than_the_memory_holds_is_refused():
    model = adding()
    model.graph.sparse_initializer.append(sparse(FLAT, shape=(2**40, 3)))
    with pytest.raises(ModelError, match=r"^the sparse constant 'w' is a tensor of shape"):
        make_dense(model)
